"""Consumer groups (KIP-848): members say what they want, the coordinator assigns.

A heartbeat (`heartbeat`) may change what its member wants; that raises the group's epoch. A new
target (`target`, `assignors/`) catches up with the group's epoch, and each member is led towards
its part of the target (`reconcile`), partition by partition: nobody gets what somebody else has not
let go. `leaving` is about members that go, or have to; `regexes` about subscriptions by pattern.
"""
