"""Framing, listeners and connections.

Owns sockets and their bounds. It never looks inside a request: frames go to a service.
Enter at `listener`; `framing` is pure.
"""
