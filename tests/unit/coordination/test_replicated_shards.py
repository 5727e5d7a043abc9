"""Shards over partitions of several replicas: what was answered outlives whoever answered it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.coordination.effects import Effects, Moment, Ticket
from penstock.model.errors import ErrorCode
from penstock.protocol.generated.heartbeat import HeartbeatResponse
from penstock.storage.store import LogStore
from tests.unit.coordination.driving import Numbers, look, put
from tests.unit.coordination.replicas import Host, Replicas


@pytest.fixture
def replicas(tmp_path: Path) -> Iterator[Replicas]:
    stores = []
    for number in (1, 2, 3):
        path = tmp_path / str(number)
        path.mkdir()
        store = LogStore([str(path)], node_id=number, cluster_id="cluster")
        store.open()
        stores.append(store)
    yield Replicas(stores)
    for store in stores:
        store.close()


def error_of(response: Any) -> ErrorCode:
    assert isinstance(response, HeartbeatResponse), response
    return ErrorCode(response.error_code)


def with_errand(shard: Numbers, at: Moment, out: Effects, ticket: Ticket) -> None:
    put("a", 1)(shard, at, out, ticket)
    out.errand("fetch milk")


async def loaded(host: Host) -> None:
    async with asyncio.timeout(20):
        while host.runtime.loading:
            await asyncio.sleep(0)


async def test_a_reply_waits_for_all_followers_in_sync(replicas: Replicas) -> None:
    one, two, three = replicas.hosts
    replicas.elect(one)
    waiting = one.call(put("a", 1))
    replicas.fetch(two)
    await asyncio.sleep(0)
    assert not waiting.done()
    replicas.fetch(three)
    replicas.fetch(two)
    assert error_of(await waiting) is ErrorCode.NONE


async def test_what_was_not_committed_is_forgotten_with_the_lead(replicas: Replicas) -> None:
    one, two, three = replicas.hosts
    replicas.elect(one)
    waiting = one.call(put("a", 1))
    replicas.elect(two)
    assert error_of(await waiting) is ErrorCode.NOT_COORDINATOR
    assert error_of(one.call(put("a", 2))) is ErrorCode.NOT_COORDINATOR
    done = two.call(put("b", 2))
    replicas.fetch(one)
    replicas.fetch(three)
    assert error_of(await done) is ErrorCode.NONE
    replicas.elect(one)
    await loaded(one)
    assert one.shards[-1].by_name == {"b": 2}


async def test_what_a_new_leader_finds_is_not_told_before_it_is_committed(
    replicas: Replicas,
) -> None:
    one, two, three = replicas.hosts
    replicas.elect(one)
    one.call(put("a", 1))
    replicas.fetch(two)
    replicas.elect(two)
    await loaded(two)
    seen: list[dict[str, int]] = []
    reading = two.call(look(seen))
    assert seen == [{"a": 1}], "loaded to the end of the log"
    assert asyncio.isfuture(reading) and not reading.done()
    replicas.fetch(one)
    replicas.fetch(three)
    assert error_of(await reading) is ErrorCode.NONE


async def test_a_reply_that_tells_nothing_does_not_wait_unless_its_step_writes(
    replicas: Replicas,
) -> None:
    one = replicas.hosts[0]
    replicas.elect(one)
    one.call(put("a", 1))

    def alive(_: Numbers, __: Moment, out: Effects, ticket: Ticket) -> None:
        out.prompt = True
        out.reply(ticket, HeartbeatResponse())

    def alive_and_more(shard: Numbers, at: Moment, out: Effects, ticket: Ticket) -> None:
        put("b", 1)(shard, at, out, ticket)
        out.prompt = True

    assert error_of(one.call(alive)) is ErrorCode.NONE
    assert not one.call(alive_and_more).done()


async def test_too_few_replicas_refuse_and_change_nothing(replicas: Replicas) -> None:
    one, two, three = replicas.hosts
    replicas.elect(one)
    replicas.shrink(one)
    assert error_of(one.call(put("a", 1))) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert one.shards[-1].by_name == {}
    replicas.isr = replicas.ids
    replicas.tell([one])
    done = one.call(put("a", 1))
    replicas.fetch(two)
    replicas.fetch(three)
    assert error_of(await done) is ErrorCode.NONE


async def test_a_reply_does_not_wait_for_ever_and_its_errand_does(replicas: Replicas) -> None:
    one, two, three = replicas.hosts
    replicas.elect(one)
    waiting = one.call(with_errand)
    await asyncio.sleep(0.03)
    assert not waiting.done()
    replicas.clock.time += 50
    assert error_of(await waiting) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert one.errands == []
    replicas.fetch(two)
    replicas.fetch(three)
    await asyncio.sleep(0)
    assert one.errands == ["fetch milk"], "the record was there all the time"
    assert len(one.runtime._patience) == 0


async def test_an_errand_is_not_lost_when_its_wait_fails_but_the_lead_does_not(
    replicas: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.coordination.runtime.TIMER_RETRY_MS", 5)
    one, two, three = replicas.hosts
    replicas.elect(one)
    waiting = one.call(with_errand)
    one.partition.release_all(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
    assert error_of(await waiting) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    replicas.fetch(two)
    replicas.fetch(three)
    assert one.errands == []
    await asyncio.sleep(0.05)
    assert one.errands == ["fetch milk"]


async def test_a_leader_that_does_not_know_that_it_is_one_no_more_answers_nothing(
    replicas: Replicas,
) -> None:
    one, two, three = replicas.hosts
    replicas.elect(one)
    waiting = one.call(with_errand)
    replicas.elect(two, told=[two, three])
    assert error_of(await _commit(replicas)) is ErrorCode.NONE
    replicas.clock.time += 50
    assert error_of(await waiting) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert one.errands == []


async def _commit(replicas: Replicas) -> Any:
    """Something that the followers of the newest leader take, in the smaller set that is left."""
    replicas.shrink(*replicas.hosts[1:])
    done = replicas.leader.call(put("b", 2))
    for host in replicas.hosts[1:]:
        replicas.fetch(host)
    return await done


async def test_a_load_that_is_no_longer_wanted_ends_without_a_word(
    replicas: Replicas, caplog: pytest.LogCaptureFixture
) -> None:
    one, two, _ = replicas.hosts
    replicas.elect(one)
    for number in range(20):
        one.call(put("a", number))
    replicas.elect(one)
    replicas.elect(two)
    one.partition.truncate_to(0, replicas.clock.time)
    await asyncio.sleep(0.02)
    assert one.runtime.shards() == []
    assert "cannot load" not in caplog.text


@pytest.mark.parametrize("seed", range(40))
async def test_what_was_answered_is_known_to_every_later_leader(
    replicas: Replicas, seed: int
) -> None:
    chance = random.Random(seed)
    replicas.elect(replicas.hosts[0])
    answers: dict[int, Any] = {}
    answered = 0
    for number in range(1, 120):
        act = chance.choice(("put", "put", "put", "fetch", "fetch", "fetch", "elect", "stay"))
        if act == "put":
            answers[number] = replicas.leader.call(put("a", number))
        elif act == "fetch":
            replicas.fetch(chance.choice(replicas.hosts))
        elif act == "elect":
            replicas.elect(chance.choice(replicas.hosts))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        good = [key for key, it in answers.items() if _is_good(it)]
        answered = max(good, default=0)
        if replicas.leader.runtime.shard(0) is not None:
            shard = replicas.leader.shards[-1]
            assert shard.by_name.get("a", 0) >= answered, f"seed {seed}: an answer was forgotten"
    assert answered, f"seed {seed}: nothing was ever committed"


def _is_good(answer: Any) -> bool:
    if asyncio.isfuture(answer):
        return answer.done() and not error_of(answer.result())
    return not error_of(answer)
