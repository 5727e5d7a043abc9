"""What a share group has out of one partition: who holds which record, and what became of it. Pure.

The partition's leader keeps one `Delivery` for each share group that reads it. It owns the states
of the records in flight, their locks, delivery counts and back-off. It never reads a log, never
talks to the share coordinator and never looks at a clock: readers tell it what they found, and it
hands out what has to be written down, whom to wake, and which records are to be buried. Enter at
`machine.Delivery`; what goes in and out is in `effects`.
"""
