"""Nodes in one process under virtual time: `loop` is the clock, the rest is built on it."""
