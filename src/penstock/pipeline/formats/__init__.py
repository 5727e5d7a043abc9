"""Bytes to columns, and columns to bytes.

`decode` says for each record what its columns are and, where it cannot be read, why; it never
throws a record away, that is the source's decision. `encode` is its counterpart for sinks. One
module per format; `registry` and `framing` know the payloads that a schema registry's clients
write.
"""
