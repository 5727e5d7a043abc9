"""The replicated metadata log: who leads it and what is committed.

Owns: `__cluster_metadata-0` with its log, its snapshots, the vote, and the formatting of a new
directory. It knows what a metadata record looks like but never decides what one should say. Pure
machines decide; `driver` owns the log and the clock. Enter at `driver`.
"""
