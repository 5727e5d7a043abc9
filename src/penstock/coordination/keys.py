"""How a name finds its shard: by the hash of a Java string, or clients would be sent elsewhere."""

from __future__ import annotations

from functools import lru_cache

NAME_REMEMBERED_MAX = 256
"""Longer names are looked at anew each time: what is remembered of strangers' words is bounded."""


def java_hash(text: str) -> int:
    """`String.hashCode`: over UTF-16 units, in 32 bits with a sign."""
    code = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(units), 2):
        code = (code * 31 + (units[at] << 8 | units[at + 1])) & 0xFFFFFFFF
    return code - (1 << 32) if code >> 31 else code


_remembered_hash = lru_cache(maxsize=8192)(java_hash)
"""The same names come with every heartbeat and commit, and a hash costs as much as the rest."""


def shard_of(key: str, shards: int) -> int:
    """The shard that a name belongs to, of so many."""
    code = (_remembered_hash if len(key) <= NAME_REMEMBERED_MAX else java_hash)(key)
    # Java has no positive counterpart of its least integer, and Kafka takes zero for it.
    return (0 if code == -(1 << 31) else abs(code)) % shards
