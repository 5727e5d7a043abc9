"""Groups that change their protocol while they run.

A classic group becomes a consumer group when somebody joins it with the new protocol (`upgrading`),
and a classic one again when the last such member leaves (`downgrading`). In between `speaking`
answers those who still speak the classic protocol. `group.consumer.migration.policy` says which
ways are open.
"""
