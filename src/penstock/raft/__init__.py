"""The replicated metadata log: who leads it and what is committed.

Pure machines decide; `driver` owns the log and the clock. Enter at `driver`.
"""
