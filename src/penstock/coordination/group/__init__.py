"""The group coordinator: consumers that share work, and how far they have come.

`shard` holds the groups and offsets of one partition of `__consumer_offsets` and routes records to
whoever replays them. `classic/` is the protocol where clients assign, `consumer/` the one where
the coordinator does, `offsets/` what groups commit. Pure: time, chance and metadata come in as
arguments.
"""
