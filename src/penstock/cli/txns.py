"""What a cluster tells about its transactions, as plain documents and tables."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any

from penstock.cli.durations import age_text
from penstock.cli.groups import assignment_text, name_of, word_of
from penstock.cli.output import Table
from penstock.cli.wire import Wire
from penstock.cli.wire_cluster import TRANSACTION, Cluster, Refusal, check
from penstock.model.errors import ErrorCode
from penstock.protocol.generated.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from penstock.protocol.generated.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)

Document = dict[str, Any]

ASKED_MAX = 500
"""How many transactional ids one request asks about."""

UNFINISHED = ("ongoing", "prepare-commit", "prepare-abort", "prepare-epoch-fence")
"""The states in which partitions wait for a marker."""


def listing(
    cluster: Cluster, states: Sequence[str], producers: Sequence[int], longer_than_ms: int | None
) -> list[Document]:
    """All about each transactional id, by id; no states or producers means all of them.

    With `longer_than_ms` only transactions that have been open for longer.
    """
    request = ListTransactionsRequest(
        state_filters=[name_of(state) for state in states],
        producer_id_filters=list(producers),
        duration_filter=-1 if longer_than_ms is None else longer_than_ms,
    )

    def once() -> list[Document]:
        found: list[Document] = []
        for number, told in cluster.everyone(request, ListTransactionsResponse):
            check(told.error_code, "the transactions could not be listed")
            ids = [one.transactional_id for one in told.transaction_states]
            found += [
                {"coordinator": number, **one} for one in _described(cluster.node(number), ids)
            ]
        return found

    # A transaction may have ended since it was listed, and one that never began counts as old.
    kept = [
        one
        for one in cluster.patiently(once)
        if (not states or one["state"] in states)
        and (longer_than_ms is None or one["open_seconds"] is not None)
    ]
    return sorted(kept, key=lambda one: str(one["id"]))


def _described(wire: Wire, ids: Sequence[str]) -> Iterable[Document]:
    now_ms = time.time() * 1000
    for start in range(0, len(ids), ASKED_MAX):
        request = DescribeTransactionsRequest(
            transactional_ids=list(ids[start : start + ASKED_MAX])
        )
        for one in wire.ask(request, DescribeTransactionsResponse).transaction_states:
            if one.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                continue  # it expired since it was listed
            check(one.error_code, f"transactional id {one.transactional_id} cannot be described")
            yield _document(one, now_ms)


def describe(cluster: Cluster, name: str) -> Document:
    """A transactional id and its transaction; `Refusal` if there is no such id."""
    return cluster.patiently(lambda: _describe_once(cluster, name))


def _describe_once(cluster: Cluster, name: str) -> Document:
    coordinator = cluster.coordinator(TRANSACTION, name)
    for one in _described(cluster.node(coordinator.id), [name]):
        return {"id": name, "coordinator": coordinator._asdict(), **one}
    what = f"transactional id {name} cannot be described"
    raise Refusal(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, what)


def _document(one: TransactionState, now_ms: float) -> Document:
    began = one.transaction_start_time_ms
    state = word_of(one.transaction_state)
    return {
        "id": one.transactional_id,
        "state": state,
        "producer": one.producer_id,
        "epoch": one.producer_epoch,
        "timeout_ms": one.transaction_timeout_ms,
        "began_ms": began if began >= 0 else None,
        "open_seconds": (
            round(max(0.0, now_ms - began) / 1000, 1)
            if began >= 0 and state in UNFINISHED
            else None
        ),
        "partitions": {topic.topic: sorted(topic.partitions) for topic in one.topics},
    }


def table(documents: Sequence[Document]) -> Table:
    """Transactional ids, a line each."""
    columns = ("id", "state", "producer", "epoch", "coordinator")
    rows = [
        [
            *(one[column] for column in columns),
            age_text(one["open_seconds"]),
            sum(map(len, one["partitions"].values())),
        ]
        for one in documents
    ]
    return Table((*columns, "open for", "partitions"), rows)


def tables(document: Document) -> list[Table]:
    """One transactional id for people."""
    where = document["coordinator"]
    columns = ("id", "state", "producer", "epoch")
    line = [
        *(document[column] for column in columns),
        f"{where['id']} ({where['host']}:{where['port']})",
        age_text(document["timeout_ms"] / 1000),
        age_text(document["open_seconds"]),
        assignment_text(document["partitions"]),
    ]
    return [Table((*columns, "coordinator", "timeout", "open for", "partitions"), [line])]
