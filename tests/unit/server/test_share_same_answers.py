"""Members of share groups hear the same from Penstock and from Apache Kafka.

Each talk is held with both, over one topic with batches of 3, 2 and 4 records, and what is said in
it is compared: errors, what was acquired and how often, and how many bytes came with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from penstock.model.errors import ErrorCode
from penstock.model.ids import uuid_text
from tests.oracle.nodes import ApacheNode
from tests.unit.server.asking import asking, asking_node, batch
from tests.unit.server.share_state_talk import ShareTalk
from tests.unit.server.share_talk import ACCEPT, GAP, REJECT, RELEASE, RENEW, Said, Talker

pytestmark = pytest.mark.java

CONFIG = {
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}
NOTHING = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 0, "max_records": 0}


class Party:
    """A member that notes all that it hears."""

    def __init__(self, talker: Talker, notes: list[Any]) -> None:
        self.talker = talker
        self._notes = notes

    async def fetch(self, *partitions: int, epoch: int | None = None, **options: Any) -> None:
        """With an epoch of its own, the fetch is none of the session's."""
        before = self.talker.epoch
        self.talker.epoch = before if epoch is None else epoch
        response = await self.talker.fetch(*partitions, **options)
        if response.error_code or epoch is not None:
            self.talker.epoch = before
        self._notes.append(told(response))

    async def say(self, *said: Said, **options: Any) -> None:
        self._notes.append(told(await self.talker.acknowledge(*said, **options)))

    async def close(self) -> None:
        self._notes.append(told(await self.talker.close()))


def told(response: Any) -> Any:
    """What counts of an answer: ranges may be cut anywhere, and what has nothing to say may be
    left out."""
    if response.error_code:
        return ErrorCode(response.error_code).name
    return [
        note
        for topic in response.responses
        for part in topic.partitions
        if (note := noted(part)) != NOTHING_SAID
    ]


def noted(part: Any) -> tuple[str, str, dict[int, int], int]:
    """Errors, how often each offset was delivered, and the size of the records."""
    counts = {
        offset: each.delivery_count
        for each in getattr(part, "acquired_records", ())
        for offset in range(each.first_offset, each.last_offset + 1)
    }
    return (
        ErrorCode(part.error_code).name,
        ErrorCode(getattr(part, "acknowledge_error_code", 0)).name,
        counts,
        len(getattr(part, "records", b"")),
    )


NOTHING_SAID: Any = ("NONE", "NONE", {}, 0)

Talk = Callable[[Party, Party], Awaitable[None]]
Agree = Callable[[Talk], Awaitable[None]]


@pytest.fixture(scope="module")
def apache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheNode]:
    with ApacheNode(tmp_path_factory.mktemp("apache"), config=CONFIG) as node:
        yield node  # type: ignore[misc]


@pytest.fixture
async def agree(
    apache: ApacheNode, tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[Agree]:
    async def compare(hold: Talk) -> None:
        heard = []
        async with AsyncExitStack() as stack:
            ours = await stack.enter_async_context(asking_node(tmp_path, CONFIG))
            for port in (apache.port, ours._writer.get_extra_info("peername")[1]):
                anna, bert = [await stack.enter_async_context(asking(port)) for _ in range(2)]
                topic_id = await anna.create(request.node.name)
                await begun(ShareTalk(anna, topic_id, "g"))
                for count in (3, 2, 4):
                    await anna.produce(request.node.name, batch(count))
                notes: list[Any] = []
                await hold(
                    Party(Talker(anna, topic_id, "g", "anna"), notes),
                    Party(Talker(bert, topic_id, "g", "bert"), notes),
                )
                heard.append(notes)
        for number, (mine, other) in enumerate(zip(heard[1], heard[0], strict=True)):
            assert mine == other, f"answer {number}: first ours, then Kafka's"

    yield compare


async def begun(talk: ShareTalk) -> None:
    """Wait for the share coordinator, and have it begin with the group."""
    async with asyncio.timeout(60):
        while True:
            found = await talk.find(f"{talk.group_id}:{uuid_text(talk.topic_id)}:0")
            if not found.error_code and not await talk.initialize():
                return
            await asyncio.sleep(0.1)


async def test_sessions(agree: Agree) -> None:
    async def talk(anna: Party, bert: Party) -> None:
        await anna.fetch(0, epoch=1)
        for epoch in (1, 0, -1):
            await anna.say(Said(0, 0), epoch=epoch)
        await anna.fetch(said={0: [Said(0, 0)]})
        await anna.fetch(0, max_wait_ms=5000)
        await anna.fetch(epoch=7)
        await anna.say(Said(0, 0), epoch=7)
        await anna.fetch()
        for name in ("", "x" * 37):
            bert.talker.name = name
            await bert.fetch(0)
        await anna.close()
        await anna.close()

    await agree(talk)


async def test_who_gets_what(agree: Agree) -> None:
    async def talk(anna: Party, bert: Party) -> None:
        await anna.fetch(0, max_wait_ms=5000, max_records=3)
        await anna.fetch(max_records=1)
        await bert.fetch(0, max_wait_ms=500, max_records=2, share_acquire_mode=1)
        await bert.fetch()
        await bert.fetch()
        await anna.say(Said(0, 0, (RELEASE,)), Said(2, 3, (RELEASE,)), Said(4, 4))
        await bert.fetch(max_wait_ms=500)
        await anna.fetch(said={0: [Said(1, 1, (RELEASE,))]}, max_wait_ms=500)
        await bert.close()
        await anna.fetch(max_wait_ms=500)

    await agree(talk)


async def test_bad_words(agree: Agree) -> None:
    async def talk(anna: Party, bert: Party) -> None:
        await anna.fetch(0, max_wait_ms=5000, max_records=3)
        await bert.fetch(0, max_wait_ms=500)
        await anna.say(Said(1, 1))
        await anna.say(Said(1, 1))
        for first, last in ((5, 8), (50, 51), (2, 50), (0, 2**62), (2, 1)):
            await anna.say(Said(first, last))
        words: tuple[int, ...]
        for words in ((), (ACCEPT, ACCEPT), (5,), (-1,), (RENEW,)):
            await anna.say(Said(0, 2, words))
        await anna.say(Said(2, 2), Said(0, 0))
        await anna.say(Said(0, 0, (GAP,)), Said(2, 2, (REJECT,)))
        await anna.say(Said(0, 1))  # done with: nobody minds
        await anna.say(Said(0, 0), index=9)
        anna.talker.topic_id = b"?" * 16
        await anna.say(Said(0, 0))

    await agree(talk)


async def test_renewing(agree: Agree) -> None:
    async def talk(anna: Party, bert: Party) -> None:
        await anna.fetch(0, max_wait_ms=5000, max_records=3)
        await anna.say(Said(0, 2, (RENEW,)), is_renew_ack=True)
        renew = {0: [Said(0, 2, (RENEW,))]}
        await anna.fetch(said=renew, is_renew_ack=True)
        await anna.fetch(said=renew, is_renew_ack=True, **NOTHING)
        await anna.fetch(said=renew)
        await bert.fetch(0, max_wait_ms=100)
        await anna.say(Said(0, 2))

    await agree(talk)


async def test_what_is_not_there(agree: Agree) -> None:
    async def talk(anna: Party, bert: Party) -> None:
        await anna.fetch(9, max_wait_ms=500)
        bert.talker.group = "nobody ever began"
        await bert.fetch(0, max_wait_ms=2000)
        bert.talker.group = "g"
        await bert.fetch(0, max_records=0, max_wait_ms=200)

    await agree(talk)
