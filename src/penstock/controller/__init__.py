"""Decides about topics, brokers, placement, configurations and features.

Owns: what is allowed, and which records a change is made of. The machine is pure: a request, the
latest image and the time go in, records and a reply come out; it never writes a log and never
waits. Enter at `machine` for the decisions and at `driver` for a controller that runs.
"""
