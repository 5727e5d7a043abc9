"""Handling each message once: what identifies one, and the guard around a handler."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from penstock.patterns.message import Message
from penstock.patterns.stores import AlreadyHandled, AsyncStore, Store

Identify = Callable[[Message], str]


class Reject(Exception):
    """Raise it in a handler when another try is of no use: the message goes to the dead letters at
    once, with your words as the reason."""


def by_position(message: Message) -> str:
    """Topic, partition and offset: knows a record that is delivered again, not one that was sent
    twice."""
    return f"{message.topic}/{message.partition}/{message.offset}"


def by_key(message: Message) -> str:
    """Topic and key: each key is handled once, ever (or as long as the store remembers)."""
    if message.key is None:
        raise Reject("the message has no key, and its key is what identifies it")
    return f"{message.topic}/key/{message.key.hex()}"


def by_header(name: str) -> Identify:
    """A header that the producer sets, such as `message-id`: knows whatever was sent twice."""

    def identify(message: Message) -> str:
        value = message.header(name)
        if value is None:
            raise Reject(f"the message has no header {name!r}, which is what identifies it")
        return f"{message.topic}/id/{value.hex()}"

    return identify


@dataclass(frozen=True, slots=True)
class Once:
    """Handle each message once: `Once(SqliteStore("handled.db"), by_header("message-id"))`.

    A message that the store has seen is skipped. A mark is made when the handler has returned, so a
    crash in that instant leads to a second call; `SqliteStore.mark_within` tells how to close this
    last gap.
    """

    store: Store | AsyncStore
    by: Identify = by_position


class Guard:
    """Calls the handler unless the message was handled. `BUSY` if just that is going on."""

    HANDLED, SKIPPED, BUSY = "handled", "skipped", "busy"

    def __init__(self, once: Once | None, group: str) -> None:
        self._once = once
        self._group = group
        self._handling: set[str] = set()
        self._lock = threading.Lock()

    def call(self, handler: Callable[[Message], object], message: Message) -> str:
        """Handle it in this thread."""
        if self._once is None:
            _done(handler(message))
            return self.HANDLED
        identity = self._identity(self._once, message)
        with self._claim(identity) as ours:
            if not ours:
                return self.BUSY
            if _done(self._once.store.seen(identity)):
                return self.SKIPPED
            try:
                _done(handler(replace(message, identity=identity)))
            except AlreadyHandled:
                return self.SKIPPED
            _done(self._once.store.mark(identity))
            return self.HANDLED

    async def call_async(
        self, handler: Callable[[Message], Awaitable[object]], message: Message
    ) -> str:
        """Handle it in this task; a store that blocks is asked in a thread."""
        if self._once is None:
            await handler(message)
            return self.HANDLED
        identity = self._identity(self._once, message)
        with self._claim(identity) as ours:
            if not ours:
                return self.BUSY
            if await _ask(self._once.store.seen, identity):
                return self.SKIPPED
            try:
                await handler(replace(message, identity=identity))
            except AlreadyHandled:
                return self.SKIPPED
            await _ask(self._once.store.mark, identity)
            return self.HANDLED

    def _identity(self, once: Once, message: Message) -> str:
        # Two groups may share a store, and each handles everything.
        return f"{self._group}/{once.by(message)}"

    @contextmanager
    def _claim(self, identity: str) -> Iterator[bool]:
        with self._lock:
            ours = identity not in self._handling
            self._handling.add(identity)
        try:
            yield ours
        finally:
            if ours:
                with self._lock:
                    self._handling.discard(identity)


def _done(result: object) -> object:
    """A result, and not the promise of one: that would count as done, and never be."""
    if inspect.isawaitable(result):
        if inspect.iscoroutine(result):
            result.close()
        raise TypeError("a Worker awaits nothing: give coroutines to an AsyncWorker")
    return result


async def _ask(method: Callable[[str], object], identity: str) -> object:
    if inspect.iscoroutinefunction(method):
        return await method(identity)
    result = await asyncio.to_thread(method, identity)
    return await result if inspect.isawaitable(result) else result
