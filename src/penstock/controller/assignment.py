"""Which brokers hold a partition while it moves, pure.

A partition that moves has the brokers that it moves to (`adding`) and those that it leaves
(`removing`) among its replicas. When all that are to stay are in sync, the others are dropped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.metadata.topics import PartitionImage


def completed(
    partition: PartitionImage, isr: tuple[int, ...]
) -> tuple[PartitionImage, tuple[int, ...]]:
    """The partition, and who is in sync, once it has moved; as they are while it has not."""
    if not partition.reassigning:
        return partition, isr
    staying = [node for node in partition.replicas if node not in partition.removing]
    if not staying or not set(staying) <= set(isr):
        return partition, isr
    moved = _on(partition, staying, None)._replace(adding=(), removing=())
    return moved, tuple(node for node in isr if node not in partition.removing)


def moving_to(
    partition: PartitionImage, target: Sequence[int], directory_of: Callable[[int], bytes]
) -> PartitionImage:
    """The partition on its way to `target`: nothing is dropped before the new ones are in sync."""
    here = partition.replicas
    wanted = set(target)
    leaving = sorted(set(here) - wanted)
    arriving = (wanted - set(here)) | (wanted & set(partition.adding))
    both = _on(partition, [*target, *leaving], directory_of)
    return both._replace(adding=tuple(sorted(arriving)), removing=tuple(leaving))


def moving_back(partition: PartitionImage) -> PartitionImage:
    """The partition where it was before it began to move."""
    before = [node for node in partition.replicas if node not in partition.adding]
    return _on(partition, before, None)._replace(adding=(), removing=())


def _on(
    partition: PartitionImage,
    nodes: Sequence[int],
    directory_of: Callable[[int], bytes] | None,
) -> PartitionImage:
    """The partition on other nodes; those that it had keep their directories."""
    known = dict(zip(partition.replicas, partition.directories, strict=True))
    directories = []
    for node in nodes:
        directory = known.get(node)
        if directory is None:
            assert directory_of is not None, "only a move to other nodes needs their directories"
            directory = directory_of(node)
        directories.append(directory)
    return partition._replace(replicas=tuple(nodes), directories=tuple(directories))
