"""The words of the benchmark: a case, what it measures, and what it should reach."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from statistics import median
from typing import NamedTuple

from tests.oracle.nodes import Node

Measures = dict[str, float]


class Scale(NamedTuple):
    """How much work a run does. Quick answers "is it broken", full is worth quoting."""

    rounds: int
    records: int  # of 100 B in a produce or consume case
    single_records: int  # sent as a batch each
    sync_records: int
    flush_seconds: float
    commits: int
    transactions: int
    idle_groups: int
    idle_seconds: float
    partitions: int
    own_node_rounds: int
    pipeline_rows: int
    real_time_records: int


FULL = Scale(
    rounds=5,
    records=3_000_000,
    single_records=50_000,
    sync_records=5_000,
    flush_seconds=5,
    commits=20_000,
    transactions=500,
    idle_groups=1_000,
    idle_seconds=5,
    partitions=10_000,
    own_node_rounds=3,
    pipeline_rows=600_000,
    real_time_records=500,
)
QUICK = Scale(
    rounds=1,
    records=200_000,
    single_records=5_000,
    sync_records=500,
    flush_seconds=1,
    commits=1_000,
    transactions=50,
    idle_groups=100,
    idle_seconds=2,
    partitions=100,
    own_node_rounds=1,
    pipeline_rows=20_000,
    real_time_records=50,
)


class Kind(Enum):
    """How a number is judged."""

    RATIO_MAX = "at most {:.3g} of Kafka's"
    RATIO_MIN = "at least {:.3g} of Kafka's"
    OWN_MAX = "at most {:.3g}"  # Penstock's own number, whatever Kafka's is
    OWN_MIN = "at least {:.3g}"
    REPORTED = "none"  # a number to read the others by
    BARE = "no broker in it"  # what a bare program takes, beside either


class Criterion(NamedTuple):
    """One row of the result: a measure of a case, and its target."""

    measure: str
    title: str
    unit: str
    kind: Kind
    bound: float

    @property
    def target(self) -> str:
        return self.kind.value.format(self.bound)

    def met(self, penstock: float, apache: float) -> bool:
        if self.kind is Kind.OWN_MAX:
            return penstock <= self.bound
        if self.kind is Kind.OWN_MIN:
            return penstock >= self.bound
        if self.kind in (Kind.REPORTED, Kind.BARE):
            return True
        ratio = penstock / apache
        return ratio <= self.bound if self.kind is Kind.RATIO_MAX else ratio >= self.bound


class Case(NamedTuple):
    """Something done to a broker, alike for both.

    `run` gets a running node that it shares with other cases, or (`own_node`) a fresh one that is
    not started yet, and may be killed.
    """

    name: str
    title: str
    run: Callable[[Node, Scale], Measures]
    criteria: tuple[Criterion, ...]
    own_node: bool = False
    warm_ups: int = 1

    def rounds(self, scale: Scale) -> int:
        return scale.own_node_rounds if self.own_node else scale.rounds


class Row(NamedTuple):
    """A criterion with its medians."""

    case: Case
    criterion: Criterion
    apache: list[float]
    penstock: list[float]

    @property
    def medians(self) -> tuple[float, float]:
        return median(self.apache), median(self.penstock)

    @property
    def ratio(self) -> float:
        apache, penstock = self.medians
        return penstock / apache if apache else float("inf")

    @property
    def ok(self) -> bool:
        apache, penstock = self.medians
        return self.criterion.met(penstock, apache)


def cpu(bound: float) -> Criterion:
    return Criterion("cpu", "broker CPU", "s", Kind.RATIO_MAX, bound)


def throughput(measure: str = "rate") -> Criterion:
    return Criterion(measure, "throughput", "records/s", Kind.RATIO_MIN, 1.0)
