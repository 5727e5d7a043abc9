"""How a name finds its shard: by the hash of a Java string, or clients would be sent elsewhere."""

from __future__ import annotations


def java_hash(text: str) -> int:
    """`String.hashCode`: over UTF-16 units, in 32 bits with a sign."""
    code = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(units), 2):
        code = (code * 31 + (units[at] << 8 | units[at + 1])) & 0xFFFFFFFF
    return code - (1 << 32) if code >> 31 else code


def shard_of(key: str, shards: int) -> int:
    """The shard that a name belongs to, of so many."""
    code = java_hash(key)
    # Java has no positive counterpart of its least integer, and Kafka takes zero for it.
    return (0 if code == -(1 << 31) else abs(code)) % shards
