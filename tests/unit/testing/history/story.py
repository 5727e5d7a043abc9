"""Histories written by hand: every operation takes a moment, one after another."""

from __future__ import annotations

from typing import Any

from penstock.testing.history import (
    Check,
    Commit,
    Committed,
    Deliver,
    End,
    History,
    Init,
    Marks,
    Poll,
    Recorder,
    Send,
    Settle,
    find,
)

TOPIC = "t"


class Story:
    """Clients that share a clock, which ticks with every note."""

    def __init__(self) -> None:
        self.ticks = 0
        self.clients: dict[str, Recorder] = {}

    def client(self, name: str) -> Recorder:
        if name not in self.clients:
            self.clients[name] = Recorder(name, clock=self._tick)
        return self.clients[name]

    def _tick(self) -> int:
        self.ticks += 1
        return self.ticks

    def send(self, who: str, value: str, at: int | None, partition: int = 0, **fields: Any) -> Send:
        """Acknowledged at an offset, or unknown if there is none."""
        send = Send(topic=TOPIC, partition=partition, value=value, **fields)
        self.client(who).begin(send)
        if at is not None:
            self.client(who).ok(send, offset=at)
        return send

    def refused(self, who: str, value: str, **fields: Any) -> Send:
        send = self.client(who).begin(Send(topic=TOPIC, partition=0, value=value, **fields))
        self.client(who).failed(send, "refused")
        return send

    def poll(
        self,
        who: str,
        start: int,
        end: int,
        records: dict[int, str],
        partition: int = 0,
        topic: str = TOPIC,
        **fields: Any,
    ) -> Poll:
        poll = Poll(
            topic=topic,
            partition=partition,
            start=start,
            end=end,
            records=list(records.items()),
            **fields,
        )
        return self.client(who).note(poll)

    def marks(self, high: int, stable: int = -1) -> Marks:
        marks = Marks(topic=TOPIC, partition=0, high_watermark=high, last_stable=stable)
        return self.client("watch").note(marks)

    def init(self, who: str, transactional_id: str) -> None:
        client = self.client(who)
        client.ok(client.begin(Init(transactional_id=transactional_id)))

    def end(self, who: str, transaction: str, *, commit: bool, known: bool = True) -> End:
        client = self.client(who)
        end = client.begin(End(transaction=transaction, commit=commit))
        if known:
            client.ok(end)
        return end

    def commit(self, who: str, offset: int, *, known: bool = True, **fields: Any) -> Commit:
        client = self.client(who)
        commit = Commit(topic=TOPIC, partition=0, group="g", offset=offset, member=who, **fields)
        client.begin(commit)
        if known:
            client.ok(commit)
        return commit

    def committed(self, offset: int, *, stable: bool = False) -> Committed:
        found = Committed(topic=TOPIC, partition=0, group="g", offset=offset, stable=stable)
        return self.client("watch").note(found)

    def deliver(self, who: str, value: str, at: int, deliveries: int = 1, **fields: Any) -> Deliver:
        found = Deliver(
            topic=TOPIC, partition=0, group="g", offset=at, value=value, deliveries=deliveries
        )
        return self.client(who).note(found, **fields)

    def settle(
        self, who: str, at: int, word: str = "accept", deliveries: int = 1, *, known: bool = True
    ) -> Settle:
        client = self.client(who)
        settle = Settle(
            topic=TOPIC, partition=0, group="g", offset=at, word=word, deliveries=deliveries
        )
        client.begin(settle)
        if known:
            client.ok(settle)
        return settle

    @property
    def history(self) -> History:
        return History.of(*self.clients.values())

    def names(self, *checks: Check) -> list[str]:
        """The verdicts' names."""
        return [verdict.name for verdict in find(self.history, *checks)]
