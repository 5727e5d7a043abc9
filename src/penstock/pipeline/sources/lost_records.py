"""Records that were gone before they were read: which, how many, and what to do."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator

from penstock.pipeline.context import Context
from penstock.pipeline.problem import Place, Problem
from penstock.pipeline.spec.sources import TopicSource

DATA_LOSS = re.compile(
    r"KAFKA_DATA_LOSS|data may have been (lost|missed)|OffsetOutOfRange|"
    r"(set|source option) \"?failOnDataLoss"
)
WAIT_SECONDS_MAX = 10.0
SHOWN_MAX = 20
ADVICE = (
    "Set `data_loss: continue` in the source to go on with what is there, or begin anew with "
    "`penstock pipeline reset`. To be spared it, keep records longer (`retention.ms`)."
)

Partition = tuple[str, int]


def explain(error: BaseException, context: Context) -> Problem | None:
    """What was lost, in the user's words; None if the error is about something else.

    Spark says that something is missing. What exactly, the checkpoint and the brokers know: every
    offset below a partition's start that the pipeline had not reached.
    """
    if not DATA_LOSS.search(str(error)):
        return None
    place = _place(context)
    try:
        lost = list(_lost(context))
    except Exception:  # noqa: BLE001
        # The brokers may be down by now: then what Spark says has to do.
        lost = []
    if not lost:
        return Problem(
            "records that this pipeline has not read yet are gone: by retention, or since their "
            "topic was deleted or made anew",
            ADVICE,
            place,
        )
    more = f"; and {len(lost) - SHOWN_MAX} partitions more" if len(lost) > SHOWN_MAX else ""
    return Problem(
        "records that this pipeline has not read yet are gone: "
        + "; ".join(lost[:SHOWN_MAX])
        + more,
        ADVICE,
        place,
    )


def _place(context: Context) -> Place:
    sources = context.pipeline.sources.values()
    topics = [each for each in sources if isinstance(each, TopicSource)]
    if len(topics) == 1 and topics[0].place.file:
        return topics[0].place
    return context.pipeline.place


def _lost(context: Context) -> Iterator[str]:
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    from penstock.pipeline.running.clients import client_settings

    settings = {**client_settings(context.pipeline), "group.id": context.pipeline.group}
    consumer = Consumer(settings)
    try:
        for (topic, partition), reached in sorted(reached_offsets(context.checkpoint.root).items()):
            name = f"{topic}-{partition}"
            try:
                low, high = consumer.get_watermark_offsets(
                    TopicPartition(topic, partition), WAIT_SECONDS_MAX
                )
            except KafkaException:
                yield f"{name}: it is not there any more, and was read up to offset {reached}"
                continue
            if low > reached:
                count = low - reached
                yield f"{name}: {count:,} records, from offset {reached} to {low - 1}"
            elif high < reached:
                yield (
                    f"{name}: it was made anew; it ends at offset {high}, "
                    f"and was read up to {reached}"
                )
    finally:
        consumer.close()


def reached_offsets(root: str) -> dict[Partition, int]:
    """Up to where each partition was read by all queries of a checkpoint: the smallest offset."""
    reached: dict[Partition, int] = {}
    queries = os.path.join(root, "queries")
    for query in os.listdir(queries) if os.path.isdir(queries) else ():
        for key, offset in _query_offsets(os.path.join(queries, query)).items():
            reached[key] = min(offset, reached.get(key, offset))
    return reached


def _query_offsets(folder: str) -> dict[Partition, int]:
    done = _newest(os.path.join(folder, "commits"))
    if done is None:
        return {}
    found: dict[Partition, int] = {}
    with open(os.path.join(folder, "offsets", done)) as file:
        # A version, what Spark keeps for itself, then one line per source.
        for line in file.read().splitlines()[2:]:
            found.update(_topic_offsets(line))
    return found


def _newest(folder: str) -> str | None:
    try:
        numbers = [int(name) for name in os.listdir(folder) if name.isdigit()]
    except FileNotFoundError:
        return None
    return str(max(numbers)) if numbers else None


def _topic_offsets(line: str) -> Iterator[tuple[Partition, int]]:
    try:
        topics = json.loads(line)
    except ValueError:
        return
    for topic, partitions in topics.items() if isinstance(topics, dict) else ():
        if isinstance(partitions, dict):
            for partition, offset in partitions.items():
                if partition.isdigit() and isinstance(offset, int):
                    yield (topic, int(partition)), offset
