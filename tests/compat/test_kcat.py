"""kcat: the shell's client, on the librdkafka that Debian ships."""

from __future__ import annotations

import json
import subprocess
import time

import pytest

from tests.compat.records import CODECS
from tests.oracle.nodes import Node

pytestmark = pytest.mark.kcat


def kcat(broker: Node, *arguments: str, stdin: str = "") -> str:
    ran = subprocess.run(
        ["kcat", "-b", broker.bootstrap, *arguments],
        input=stdin, capture_output=True, text=True, timeout=30,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_a_first_record_creates_its_topic_which_is_then_described(broker: Node, topic: str) -> None:
    kcat(broker, "-P", "-t", topic, stdin="one\n")
    described = json.loads(kcat(broker, "-L", "-J", "-t", topic))
    assert described["controllerid"] == 1
    assert [each["name"] for each in described["brokers"]] == [broker.bootstrap]
    [found] = described["topics"]
    assert found["topic"] == topic
    assert found["partitions"] == [
        {"partition": 0, "leader": 1, "replicas": [{"id": 1}], "isrs": [{"id": 1}]}
    ]


@pytest.mark.parametrize("codec", CODECS)
def test_records_come_back_as_they_were_sent_with(broker: Node, topic: str, codec: str) -> None:
    lines = [f"key-{number}\tvalue {number} {codec * number}" for number in range(50)]
    kcat(broker, "-P", "-t", topic, "-z", codec, "-K", "\t", "-H", "from=kcat",
         stdin="\n".join(lines) + "\n")  # fmt: skip
    out = kcat(broker, "-C", "-t", topic, "-p", "0", "-o", "beginning", "-e", "-q",
               "-f", "%o %h %k\t%s\n")  # fmt: skip
    assert out.splitlines() == [f"{at} from=kcat {line}" for at, line in enumerate(lines)]


def test_reading_starts_at_an_offset_at_the_tail_and_at_a_time(broker: Node, topic: str) -> None:
    kcat(broker, "-P", "-t", topic, stdin="a\nb\nc\n")
    time.sleep(0.05)
    between = int(time.time() * 1000)
    time.sleep(0.05)
    kcat(broker, "-P", "-t", topic, stdin="d\ne\n")

    def read_from(where: str) -> list[str]:
        return kcat(broker, "-C", "-t", topic, "-p", "0", "-o", where, "-e", "-q").split()

    assert read_from("2") == ["c", "d", "e"]
    assert read_from("-1") == ["e"]
    assert read_from(f"s@{between}") == ["d", "e"]
    assert kcat(broker, "-Q", "-t", f"{topic}:0:{between}").strip() == f"{topic} [0] offset 3"
