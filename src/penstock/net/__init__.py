"""Framing, listeners and connections.

Owns sockets and their bounds. It never looks inside a request beyond its header. Enter at `framing` (pure) and `listener`.
"""
