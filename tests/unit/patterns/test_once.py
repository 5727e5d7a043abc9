"""The guard around a handler."""

from __future__ import annotations

import asyncio
import threading

import pytest

from penstock.patterns import (
    AlreadyHandled,
    MemoryStore,
    Message,
    Once,
    Reject,
    by_header,
    by_key,
    by_position,
)
from penstock.patterns.once import Guard, Identify

ORDER = Message("orders", 3, 41, b"k", b"v", (("message-id", b"m-1"),))


@pytest.mark.parametrize(
    ("by", "same", "other"),
    [
        (by_position, Message("orders", 3, 41), Message("orders", 3, 42, b"k")),
        (by_key, Message("orders", 0, 0, b"k"), Message("orders", 3, 41, b"K")),
        (
            by_header("message-id"),
            Message("orders", 9, 9, headers=(("message-id", b"m-1"),)),
            Message("orders", 3, 41, b"k", headers=(("message-id", b"m-2"),)),
        ),
    ],
)
def test_messages_are_told_apart_by_what_the_user_chose(
    by: Identify, same: Message, other: Message
) -> None:
    assert by(ORDER) == by(same)
    assert by(ORDER) != by(other)


@pytest.mark.parametrize("by", [by_key, by_header("message-id")])
def test_a_message_without_identity_is_rejected_in_words(by: Identify) -> None:
    with pytest.raises(Reject, match="what identifies it"):
        by(Message("orders", 0, 0))


def test_a_second_copy_is_skipped_and_a_failed_one_is_not() -> None:
    guard = Guard(Once(MemoryStore()), "billing")
    calls = []

    def fails_once(message: Message) -> None:
        calls.append(message.identity)
        if len(calls) == 1:
            raise OSError("first")

    with pytest.raises(OSError, match="first"):
        guard.call(fails_once, ORDER)
    assert guard.call(fails_once, ORDER) == Guard.HANDLED
    assert guard.call(fails_once, ORDER) == Guard.SKIPPED
    assert calls == ["billing/orders/3/41"] * 2


def test_two_groups_may_share_a_store() -> None:
    store = MemoryStore()
    for group in ("billing", "shipping"):
        assert Guard(Once(store), group).call(lambda _: None, ORDER) == Guard.HANDLED


def test_a_handler_that_finds_its_mark_has_handled_it() -> None:
    def found(message: Message) -> None:
        raise AlreadyHandled(message.identity)

    assert Guard(Once(MemoryStore()), "billing").call(found, ORDER) == Guard.SKIPPED


def test_two_copies_are_not_handled_at_the_same_moment() -> None:
    guard = Guard(Once(MemoryStore()), "billing")
    inside, leave = threading.Event(), threading.Event()

    def slow(_: Message) -> None:
        inside.set()
        assert leave.wait(10)

    first = threading.Thread(target=guard.call, args=[slow, ORDER])
    first.start()
    assert inside.wait(10)
    assert guard.call(slow, ORDER) == Guard.BUSY
    leave.set()
    first.join()
    assert guard.call(slow, ORDER) == Guard.SKIPPED


class _RemoteStore:
    def __init__(self) -> None:
        self.marks: set[str] = set()

    async def seen(self, identity: str) -> bool:
        await asyncio.sleep(0)
        return identity in self.marks

    async def mark(self, identity: str) -> None:
        self.marks.add(identity)


@pytest.mark.parametrize("store", [MemoryStore(), _RemoteStore()], ids=["threads", "awaited"])
async def test_coroutines_are_guarded_alike_by_both_kinds_of_store(
    store: MemoryStore | _RemoteStore,
) -> None:
    guard = Guard(Once(store), "billing")

    async def slow(_: Message) -> None:
        await asyncio.sleep(0.01)

    results = await asyncio.gather(*(guard.call_async(slow, ORDER) for _ in range(3)))
    assert sorted(results) == [Guard.BUSY, Guard.BUSY, Guard.HANDLED]
    assert await guard.call_async(slow, ORDER) == Guard.SKIPPED
