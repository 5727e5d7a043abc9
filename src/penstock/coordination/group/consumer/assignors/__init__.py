"""Who gets which partition. Pure functions of what members want and what they have.

The names are Kafka's, and so are the promises: `uniform` spreads partitions evenly and moves as few
as it can; `range` gives each member neighbouring partitions, the same numbers in every topic.
Neither looks at racks, as in Kafka 4.3.
"""

from __future__ import annotations

from penstock.coordination.group.consumer.assignors.range import assign_ranges
from penstock.coordination.group.consumer.assignors.uniform import assign_uniformly
from penstock.coordination.group.consumer.assignors.wish import Assignor

UNIFORM, RANGE = "uniform", "range"

ASSIGNORS: dict[str, Assignor] = {UNIFORM: assign_uniformly, RANGE: assign_ranges}

_KAFKA_CLASSES = "org.apache.kafka.coordinator.group.assignor."
_BY_CLASS = {f"{_KAFKA_CLASSES}UniformAssignor": UNIFORM, f"{_KAFKA_CLASSES}RangeAssignor": RANGE}


def assignor_names(configured: tuple[str, ...]) -> tuple[str, ...]:
    """What `group.consumer.assignors` allows, by name; it may list Kafka's classes instead.

    Classes of somebody's own mean nothing here. If there are no others, all that there is counts.
    """
    names = (_BY_CLASS.get(name, name) for name in configured)
    return tuple(name for name in names if name in ASSIGNORS) or tuple(ASSIGNORS)
