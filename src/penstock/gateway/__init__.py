"""Schema registry, REST, console and metrics: clients in a process of their own.

Imports none of the broker's rooms but `model`. Nothing is built here yet.
"""
