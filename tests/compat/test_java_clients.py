"""Apache's Java consumer in groups of all kinds, with members that come, go and are killed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.compat.java.ownership import owned_twice, owners
from tests.compat.java.programs import Event, Program, wait_until
from tests.compat.rdkafka_crew import PARTITIONS, Stream
from tests.oracle.nodes import Node

pytestmark = pytest.mark.java

SETTLE_SECONDS_MAX = 90
# A dead member is missed after this time. A shorter one would fence members of a busy machine.
SESSION_MS = 6000

CLASSIC = ("group.protocol=classic", f"session.timeout.ms={SESSION_MS}",
           "heartbeat.interval.ms=500")  # fmt: skip
_ASSIGNOR = "partition.assignment.strategy=org.apache.kafka.clients.consumer."
RANGE = (*CLASSIC, f"{_ASSIGNOR}RangeAssignor")
COOPERATIVE = (*CLASSIC, f"{_ASSIGNOR}CooperativeStickyAssignor")
NEW = ("group.protocol=consumer",)

PROTOCOLS = {"range": RANGE, "cooperative-sticky": COOPERATIVE, "consumer": NEW}


# A broker that misses members of the new protocol as soon as those of the classic one.
SHORT_SESSIONS = {
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.session.timeout.ms": str(SESSION_MS),
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "500",
}


@pytest.fixture(scope="module")
def node(target: type[Node], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """One broker for all tests that do it no harm."""
    with target(tmp_path_factory.mktemp("node"), config=SHORT_SESSIONS) as running:
        yield running


class Crew:
    """The members of one group, in JVMs that can be killed apart from each other."""

    def __init__(self, node: Node, topic: str, folder: Path, settings: tuple[str, ...]) -> None:
        self._arguments = (
            topic, f"bootstrap.servers={node.bootstrap}", f"group.id=group-{topic}",
            "auto.offset.reset=earliest", "enable.auto.commit=false",
            # A commit that a killed broker never answers holds a member up, but not for a minute.
            "default.api.timeout.ms=15000", *settings,
        )  # fmt: skip
        self._folder = folder
        self._programs: dict[str, Program] = {}
        self._members: dict[str, list[str]] = {}
        self._past: list[Event] = []
        self.killed: dict[str, float] = {}

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, *_: object) -> None:
        for jvm in list(self._programs):
            self.kill(jvm)

    def start(self, jvm: str, member: str, *settings: str) -> None:
        if jvm not in self._programs:
            self._programs[jvm] = Program(
                "Members.java", *self._arguments, output=self._folder / f"{jvm}.log"
            )
        self._programs[jvm].tell("start", member, *settings)
        self._members.setdefault(jvm, []).append(member)

    def stop(self, jvm: str, member: str) -> None:
        """Have the member leave in peace, and wait until it has."""
        before = self._closed(member)
        self._programs[jvm].tell("stop", member)
        self._members[jvm].remove(member)
        self._wait(lambda: self._closed(member) > before, f"{member} closes")

    def kill(self, jvm: str) -> None:
        """kill -9 for all members in one JVM."""
        program = self._programs.pop(jvm)
        moment = program.kill()
        self._past += program.events
        self.killed |= dict.fromkeys(self._members.pop(jvm), moment)

    @property
    def events(self) -> list[Event]:
        return self._past + [
            event for program in self._programs.values() for event in list(program.events)
        ]

    def owners(self) -> dict[int, str]:
        return owners(self.events, self.killed)

    def settle(self, *members: str) -> None:
        """Wait until exactly these members own all partitions, shared evenly."""
        share = PARTITIONS // len(members)

        def settled() -> bool:
            owned = Counter(self.owners().values())
            return owned.keys() == set(members) and set(owned.values()) == {share}

        self._wait(settled, f"{members} own {share} partitions each")

    def consumed(self) -> set[int]:
        return {
            value
            for event in self.events
            if event["event"] == "consumed"
            for value in event["values"]
        }

    def wait_for_progress(self, stream: Stream) -> None:
        """Wait until records that were sent from now on are read, out of each partition."""
        fresh = range(stream.sent + PARTITIONS, stream.sent + 2 * PARTITIONS)
        self._wait(lambda: self.consumed().issuperset(fresh), f"{fresh} are consumed")

    def wait_for_all(self, stream: Stream) -> None:
        everything = set(range(stream.sent))
        self._wait(lambda: self.consumed() >= everything, "every record is consumed")

    def check(self) -> None:
        assert owned_twice(self.events, self.killed) == []
        assert [event for event in self.events if event["event"] == "failed"] == []

    def _closed(self, member: str) -> int:
        return sum(
            event["event"] == "closed" and event["member"] == member for event in self.events
        )

    def _wait(self, holds: Callable[[], bool], what: str) -> None:
        def complaints() -> str:
            said = [f"owners: {self.owners()}"]
            said += [program.complaints() for program in self._programs.values()]
            return "\n".join(said)

        wait_until(holds, what, SETTLE_SECONDS_MAX, complaints)


@pytest.mark.parametrize("settings", PROTOCOLS.values(), ids=PROTOCOLS)
def test_a_group_shares_all_partitions_whoever_joins_leaves_or_is_killed(
    node: Node, topic: str, tmp_path: Path, settings: tuple[str, ...]
) -> None:
    with Stream(node, topic) as stream, Crew(node, topic, tmp_path, settings) as crew:
        crew.start("stays", "a")
        crew.start("dies", "x")
        crew.settle("a", "x")
        crew.start("stays", "b")
        crew.start("dies", "y")
        crew.settle("a", "b", "x", "y")
        crew.wait_for_progress(stream)

        crew.kill("dies")
        crew.settle("a", "b")
        crew.wait_for_progress(stream)

        crew.start("stays", "c")
        crew.settle("a", "b", "c")
        crew.stop("stays", "a")
        crew.settle("b", "c")
        crew.wait_for_progress(stream)

        stream.end()
        crew.wait_for_all(stream)
        crew.check()


@pytest.mark.parametrize("settings", PROTOCOLS.values(), ids=PROTOCOLS)
def test_a_group_outlives_a_node_that_is_killed(
    make_node: Callable[..., Node], topic: str, tmp_path: Path, settings: tuple[str, ...]
) -> None:
    node = make_node(config=SHORT_SESSIONS)
    node.start()
    with Stream(node, topic) as stream, Crew(node, topic, tmp_path, settings) as crew:
        for member in ("a", "b", "c"):
            crew.start("jvm", member)
        crew.settle("a", "b", "c")
        crew.wait_for_progress(stream)
        node.kill()
        node.start()
        crew.settle("a", "b", "c")
        crew.wait_for_progress(stream)
        stream.end()
        crew.wait_for_all(stream)
        crew.check()


@pytest.mark.parametrize("settings", PROTOCOLS.values(), ids=PROTOCOLS)
def test_a_static_member_comes_back_to_its_partitions_and_disturbs_nobody(
    node: Node, topic: str, tmp_path: Path, settings: tuple[str, ...]
) -> None:
    with Stream(node, topic) as stream, Crew(node, topic, tmp_path, settings) as crew:
        for member in ("a", "b", "c"):
            crew.start("jvm", member, f"group.instance.id={member}")
        crew.settle("a", "b", "c")
        crew.wait_for_progress(stream)
        before = crew.owners()
        disturbed = _disturbances(crew, "a", "b")

        crew.stop("jvm", "c")
        crew.start("jvm", "c", "group.instance.id=c")
        crew.settle("a", "b", "c")
        assert crew.owners() == before
        assert _disturbances(crew, "a", "b") == disturbed
        stream.end()
        crew.wait_for_all(stream)
        crew.check()


def test_a_static_member_that_was_killed_is_replaced_by_the_next_of_its_name(
    node: Node, topic: str, tmp_path: Path
) -> None:
    with Stream(node, topic) as stream, Crew(node, topic, tmp_path, RANGE) as crew:
        crew.start("stays", "a", "group.instance.id=first", "session.timeout.ms=45000")
        crew.start("dies", "x", "group.instance.id=second", "session.timeout.ms=45000")
        crew.settle("a", "x")
        before, disturbed = crew.owners(), _disturbances(crew, "a")

        crew.kill("dies")
        crew.start("next", "y", "group.instance.id=second", "session.timeout.ms=45000")
        crew.settle("a", "y")
        assert crew.owners() == {
            partition: "y" if owner == "x" else owner for partition, owner in before.items()
        }
        assert _disturbances(crew, "a") == disturbed
        stream.end()
        crew.wait_for_all(stream)
        crew.check()


@pytest.mark.parametrize(
    ("before", "after"), [(RANGE, NEW), (COOPERATIVE, NEW), (NEW, RANGE)],
    ids=["range to consumer", "cooperative-sticky to consumer", "consumer to range"],
)  # fmt: skip
def test_a_group_changes_its_protocol_member_by_member_without_a_pause(
    node: Node, topic: str, tmp_path: Path, before: tuple[str, ...], after: tuple[str, ...]
) -> None:
    with Stream(node, topic) as stream, Crew(node, topic, tmp_path, ()) as crew:
        for member in ("a", "b", "c"):
            crew.start("jvm", member, *before)
        crew.settle("a", "b", "c")
        crew.wait_for_progress(stream)
        for old, new, others in (("a", "x", "bc"), ("b", "y", "cx"), ("c", "z", "xy")):
            crew.stop("jvm", old)
            crew.start("jvm", new, *after)
            crew.settle(new, *others)
            crew.wait_for_progress(stream)
        stream.end()
        crew.wait_for_all(stream)
        crew.check()


def _disturbances(crew: Crew, *members: str) -> int:
    """How often these members had to let go of something."""
    return sum(
        event["event"] in ("revoked", "lost") and event["member"] in members
        for event in crew.events
    )
