"""Streams groups (KIP-1071): instances of Kafka Streams say what they compute, and get their tasks.

The first member brings the application's topology (`topology`); `configuring` says what it takes to
run it here: which topics are missing, and how many tasks there are. A heartbeat (`heartbeat`) may
change the group; that raises its epoch. A new target (`target`, `assignor`) catches up with the
epoch, and each member is led towards its part of it (`reconcile`): nobody gets an active task that
somebody else has not let go, and no process has two copies of one.
"""
