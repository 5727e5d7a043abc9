"""`penstock produce` and `penstock consume`, against a real broker."""

from __future__ import annotations

import base64
import json
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.oracle.nodes import Node
from tests.unit.cli.runner import SECONDS_MAX, Penstock


@pytest.fixture
def penstock(broker: Node, tmp_path: Path) -> Penstock:
    return Penstock(tmp_path, broker.bootstrap)


@pytest.fixture
def made(penstock: Penstock, topic: str) -> str:
    """A topic with one partition."""
    penstock.out("topic", "create", topic)
    return topic


def test_lines_become_records_and_records_become_lines(penstock: Penstock, made: str) -> None:
    sent = penstock("produce", made, stdin="one\ntwo\n\nfour")
    assert (sent.returncode, sent.stdout) == (0, "")
    assert sent.stderr == f"delivered 4 records to {made}\n"
    assert penstock.out("consume", made) == "one\ntwo\n\nfour\n"


def test_keys_stand_before_a_separator(penstock: Penstock, made: str) -> None:
    penstock.out("produce", made, "-k", "\\t", stdin="a\t1\nb\t2\n")
    assert penstock.out("consume", made) == "1\n2\n"
    assert penstock.out("consume", made, "-k", ": ") == "a: 1\nb: 2\n"


def test_key_header_and_partition_can_be_given_for_all(penstock: Penstock, topic: str) -> None:
    penstock.out("topic", "create", topic, "-p", "3")
    options = ("--key", "k", "-H", "trace=1", "-p", "2")
    penstock.out("produce", topic, *options, stdin="v\n")
    record = json.loads(penstock.out("consume", topic, "-f", "json"))
    assert (record["partition"], record["key"], record["value"]) == (2, "k", "v")
    assert record["headers"] == [["trace", "1"]]


def test_json_carries_everything_from_one_topic_to_another(
    penstock: Penstock, made: str, topic: str
) -> None:
    copy = f"{topic}-copy"
    penstock.out("topic", "create", copy)
    binary = base64.b64encode(bytes(range(256))).decode()
    lines = [
        {"key": "a", "value": "ä\nb", "headers": [["h", "1"], ["h", None]], "timestamp": 5000},
        {"key_base64": binary, "value_base64": binary, "timestamp": 6000},
        {"key": "gone", "value": None, "timestamp": 7000},
    ]
    penstock.out("produce", made, "-f", "json", stdin="\n".join(map(json.dumps, lines)))
    first = penstock.out("consume", made, "-f", "json")
    penstock.out("produce", copy, "-f", "json", stdin=first)
    assert penstock.out("consume", copy, "-f", "json") == first
    records = [json.loads(line) for line in first.splitlines()]
    assert [record["timestamp"] for record in records] == [5000, 6000, 7000]
    assert records[0]["value"] == "ä\nb"
    assert records[1]["value_base64"] == binary
    assert records[2]["value"] is None


@pytest.mark.parametrize("form", ["hex", "base64"])
def test_binary_forms_carry_any_bytes(penstock: Penstock, made: str, form: str) -> None:
    data = bytes(range(256))
    line = data.hex() if form == "hex" else base64.b64encode(data).decode()
    penstock.out("produce", made, "-f", form, "-k", ":", stdin=f"{line}:{line}\n")
    assert penstock.out("consume", made, "-f", form, "-k", ":") == f"{line}:{line}\n"


def test_an_empty_value_is_a_tombstone_where_that_is_wanted(penstock: Penstock, made: str) -> None:
    penstock.out("produce", made, "-k", ":", "--tombstones", stdin="a:1\na:\n")
    records = penstock.out("consume", made, "-f", "json").splitlines()
    assert [json.loads(record)["value"] for record in records] == ["1", None]


def test_files_are_read_in_order_by_line_or_whole(
    penstock: Penstock, made: str, tmp_path: Path
) -> None:
    (tmp_path / "a").write_text("1\n2\n")
    (tmp_path / "b").write_text("3\n")
    penstock.out("produce", made, "a", "b")
    assert penstock.out("consume", made) == "1\n2\n3\n"
    penstock.out("produce", made, "--whole", "a")
    assert penstock.out("consume", made, "--from", "-1") == "1\n2\n\n"


def test_a_file_that_is_not_there_is_told_of(penstock: Penstock, made: str) -> None:
    ran = penstock("produce", made, "missing")
    assert ran.returncode == 1
    assert "cannot read missing: No such file" in ran.stderr


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compression_changes_nothing_for_readers(penstock: Penstock, made: str, codec: str) -> None:
    text = "".join(f"line {number}\n" for number in range(500))
    penstock.out("produce", made, "-z", codec, stdin=text)
    assert penstock.out("consume", made) == text


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_kind_of_acknowledgement_works(penstock: Penstock, made: str, acks: str) -> None:
    penstock.out("produce", made, "--acks", acks, stdin="x\n")
    assert penstock.out("consume", made) == "x\n"


def test_a_line_that_is_no_record_ends_the_work_after_those_before_it(
    penstock: Penstock, made: str
) -> None:
    ran = penstock("produce", made, "-k", ":", stdin="a:1\nb:2\nnone\nc:3\n")
    assert ran.returncode == 1
    assert "standard input, line 3: there is no b':' between key and value" in ran.stderr
    assert "delivered 2 records" in ran.stderr
    assert penstock.out("consume", made) == "1\n2\n"


def test_a_record_that_the_broker_refuses_is_told_of(penstock: Penstock, topic: str) -> None:
    penstock.out("topic", "create", topic, "-c", "max.message.bytes=1000")
    big = "x" * 5000
    ran = penstock("produce", topic, "-X", "linger.ms=0", stdin=f"{big}\n")
    assert ran.returncode == 1
    assert "a record was not delivered" in ran.stderr
    assert "MSG_SIZE_TOO_LARGE" in ran.stderr
    assert "1 of 1 records were not delivered" in ran.stderr


def test_a_partition_that_is_not_there_is_told_of(penstock: Penstock, made: str) -> None:
    ran = penstock("produce", made, "-p", "7", "--wait", "2", stdin="x\n")
    assert ran.returncode == 1
    assert "UNKNOWN_PARTITION" in ran.stderr
    ran = penstock("consume", made, "-p", "7")
    assert ran.returncode == 1
    assert f"topic {made} has no partition 7" in ran.stderr


def test_reading_begins_and_ends_where_one_says(penstock: Penstock, made: str) -> None:
    penstock.out("produce", made, stdin="".join(f"{number}\n" for number in range(10)))

    def read(*words: str) -> list[int]:
        return [int(line) for line in penstock.out("consume", made, *words).split()]

    assert read("--from", "7") == [7, 8, 9]
    assert read("--from", "-2") == [8, 9]
    assert read("--from", "3", "--to", "6") == [3, 4, 5]
    assert read("--to", "-7") == [0, 1, 2]
    assert read("-n", "4") == [0, 1, 2, 3]
    assert read("--from", "end") == []
    assert read("--from", "99") == []
    assert read("-n", "0") == []


def test_reading_begins_and_ends_at_times(penstock: Penstock, made: str) -> None:
    lines = [json.dumps({"value": str(t), "timestamp": t * 1000}) for t in range(1, 6)]
    penstock.out("produce", made, "-f", "json", stdin="\n".join(lines))
    assert penstock.out("consume", made, "--from", "@3000") == "3\n4\n5\n"
    assert penstock.out("consume", made, "--from", "@1500", "--to", "@4000") == "2\n3\n"
    assert penstock.out("consume", made, "--from", "1970-01-01T00:00:05Z") == "5\n"
    assert penstock.out("consume", made, "--from", "1h") == ""


def test_partitions_can_be_chosen(penstock: Penstock, topic: str) -> None:
    penstock.out("topic", "create", topic, "-p", "3")
    for partition in range(3):
        penstock.out("produce", topic, "-p", str(partition), stdin=f"{partition}\n")
    assert sorted(penstock.out("consume", topic).split()) == ["0", "1", "2"]
    assert sorted(penstock.out("consume", topic, "-p", "0", "-p", "2").split()) == ["0", "2"]


def test_a_group_without_a_name_is_a_mistake_of_usage(penstock: Penstock, made: str) -> None:
    assert penstock("consume", made, "-X", "group.id=").returncode == 2


def test_an_empty_topic_has_nothing_to_read(penstock: Penstock, made: str) -> None:
    assert penstock.out("consume", made) == ""


def test_a_topic_that_is_not_there_is_told_of(penstock: Penstock, topic: str) -> None:
    ran = penstock("consume", topic)
    assert ran.returncode == 1
    assert f"topic {topic} cannot be read" in ran.stderr
    assert "UNKNOWN_TOPIC_OR_PART" in ran.stderr


def test_many_lines_come_through_whole_and_in_order(penstock: Penstock, made: str) -> None:
    text = "".join(f"record number {number}\n" for number in range(100_000))
    penstock.out("produce", made, stdin=text)
    assert penstock.out("consume", made) == text


def test_following_shows_what_comes_until_interrupted(penstock: Penstock, made: str) -> None:
    penstock.out("produce", made, stdin="before\n")
    follower = penstock.start("consume", made, "--follow")
    try:
        assert follower.stdout is not None and follower.stderr is not None
        assert follower.stdout.readline() == b"before\n"
        penstock.out("produce", made, stdin="after\n")
        assert follower.stdout.readline() == b"after\n"
        follower.send_signal(signal.SIGINT)
        assert follower.wait(SECONDS_MAX) == 130
        assert follower.stderr.read() == b""
    finally:
        end(follower)


def test_following_from_an_offset_to_come_waits_for_it(penstock: Penstock, made: str) -> None:
    follower = penstock.start("consume", made, "-F", "--from", "2", "-n", "1")
    try:
        time.sleep(1)
        penstock.out("produce", made, stdin="0\n1\n2\n")
        output, _ = follower.communicate(timeout=SECONDS_MAX)
        assert (follower.returncode, output) == (0, b"2\n")
    finally:
        end(follower)


def test_a_reader_that_goes_away_ends_it_quietly(penstock: Penstock, made: str) -> None:
    penstock.out("produce", made, stdin="x" * 100 + "\n" + "y\n" * 50_000)
    reader = penstock.start("consume", made)
    try:
        assert reader.stdout is not None and reader.stderr is not None
        assert reader.stdout.readline() == b"x" * 100 + b"\n"
        reader.stdout.close()
        assert reader.stderr.read() == b""
        assert reader.wait(SECONDS_MAX) == 141
    finally:
        end(reader)


def test_an_interrupted_producer_delivers_what_it_has_read(penstock: Penstock, made: str) -> None:
    producer = penstock.start("produce", made)
    try:
        assert producer.stdin is not None and producer.stderr is not None
        producer.stdin.write(b"one\ntwo\n")
        producer.stdin.flush()
        deadline = time.monotonic() + SECONDS_MAX
        while penstock.out("consume", made) != "one\ntwo\n":
            assert time.monotonic() < deadline
        producer.send_signal(signal.SIGINT)
        assert producer.wait(SECONDS_MAX) == 130
        assert f"delivered 2 records to {made}" in producer.stderr.read().decode()
    finally:
        end(producer)


def test_following_goes_on_when_a_broker_comes_back(
    make_node: Callable[..., Node], tmp_path: Path, topic: str
) -> None:
    node = make_node()
    node.start()
    penstock = Penstock(tmp_path, node.bootstrap)
    penstock.out("topic", "create", topic)
    penstock.out("produce", topic, stdin="before\n")
    follower = penstock.start("consume", topic, "--follow")
    try:
        assert follower.stdout is not None and follower.stderr is not None
        assert follower.stdout.readline() == b"before\n"
        node.kill()
        assert follower.stderr.readline() == b"no broker can be reached; trying again\n"
        node.start()
        penstock.out("produce", topic, stdin="after\n")
        assert follower.stdout.readline() == b"after\n"
    finally:
        end(follower)


def test_a_broker_that_dies_while_records_are_sent_is_told_of(
    make_node: Callable[..., Node], tmp_path: Path, topic: str
) -> None:
    node = make_node()
    node.start()
    penstock = Penstock(tmp_path, node.bootstrap)
    penstock.out("topic", "create", topic)
    producer = penstock.start("produce", topic, "--wait", "3")
    try:
        assert producer.stdin is not None
        producer.stdin.write(b"one\n")
        producer.stdin.flush()
        deadline = time.monotonic() + SECONDS_MAX
        while penstock.out("consume", topic) != "one\n":
            assert time.monotonic() < deadline
        node.kill()
        _, errors = producer.communicate(b"two\n", timeout=SECONDS_MAX)
        assert producer.returncode == 1
        assert b"1 of 2 records were not delivered" in errors
    finally:
        end(producer)


def test_a_log_that_a_broker_wrote_has_no_faults(
    penstock: Penstock, broker: Node, made: str
) -> None:
    penstock.out("produce", made, "-z", "lz4", stdin="one\ntwo\n")
    directory = str(broker.data / f"{made}-0")
    rows = penstock.out("log", "dump", directory, "--deep", "-o", "json").splitlines()
    values = [row.get("value") for row in map(json.loads, rows) if "headers" in row]
    assert values == ["one", "two"]


def end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.kill()
        process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            stream.close()
