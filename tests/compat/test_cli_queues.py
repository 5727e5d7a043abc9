"""`penstock share` and `penstock dlq`, against a real broker, real members and real letters."""

from __future__ import annotations

import json
import re
import shlex
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition

from penstock.model import dead_letters as names
from penstock.testing.share_client import ShareClient, Word
from tests.oracle.nodes import REPOSITORY, Node
from tests.unit.cli.runner import InProcess, Penstock

SECONDS_MAX = 30


@pytest.fixture
def penstock(broker: Node, tmp_path: Path) -> Penstock:
    return InProcess(tmp_path, broker.bootstrap)


def produce(broker: Node, topic: str, *values: str) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(SECONDS_MAX) == 0


def read(broker: Node, topic: str) -> list[Message]:
    """All that is there, and committed."""
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": "reader", "enable.partition.eof": True}
    )
    count = len(consumer.list_topics(topic).topics[topic].partitions)
    consumer.assign([TopicPartition(topic, number, 0) for number in range(count)])
    found: list[Message] = []
    while count:
        message = consumer.poll(SECONDS_MAX)
        assert message is not None
        if message.error() is None:
            found.append(message)
        else:
            count -= 1
    consumer.close()
    return found


# Share groups.


@pytest.fixture
def shared(penstock: Penstock, broker: Node, topic: str) -> str:
    """A share group, named as its topic is, that begins with the first of ten records."""
    penstock.out("topic", "create", topic, "-p", "2")
    penstock.out("config", "set", "--group", topic, "share.auto.offset.reset=earliest")
    produce(broker, topic, *(f"job {number}" for number in range(10)))
    return topic


@pytest.fixture
def member(broker: Node, shared: str) -> Iterator[ShareClient]:
    with ShareClient(broker.bootstrap, shared, [shared]) as client:
        client.join()
        yield client


def describe(penstock: Penstock, group: str) -> Any:
    return json.loads(penstock.out("share", "describe", group, "-o", "json"))


def offsets_once(penstock: Penstock, group: str, *, lag: int) -> Any:
    """The offsets of partition 0 when its lag is this: what is done with is written down soon."""
    deadline = time.monotonic() + SECONDS_MAX
    while True:
        offsets = [one for one in describe(penstock, group)["offsets"] if one["partition"] == 0]
        if offsets and offsets[0]["lag"] == lag:
            return offsets[0]
        assert time.monotonic() < deadline, offsets
        time.sleep(0.1)


def test_share_groups_are_listed_and_no_others(
    penstock: Penstock, broker: Node, member: ShareClient, shared: str
) -> None:
    plain = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": f"plain-{shared}"})
    plain.commit(offsets=[TopicPartition(shared, 0, 1)], asynchronous=False)
    plain.close()
    listed = json.loads(penstock.out("share", "list", "-o", "json"))
    mine = [one for one in listed if shared in one["group"]]
    assert [(one["group"], one["state"], one["members"]) for one in mine] == [(shared, "stable", 1)]
    assert penstock.out("share", "list", shared[:6] + "*", "-q").split() == [shared]
    assert penstock.out("share", "list", shared, "--state", "empty", "-q") == ""
    counted = json.loads(penstock.out("group", "list", shared, "-o", "json"))
    assert [(one["type"], one["members"]) for one in counted] == [("share", 1)]
    assert member.epoch > 0


def test_a_share_group_is_described_with_members_lag_and_settings(
    penstock: Penstock, member: ShareClient, shared: str
) -> None:
    records = [record for record in member.poll(SECONDS_MAX) if record.partition == 0]
    member.acknowledge(records[4:6])
    offsets = offsets_once(penstock, shared, lag=8)
    assert offsets == {
        "topic": shared, "partition": 0, "start": 0, "end": 10, "ahead": 2, "lag": 8,
    }  # fmt: skip
    described = describe(penstock, shared)
    (one,) = described["members"]
    assert (one["member"], one["client"]) == (member.member, "penstock-cli")
    assert one["assignment"] == {shared: [0, 1]} and one["topics"] == [shared]
    assert described["settings"] == {"share.auto.offset.reset": "earliest"}
    shown = penstock.out("share", "describe", shared)
    assert member.member in shown and f"{shared}:0,1" in shown and "AHEAD" in shown


def test_an_empty_share_group_is_reset_and_one_with_members_is_not(
    penstock: Penstock, broker: Node, shared: str
) -> None:
    with ShareClient(broker.bootstrap, shared, [shared]) as client:
        client.join()
        client.acknowledge(client.poll(SECONDS_MAX))
        offsets_once(penstock, shared, lag=0)
        reset = ("share", "reset", shared, "--topic", f"{shared}:0")
        refused = penstock(*reset, "--to-earliest")
        assert refused.returncode == 1 and "with 1 member" in refused.stderr
    moves = json.loads(penstock.out(*reset, "--to-offset", "4", "--dry-run", "-o", "json"))
    assert [(move["partition"], move["new"]) for move in moves] == [(0, 4)]
    assert offsets_once(penstock, shared, lag=0)["lag"] == 0  # nothing was done
    penstock.out(*reset, "--to-offset", "4")
    assert offsets_once(penstock, shared, lag=6)["start"] == 4
    with ShareClient(broker.bootstrap, shared, [shared]) as client:
        got = client.poll(SECONDS_MAX)
        assert [(one.offset, one.deliveries) for one in got] == [(at, 1) for at in range(4, 10)]
        client.acknowledge(got, Word.ACCEPT)
    penstock.out(*reset, "--to-time", "2000-01-01T00:00")
    assert offsets_once(penstock, shared, lag=10)["start"] == 0
    penstock.out("share", "reset", shared, "--all-topics", "--to-latest")
    assert offsets_once(penstock, shared, lag=0)["start"] == 10


def test_a_share_group_that_is_not_there_is_told(penstock: Penstock, topic: str) -> None:
    for words in (("describe", topic), ("reset", topic, "--all-topics", "--to-latest")):
        ran = penstock("share", *words)
        assert ran.returncode == 1 and "GROUP_ID_NOT_FOUND" in ran.stderr, ran.stderr
        assert "penstock share list" in ran.stderr


# Dead letters.


class Grave:
    """A dead-letter topic of two partitions, and the topic of three that its letters came from."""

    def __init__(self, penstock: Penstock, broker: Node, topic: str) -> None:
        self.source = topic
        self.topic = f"dlq.{topic}"
        penstock.out("topic", "create", self.source, "-p", "3")
        penstock.out("topic", "create", self.topic, "-p", "2")
        self._producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 50})

    def add(self, number: int, reason: str, *, copied: bool = True, group: str = "work") -> None:
        """A letter of the record with this number; each partition of the source has every third."""
        told = {
            names.TOPIC: self.source,
            names.PARTITION: str(number % 3),
            names.OFFSET: str(number // 3),
            names.GROUP: group,
            names.DELIVERY_COUNT: "5",
            names.REASON: reason,
        }
        if not copied:
            told[names.COPIED] = "false"
        self._producer.produce(
            self.topic,
            f"value {number}" if copied else None,
            f"key {number}" if copied else None,
            headers=[("own", b"x"), *((name, text.encode()) for name, text in told.items())],
            partition=number % 3 % 2,
        )
        self._producer.poll(0)

    def fill(self, number: int) -> None:
        """The record itself, at its source."""
        self._producer.produce(
            self.source,
            f"value {number}",
            f"key {number}",
            partition=number % 3,
            headers={"own": b"x"},
        )

    def done(self) -> None:
        assert self._producer.flush(SECONDS_MAX) == 0


@pytest.fixture
def grave(penstock: Penstock, broker: Node, topic: str) -> Grave:
    return Grave(penstock, broker, topic)


def test_letters_are_counted_and_shown(penstock: Penstock, grave: Grave) -> None:
    for number in range(12):
        grave.add(number, "rejected" if number % 4 == 0 else "expired")
    grave.done()
    listed = json.loads(penstock.out("dlq", "list", grave.topic, "-o", "json"))
    counts = [(one["group"], one["source"], one["reason"], one["letters"]) for one in listed]
    assert counts == [("work", grave.source, "expired", 9), ("work", grave.source, "rejected", 3)]
    assert [one["waiting"] for one in listed] == [9, 3]
    some = json.loads(
        penstock.out("dlq", "show", grave.topic, "--reason", "^rej", "--key", "key 4", "-o", "json")
    )
    assert [one["source"] for one in some] == [{"topic": grave.source, "partition": 1, "offset": 1}]
    assert (some[0]["value"], some[0]["deliveries"]) == ("value 4", 5)
    assert some[0]["headers"] == [["own", "x"]]
    few = penstock("dlq", "show", grave.topic, "--since", "1h", "-n", "2")
    assert len(few.stdout.splitlines()) == 3 and "--limit" in few.stderr
    assert penstock.out("dlq", "show", grave.topic, "--until", "1h", "-o", "json").strip() == "[]"


def test_letters_go_back_as_they_were_where_they_were(
    penstock: Penstock, broker: Node, grave: Grave
) -> None:
    for number in range(9):
        grave.add(number, "rejected" if number % 2 else "expired")
    grave.done()
    would = json.loads(penstock.out("dlq", "redrive", grave.topic, "--dry-run", "-o", "json"))
    assert would["sent"] == {grave.source: 9} and read(broker, grave.source) == []
    sent = penstock.out("dlq", "redrive", grave.topic, "--reason", "rejected", "-o", "json")
    assert json.loads(sent)["left"] == {"expired": 5}
    back = {message.key(): message for message in read(broker, grave.source)}
    assert set(back) == {b"key %d" % number for number in range(1, 9, 2)}
    assert back[b"key 5"].value() == b"value 5" and back[b"key 5"].partition() == 2
    assert back[b"key 5"].headers() == [("own", b"x"), ("penstock-redrive-count", b"1")]
    waiting = json.loads(penstock.out("dlq", "list", grave.topic, "-o", "json"))
    assert {one["reason"]: one["waiting"] for one in waiting} == {"expired": 5, "rejected": 0}
    assert json.loads(penstock.out("dlq", "redrive", grave.topic, "-n", "2", "-o", "json"))["left"]
    penstock.out("dlq", "redrive", grave.topic)
    penstock.out("dlq", "redrive", grave.topic)
    assert Counter(message.key() for message in read(broker, grave.source)) == {
        b"key %d" % number: 1 for number in range(9)
    }


def test_a_letter_without_its_record_fetches_it_from_the_source(
    penstock: Penstock, broker: Node, grave: Grave
) -> None:
    for number in range(3):
        grave.fill(number)
    grave.done()
    for number in (0, 2, 7):  # 7 never was, or was and is gone
        grave.add(number, "rejected", copied=False)
    grave.done()
    ran = penstock("dlq", "redrive", grave.topic, "-o", "json")
    assert ran.returncode == 1 and "no longer at their source" in ran.stderr
    assert json.loads(ran.stdout)["gone"] == [f"{grave.source}-1@2"]
    back = [message for message in read(broker, grave.source) if len(message.headers() or ()) == 2]
    assert sorted((message.key(), message.value()) for message in back) == [
        (b"key 0", b"value 0"), (b"key 2", b"value 2"),
    ]  # fmt: skip


def test_two_letters_of_one_record_bring_it_back_once(
    penstock: Penstock, broker: Node, grave: Grave
) -> None:
    grave.add(0, "rejected")
    grave.done()
    penstock.out("dlq", "redrive", grave.topic)
    for group in ("work", "other work"):
        grave.add(0, "rejected", group=group)
    grave.add(1, "rejected")
    grave.done()
    sent = json.loads(penstock.out("dlq", "redrive", grave.topic, "-o", "json"))
    assert (sent["sent"], sent["twins"]) == ({grave.source: 1}, 2)
    found = Counter(message.key() for message in read(broker, grave.source))
    assert found == {b"key 0": 1, b"key 1": 1}


def test_letters_of_a_topic_that_is_gone_go_where_one_says(
    penstock: Penstock, broker: Node, grave: Grave
) -> None:
    grave.add(0, "rejected")
    grave.done()
    penstock.out("topic", "delete", grave.source, "--yes")
    refused = penstock("dlq", "redrive", grave.topic)
    assert refused.returncode == 1 and f"no topic {grave.source}" in refused.stderr
    penstock.out("topic", "create", f"{grave.source}-new")
    penstock.out("dlq", "redrive", grave.topic, "--to", f"{grave.source}-new")
    assert [message.key() for message in read(broker, f"{grave.source}-new")] == [b"key 0"]


def test_a_redrive_that_is_killed_neither_loses_nor_doubles(
    penstock: Penstock, broker: Node, grave: Grave
) -> None:
    count = 15_000
    for number in range(count):
        grave.add(number, "rejected")
        if number % 5_000 == 0:
            grave.done()
    grave.done()
    interrupted = 0
    for kill in range(1, 4):
        running = penstock.start("dlq", "redrive", grave.topic)
        deadline = time.monotonic() + SECONDS_MAX
        consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "watcher"})
        while running.poll() is None and time.monotonic() < deadline:
            ends = [
                consumer.get_watermark_offsets(TopicPartition(grave.source, number), SECONDS_MAX)[1]
                for number in range(3)
            ]
            if sum(ends) > kill * count // 5:  # in the middle, and at another place each time
                break
        interrupted += running.poll() is None
        running.kill()
        running.communicate(timeout=SECONDS_MAX)
        consumer.close()
    penstock.out("dlq", "redrive", grave.topic)
    found = Counter(message.key() for message in read(broker, grave.source))
    assert interrupted, "it was never killed while it worked"
    assert set(found.values()) == {1} and len(found) == count


def test_letters_are_deleted_from_the_beginning_only(penstock: Penstock, grave: Grave) -> None:
    for number in (0, 3, 6, 9):
        grave.add(number, "expired" if number < 6 else "rejected")
    grave.done()
    refused = penstock("dlq", "purge", grave.topic, "--reason", "rejected", "--yes")
    assert refused.returncode == 1
    assert "letter at 0:2 cannot be deleted and the one before it, at 0:0" in refused.stderr
    unasked = penstock("dlq", "purge", grave.topic, "--reason", "expired")
    assert unasked.returncode == 2 and "--yes" in unasked.stderr
    would = penstock.out(
        "dlq", "purge", grave.topic, "--reason", "expired", "--dry-run", "-o", "json"
    )
    assert json.loads(would) == [{"topic": grave.topic, "partition": 0, "letters": 2, "start": 2}]
    penstock.out("dlq", "purge", grave.topic, "--reason", "expired", "--yes")
    left = json.loads(penstock.out("dlq", "show", grave.topic, "-o", "json"))
    assert [one["offset"] for one in left] == [2, 3]
    penstock.out("dlq", "redrive", grave.topic, "--at", "0:2")
    penstock.out("dlq", "purge", grave.topic, "--sent", "--yes")
    left = json.loads(penstock.out("dlq", "show", grave.topic, "-o", "json"))
    assert [one["offset"] for one in left] == [3]
    penstock.out("dlq", "purge", grave.topic, "--yes")
    assert json.loads(penstock.out("dlq", "show", grave.topic, "-o", "json")) == []


def test_a_topic_without_letters_is_told(penstock: Penstock, topic: str) -> None:
    for verb in ("show", "redrive", "purge"):
        ran = penstock("dlq", verb, topic)
        assert ran.returncode == 1 and f"there is no topic {topic}" in ran.stderr, ran.stderr
    assert json.loads(penstock.out("dlq", "list", f"{topic}*", "-o", "json")) == []


@pytest.mark.penstock_only
def test_the_commands_of_the_page_about_patterns_do_what_they_say(
    make_node: Callable[..., Node], tmp_path: Path
) -> None:
    page = (REPOSITORY / "docs" / "patterns.md").read_text()
    blocks = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    assert len(lines) > 8
    node = make_node()
    node.start()
    penstock = InProcess(tmp_path, node.bootstrap)
    for line in lines:
        command, *words = shlex.split(line, comments=True)
        assert command == "penstock", line
        penstock.out(*words)
    assert "penstock.share.retry.backoff.jitter" in penstock.out(
        "config", "describe", "--group", "workers"
    )


def test_what_was_sent_is_remembered_for_longer_than_offsets_are_kept(
    penstock: Penstock, broker: Node, grave: Grave
) -> None:
    grave.add(0, "rejected")
    grave.done()
    penstock.out("dlq", "redrive", grave.topic)
    group = f"penstock.dlq.{grave.topic}:redrive".encode()
    values = [
        message.value()
        for message in read(broker, "__consumer_offsets")
        if message.key() is not None and group in (message.key() or b"")
    ]
    newest = values[-1]
    assert newest is not None
    # The last eight bytes of version 1 say when the offset expires; a later one has no such time.
    assert newest[:2] == b"\x00\x01"
    assert int.from_bytes(newest[-8:], "big") > (time.time() + 9 * 365 * 86_400) * 1000
