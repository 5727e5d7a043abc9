"""Clients of a simulated cluster: they speak the real requests and keep a history.

They retry as Kafka's clients do and are smaller: one request in flight per partition, one
partition per fetch. `talk` is what all of them share; the others are producers and readers.
"""
