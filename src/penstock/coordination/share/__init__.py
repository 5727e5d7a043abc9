"""The share coordinator: how far share groups have come, partition by partition. Pure.

A shard keeps the state of those keys (group, topic, partition) that hash to one partition of
`__share_group_state`, in Kafka's records. Leaders of partitions read it when they begin to serve a
share group and write what became of records; the group coordinator initialises and deletes it.
Epochs fence whoever is out of date. It never knows who consumes, or why a record came back. Enter
at `shard.ShareShard`; requests are steps in `reading`, `updating` and `beginning`.
"""
