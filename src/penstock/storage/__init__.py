"""Logs on disk in Kafka's formats: segments, indexes, checkpoints, recovery, retention, compaction.

Owns every file under a log directory. It never decides who leads or what is committed.
Enter at `log` and `store`.
"""
