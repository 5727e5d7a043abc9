"""What members of share groups may do, and how much."""

from __future__ import annotations

from pathlib import Path

from penstock.model.errors import ErrorCode
from penstock.model.operations import Operation
from tests.unit.server.asking import asking, batch, port_of, running_node
from tests.unit.server.rights_scene import Guarded, group, guarded_node, topic, until
from tests.unit.server.share_talk import (
    RELEASE,
    Said,
    Talker,
    acquired,
    begin_group,
    error_of,
    verdict,
)
from tests.unit.server.test_quota_answers import grant, large

READ_BOTH = (group("g", Operation.READ), topic("t", Operation.READ))


async def talker(node: Guarded) -> Talker:
    await node.create("t", partitions=1)
    await node.asker.produce("t", batch(3))
    await begin_group(node.node, "g", node.ids["t"])
    return Talker(node.asker, node.ids["t"])


async def test_a_member_needs_a_right_to_read_its_group(tmp_path: Path) -> None:
    async with guarded_node(tmp_path) as node:
        anna = await talker(node)
        await node.may(topic("t", Operation.READ), group("other", Operation.READ))
        refused = await anna.fetch(0)
        assert refused.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
        assert len(node.broker.shares.sessions) == 0
        told = await anna.acknowledge(Said(0, 0), epoch=1)
        assert told.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
        await node.may(*READ_BOTH)
        anna.epoch = 0
        assert acquired(await anna.fetch(0, max_wait_ms=5000)) == [(0, 2, 1)]


async def test_a_session_keeps_partitions_and_not_rights(tmp_path: Path) -> None:
    async with guarded_node(tmp_path) as node:
        anna = await talker(node)
        await node.may(group("g", Operation.READ))
        assert error_of(await anna.fetch(0)) is ErrorCode.TOPIC_AUTHORIZATION_FAILED
        await node.may(*READ_BOTH)
        assert acquired(await anna.fetch(max_wait_ms=5000)) == [(0, 2, 1)]
        await node.may(group("g", Operation.READ))
        denied = await anna.acknowledge(Said(0, 2))
        assert verdict(denied) is ErrorCode.TOPIC_AUTHORIZATION_FAILED
        await node.may(*READ_BOTH)
        assert verdict(await anna.acknowledge(Said(0, 2))) == 0


async def test_a_right_that_is_withdrawn_while_a_fetch_waits_is_gone_when_it_ends(
    tmp_path: Path,
) -> None:
    async with guarded_node(tmp_path) as node:
        anna = await talker(node)
        await anna.fetch(0, max_wait_ms=5000)
        anna.send(max_wait_ms=20_000)
        await until(lambda: node.broker.parked_fetches == 1)
        await node.may(group("g", Operation.READ), topic("t", Operation.WRITE))
        async with asking(port_of(node.node)) as other:
            await other.produce("t", batch(1))
        assert error_of(await anna.answer()) is ErrorCode.TOPIC_AUTHORIZATION_FAILED


async def test_who_has_read_too_much_waits_and_takes_nothing_meanwhile(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, asking(port_of(node)) as asker:
        topic_id = await asker.create("t")
        await begin_group(node, "g", topic_id)
        for _ in range(2):
            await asker.produce("t", large(18_000))
        await grant(asker, consumer_byte_rate=1000)
        anna = Talker(asker, topic_id)
        first = await anna.fetch(0, max_wait_ms=5000)
        assert acquired(first) == [(0, 0, 1)]
        assert first.throttle_time_ms == 0
        held_back = await anna.fetch()
        assert acquired(held_back) == []
        assert held_back.throttle_time_ms > 1000
        driver = node.broker.shares.partitions.find("g", (topic_id, 0))
        assert driver is not None and driver.delivery is not None
        assert driver.delivery.end == 1  # what is held back is for whoever asks first


async def test_only_what_is_sent_is_charged_for(tmp_path: Path) -> None:
    async with (
        running_node(tmp_path) as node,
        asking(port_of(node)) as asker,
        asking(port_of(node)) as other,
    ):
        topic_id = await asker.create("t")
        await begin_group(node, "g", topic_id)
        for _ in range(5):
            await asker.produce("t", large(1_800))
        anna, bert = Talker(asker, topic_id), Talker(other, topic_id, name="bert")
        assert acquired(await anna.fetch(0, max_wait_ms=5000)) == [(0, 4, 1)]
        await grant(asker, consumer_byte_rate=1000)
        for offset in range(4):
            await anna.acknowledge(Said(offset, offset, (RELEASE,)))
            answer = await bert.fetch(0)
            assert acquired(answer) == [(offset, offset, 2)]
            assert answer.throttle_time_ms == 0
