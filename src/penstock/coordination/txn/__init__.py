"""The transaction coordinator: who may write under a transactional id, and how each attempt ends.

`shard` holds the transactional ids of one partition of `__transaction_state`; `states` has the
table of all transitions, and `transaction` what is known of one id. Requests enter through free
functions of the other files, as steps of the runtime: `beginning` (InitProducerId), `adding`
(partitions join a transaction, or are verified to be in it), `ending` (EndTxn, timeouts, and what
follows the markers), `expiry` and `listing`. Pure: time, producer ids and metadata come in as
arguments; markers go out as errands.
"""
