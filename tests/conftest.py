"""What every test may ask for: toolchains, a broker, Apache's tools.

PENSTOCK_TEST_TARGET=apache points the tests of tests/compat and tests/system at Apache Kafka: a
test that fails there asks for something that Kafka does not do.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.oracle import apache
from tests.oracle.nodes import TARGETS, Node
from tests.oracle.tools import Tools
from tests.system import senders

TARGET = os.environ.get("PENSTOCK_TEST_TARGET", "penstock")

# On a shared machine the time that an example takes says nothing about it.
settings.register_profile(
    "patient", parent=settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("patient")


def _lacks(program: str, hint: str) -> str | None:
    return None if shutil.which(program) else f"no {program} on PATH ({hint})"


# marker -> (what it means, why it cannot run here or None)
NEEDS: dict[str, tuple[str, Callable[[], str | None]]] = {
    "java": ("needs a Java toolchain and Apache Kafka's jars", apache.missing),
    "go": ("needs a Go toolchain", lambda: _lacks("go", "Go 1.26 or later")),
    "kcat": ("needs kcat", lambda: _lacks("kcat", "Debian's package kcat")),
    "root": ("needs root", lambda: None if os.geteuid() == 0 else "not running as root"),
    "penstock_only": (
        "asks for more than Apache Kafka promises",
        lambda: "the target is Apache Kafka" if TARGET == "apache" else None,
    ),
}


def pytest_configure(config: pytest.Config) -> None:
    for marker, (meaning, _) in NEEDS.items():
        config.addinivalue_line("markers", f"{marker}: {meaning}")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give out files in an order that keeps all workers and cores busy to the end.

    Those with a test that takes minutes come first: at the end, one would keep all waiting. Files
    of pipelines, which compute, take turns with those of nodes, which mostly wait. What is left
    comes last: py4j waits for Java with select(), which knows no descriptor above 1023, and tests
    of storage leave thousands of files open in their process.
    """
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    turns: Counter[tuple[int, bool]] = Counter()
    places: dict[Path, tuple[int, int, bool]] = {}
    for path in dict.fromkeys(item.path for item in items):
        computes = "pipeline" in path.parts
        waits = not {"compat", "system"}.isdisjoint(path.parts)
        stage = 0 if path in slow else 1 if computes or waits else 2
        places[path] = (stage, turns[stage, computes], not computes)
        turns[stage, computes] += 1
    items.sort(key=lambda item: places[item.path])


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what this machine cannot run, and say why. In CI everything must be there."""
    for marker, (_, why_not) in NEEDS.items():
        if item.get_closest_marker(marker) is None or (reason := why_not()) is None:
            continue
        if os.environ.get("CI") == "true" and marker != "penstock_only":
            pytest.fail(f"CI runs every test, but: {reason}", pytrace=False)
        pytest.skip(reason)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, None, None]:
    with senders.stopped_with_the_test():
        return (yield)


@pytest.fixture(scope="session")
def target() -> type[Node]:
    """The broker under test: Penstock's, or Apache's to prove a test right."""
    if TARGET not in TARGETS:
        pytest.exit(f"PENSTOCK_TEST_TARGET is {TARGET!r}, expected one of {sorted(TARGETS)}")
    return TARGETS[TARGET]


@pytest.fixture(scope="session")
def broker(target: type[Node], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """One running broker for all tests that do it no harm."""
    with target(tmp_path_factory.mktemp("broker")) as node:
        yield node


@pytest.fixture
def make_node(target: type[Node], tmp_path: Path) -> Iterator[Callable[..., Node]]:
    """A maker of brokers for tests that break theirs: not started, ended after the test."""
    made: list[Node] = []

    def make(name: str = "node", **options: object) -> Node:
        node = target(tmp_path / name, **options)  # type: ignore[arg-type]
        made.append(node)
        return node

    yield make
    for node in made:
        node.close()


@pytest.fixture(scope="session")
def tools() -> Iterator[Tools]:
    """Apache's command-line tools."""
    running = Tools()
    yield running
    running.close()


@pytest.fixture
def topic() -> str:
    """A topic name that no other test uses."""
    return f"t-{uuid.uuid4().hex[:12]}"
