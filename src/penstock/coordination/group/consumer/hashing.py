"""A number that changes when a group's topics do.

It stands in the group's record, so that a coordinator sees at once whether something changed while
nobody looked. The numbers are Kafka's: XXH3 over little-endian fields and UTF-16 text, each text
followed by its length.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.metadata.image import MetadataImage
    from penstock.metadata.topics import TopicImage

_MAGIC = 0
"""Of this way of hashing; another way would have another number."""

_HEAD = Struct("<bQQ")
_ID = Struct(">QQ")
_int = Struct("<i").pack
_long = Struct("<q").pack


def topic_hash(topic: TopicImage, image: MetadataImage) -> int:
    """Over the topic's id, name, partitions, and the racks of their replicas."""
    brokers = image.cluster.brokers
    data = bytearray(_HEAD.pack(_MAGIC, *_ID.unpack(topic.id)))
    data += _text(topic.name) + _int(len(topic.partitions))
    for index in range(len(topic.partitions)):
        data += _int(index)
        replicas = (brokers.get(it) for it in topic.partitions[index].replicas)
        for rack in sorted(it.rack for it in replicas if it is not None and it.rack is not None):
            data += _int(_units(rack)) + _text(rack)
    return _xxh3(bytes(data))


def group_hash(names: Iterable[str], image: MetadataImage, cache: dict[str, int]) -> int:
    """Over all topics that exist; 0 if none does. `cache` keeps the topics' own hashes."""
    by_name = image.topics.by_name
    data = bytearray()
    for name in sorted(names):
        topic = by_name.get(name)
        if topic is not None:
            known = cache.get(name)
            if known is None:
                known = cache[name] = topic_hash(topic, image)
            data += _long(known)
    return _xxh3(bytes(data)) if data else 0


def _text(text: str) -> bytes:
    return text.encode("utf-16-le", "surrogatepass") + _int(_units(text))


def _units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _xxh3(data: bytes) -> int:
    from xxhash import xxh3_64_intdigest  # when the first group comes, not when the node starts

    number: int = xxh3_64_intdigest(data)
    return number - (1 << 64) if number >> 63 else number
