"""Whole clusters in one process under virtual time, decided by a seed.

Every node is the real one; what surrounds it is not. `loop` lets time pass, `process` can be paused
and killed, `network` carries bytes late or never, `disk` forgets what was not synced, `workers` and
`chance` fill in the rest. `node` puts a node on a machine, `cluster` puts machines together, and
`clients` talk to them and keep a history. `promises` says what must hold meanwhile. The stories
that are told with all this, fault by fault, are in the repository's tests/sim.
"""
