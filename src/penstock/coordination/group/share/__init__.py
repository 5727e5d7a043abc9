"""Share groups (KIP-932): members that share partitions, and what is ready to be shared.

Many members may have the same partition; who gets which record is decided where the partition is
led, not here. A partition is assigned once a share coordinator keeps state for it: the machine asks
for that as an errand, and writes down how far it has come. Enter through `heartbeat`.
"""
