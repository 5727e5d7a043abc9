"""Share groups in a cluster of both makes: whoever leads, coordinates and keeps the state.

An Apache leader keeps what its share group has done with a Penstock coordinator, and the other way
round, in the same records; after a death the other make reads them.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.testing.history import History, Recorder, check, shared_out
from penstock.testing.history.confluent import read_to_end
from tests.compat.mixed_clients import create, is_whole, until
from tests.oracle.nodes import ApacheNode, Node, PenstockNode
from tests.oracle.trio import Trio
from tests.system.senders import Sender
from tests.system.share_members import Members
from tests.system.test_cluster_shares import (
    CONFIG,
    GROUP,
    TOPIC,
    begin_at_the_beginning,
    goes_on,
    until_done,
    until_quiet,
)

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(600)]

MAKES: list[type[Node]] = [ApacheNode, PenstockNode, PenstockNode]


@pytest.fixture
def mixed(tmp_path: Path) -> Iterator[Trio]:
    config = CONFIG | {"broker.session.timeout.ms": "4000"}
    with Trio(tmp_path, MAKES, config) as trio:
        yield trio


def test_either_make_shares_out_what_the_other_began_to(mixed: Trio) -> None:
    places = create(mixed, TOPIC, 6)
    begin_at_the_beginning(mixed.bootstrap, GROUP)
    feed = Sender("feed", mixed.bootstrap, places, pause=0.1, padding=50)
    members = Members(mixed.bootstrap, GROUP, TOPIC, 2, random.Random(1))
    feed.start()
    members.start()
    for number in (1, 2):  # one of each make
        goes_on(members, seconds_max=120)
        mixed.nodes[number].kill()
        time.sleep(5)
        goes_on(members, seconds_max=120)
        mixed.nodes[number].start()
        until(lambda: is_whole(mixed, TOPIC), "all replicas are in sync again")
    members.accept_all()
    feed.finish(60)
    until_done(members, feed.acknowledged, 120)
    until_quiet(members)
    members.stop(60)
    reader = Recorder("reader")
    read_to_end({"bootstrap.servers": mixed.bootstrap}, places, reader)
    assert feed.failures == []
    assert members.problems == []
    check(History.of(feed.recorder, reader, *members.recorders), shared_out(GROUP, TOPIC))
