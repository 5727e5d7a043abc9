"""Three real nodes, real clients, and faults of every kind, until a judge has seen enough.

    python -m tests.system.chaos --minutes 60 --seed 7 --report chaos.md

`trio` has the nodes, the wires between them and their disks; `faults` what can happen to them;
`load` the clients; `judge` what must hold; `run` plays a game of it, and `report` tells of it.
"""
