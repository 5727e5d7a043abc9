"""Coordinators of groups, shares and transactions over one runtime.

A coordinator is a topic of its own, and each of the topic's partitions a shard with its own
machine. This room owns the runtime (`runtime`), which appends what machines decide, replays what
was appended, and releases replies when they are committed; and the pure machines in `group/`,
`share/` and `txn/`. What a share group has out of a partition is no coordinator's business but its
leader's: `delivery/`. The room never touches a socket. Enter at `runtime`; `effects` says what a
machine may ask for.
"""
