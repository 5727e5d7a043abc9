"""Runs the cases in interleaved rounds: Kafka, Penstock, Kafka, Penstock, ..."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench.groups import NODE_CONFIG
from bench.model import Case, Row, Scale
from bench.pages import back_free_pages
from tests.oracle import apache
from tests.oracle.nodes import ApacheNode, Node, PenstockNode

TARGETS = ("apache", "penstock")


class Runner:
    """Holds the two brokers that the traffic cases share, and every number measured.

    Both run at the same time and take turns, so that whatever else the machine does touches both;
    the one that is not its turn sleeps.
    """

    def __init__(self, scale: Scale, targets: Sequence[str] = TARGETS) -> None:
        self.scale = scale
        self.targets = targets
        # case name, measure, target -> a number per round
        self.numbers: dict[tuple[str, str, str], list[float]] = defaultdict(list)
        self.failures: dict[str, Exception] = {}
        """Why a case came to no end, by its name. What it had measured until then counts."""

    def run(self, cases: Sequence[Case]) -> list[Row]:
        shared = [case for case in cases if not case.own_node]
        with tempfile.TemporaryDirectory(prefix="bench-") as scratch:
            if shared:
                with ExitStack() as stack:
                    nodes = {
                        each: stack.enter_context(_node(each, scratch)) for each in self.targets
                    }
                    for node in nodes.values():
                        node.start()
                    for case in shared:
                        with self._attempted(case):
                            self._share(case, nodes)
            for case in cases:
                if case.own_node:
                    with self._attempted(case):
                        self._own(case, scratch)
        return self._rows(cases)

    @contextmanager
    def _attempted(self, case: Case) -> Iterator[None]:
        """An hour's numbers are not lost by one case that fails."""
        try:
            yield
        except Exception as problem:  # noqa: BLE001 - told now, and again in the end
            self.failures[case.name] = problem
            progress(f"{case.name:24} FAILED: {problem}")

    def _share(self, case: Case, nodes: dict[str, Node]) -> None:
        # A JVM compiles while it warms up: without this Kafka would pay for it in the result.
        for _ in range(case.warm_ups):
            for node in nodes.values():
                case.run(node, self.scale)
        for number in range(case.rounds(self.scale)):
            for target, node in nodes.items():
                self._measure(case, number, target, node)

    def _own(self, case: Case, scratch: str) -> None:
        for _ in range(case.warm_ups):
            for target in self.targets:
                with _node(target, scratch) as node:
                    case.run(node, self.scale)
        for number in range(case.rounds(self.scale)):
            for target in self.targets:
                with _node(target, scratch) as node:
                    self._measure(case, number, target, node)

    def _measure(self, case: Case, number: int, target: str, node: Node) -> None:
        # What the case before left to be written back would be waited for in this one.
        os.sync()
        back_free_pages(tempfile.gettempdir())
        begin = time.monotonic()
        measures = case.run(node, self.scale)
        for name, value in measures.items():
            self.numbers[case.name, name, target].append(value)
        shown = ", ".join(f"{name} {value:,.4g}" for name, value in measures.items())
        took = time.monotonic() - begin
        progress(f"{case.name:24} round {number + 1} {node.name:12} {took:5.1f} s: {shown}")

    def _rows(self, cases: Sequence[Case]) -> list[Row]:
        return [
            Row(
                case,
                criterion,
                *(self.numbers[case.name, criterion.measure, target] for target in TARGETS),
            )
            for case in cases
            for criterion in case.criteria
        ]


@contextmanager
def _node(target: str, scratch: str) -> Iterator[Node]:
    """A broker that is not started yet; ended, and its files emptied, when the work is done.

    They are removed when all is over: ext4 uses no inode again for some minutes after its removal,
    and looks at all such ones whenever it wants another. After 10,000 partitions had been removed,
    each new file cost most of a millisecond of whoever made it.
    """
    directory = Path(tempfile.mkdtemp(prefix=f"{target}-", dir=scratch))
    node: Node
    if target == "apache":
        node = ApacheNode(
            directory, config=NODE_CONFIG, heap=apache.HEAP_SHIPPED, options=apache.JVM_OPTIONS
        )
    else:
        node = PenstockNode(directory, config=NODE_CONFIG)
    try:
        yield node
    finally:
        node.close()
        for path in directory.rglob("*"):
            if path.is_file() and not path.is_symlink():
                os.truncate(path, 0)


def progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
