"""What groups have committed, kept until nobody can want it any more.

`table` holds the offsets that count and those that wait for a transaction's end; only `replay`
(and `quick`, while a shard is loaded) changes it. `committing` and `fetching` are what clients ask
for; `expiry` and `tombstones` forget what is old, deleted, or of topics that are gone.
"""
