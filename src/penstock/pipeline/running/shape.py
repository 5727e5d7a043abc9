"""The shape of a query: what of it must stay as it was for its checkpoint to be of use.

Spark finds the state of an operator and the position of a source by their places in the plan. A
filter or a column may come and go; a source more or less, or another aggregate, and positions and
state would be given to the wrong ones. The shape is kept beside the checkpoint and compared before
a query is started.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from penstock.pipeline.checkpoint import LOCAL, Checkpoint, Files
from penstock.pipeline.problem import Problem
from penstock.pipeline.spec.model import Pipeline

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FILE = "queries.json"
PARTITIONS = "spark.sql.shuffle.partitions"

IDENTIFYING = ("subscribe", "subscribePattern", "assign", "path", "files", "dbtable", "table")
"""Options that say what a source reads. Others may hold secrets, and none may change its place."""

OPERATORS = {
    "Aggregate": "aggregate",
    "Deduplicate": "deduplicate",
    "DeduplicateWithinWatermark": "deduplicate",
    "Distinct": "distinct",
    "GlobalLimit": "limit",
    "Join": "join",
    "FlatMapGroupsWithState": "stateful function",
    "FlatMapGroupsInPandasWithState": "stateful function",
    "TransformWithState": "stateful function",
    "TransformWithStateInPySpark": "stateful function",
    "TransformWithStateInPandas": "stateful function",
}
"""Spark's operators that keep state in a stream, and what people call them."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What must not change."""

    sources: tuple[str, ...]
    operators: tuple[str, ...]
    partitions: str
    """Into how many parts state is divided."""


def shape_of(rows: DataFrame) -> Shape:
    """The shape of the query that writes these rows."""
    plan: Any = rows._jdf.queryExecution().analyzed()
    nodes = list(_nodes(plan))
    sources = tuple(_source(node) for name, node in nodes if name.startswith("StreamingRelation"))
    operators = tuple(_operator(name, node) for name, node in nodes if _keeps_state(name, node))
    return Shape(sources, operators, rows.sparkSession.conf.get(PARTITIONS) or "")


def _nodes(node: Any) -> Iterator[tuple[str, Any]]:
    yield str(node.getClass().getSimpleName()), node
    for child in _listed(node.children()):
        yield from _nodes(child)


def _listed(sequence: Any) -> list[Any]:
    return [sequence.apply(number) for number in range(sequence.size())]


def _source(node: Any) -> str:
    name = str(node.sourceName())
    if node.getClass().getSimpleName() != "StreamingRelationV2":
        return name
    options = node.extraOptions()
    told = [f"{key}={options.get(key)}" for key in IDENTIFYING if options.containsKey(key)]
    return " ".join([name, *told])


def _keeps_state(name: str, node: Any) -> bool:
    if name not in OPERATORS or not node.isStreaming():
        return False
    # A table joined to a stream is read anew: only two streams wait for one another.
    return name != "Join" or all(child.isStreaming() for child in _listed(node.children()))


def _operator(name: str, node: Any) -> str:
    called = OPERATORS[name]
    if name == "Aggregate":
        keys = [_told(each) for each in _listed(node.groupingExpressions())]
        kept = [_told(each) for each in _listed(node.aggregateExpressions())]
        values = [each for each in kept if each not in keys]
        return f"{called} {', '.join(values)} by {', '.join(keys)}"
    if name.startswith("Deduplicate"):
        return f"{called} by {', '.join(_told(each) for each in _listed(node.keys()))}"
    if name == "Join":
        condition = _told(node.condition().get()) if node.condition().isDefined() else "anything"
        return f"{node.joinType().sql().lower()} {called} on {condition}"
    return called


def _told(expression: Any) -> str:
    """An expression without what Spark numbers anew each time."""
    if expression.getClass().getSimpleName() == "Alias":
        expression = expression.child()
    return re.sub(r"#\d+L?|-T\d+ms", "", str(expression.toString()))


def check_shapes(
    pipeline: Pipeline, checkpoint: Checkpoint, shapes: dict[str, Shape], files: Files = LOCAL
) -> None:
    """Refuse queries that their checkpoints were not made by, and remember the new ones."""
    known = _read(checkpoint, files)
    begun = {name for name in (*known, *shapes) if files.exists(checkpoint.folder(name))}
    for name, shape in shapes.items():
        if name in known and name in begun:
            _compare(pipeline, name, known[name], shape)
    _refuse_renamed(
        pipeline,
        left=[name for name in known if name in begun and name not in shapes],
        fresh=[name for name in shapes if name not in begun],
    )
    told = {name: asdict(shape) for name, shape in {**known, **shapes}.items()}
    files.write(f"{checkpoint.root}/{FILE}", json.dumps(told, indent=1))


def _compare(pipeline: Pipeline, name: str, old: Shape, new: Shape) -> None:
    for what, was, now in (
        ("sources", old.sources, new.sources),
        ("state", old.operators, new.operators),
    ):
        if was != now:
            raise Problem(
                f"the {what} of the view {name!r} changed since its checkpoint was made:\n"
                f"    then: {'; '.join(was) or 'none'}\n"
                f"    now:  {'; '.join(now) or 'none'}",
                _ADVICE,
                pipeline.place,
            )
    chosen = pipeline.spark.get(PARTITIONS)
    if new.operators and chosen and chosen != old.partitions:
        raise Problem(
            f"the state of the view {name!r} is divided into {old.partitions} parts, and "
            f"{PARTITIONS} wants {chosen}: state cannot be divided anew",
            f"Set {PARTITIONS}: '{old.partitions}' again, or give up the state: "
            "`penstock pipeline reset FILE`.",
            pipeline.place,
        )


def _refuse_renamed(pipeline: Pipeline, left: list[str], fresh: list[str]) -> None:
    """A view that was renamed would begin anew, and write all that was written before again."""
    if len(fresh) == 1 and len(left) == 1:
        raise Problem(
            f"the view {left[0]!r} was written before, and now {fresh[0]!r} is: its progress is "
            f"kept under the old name",
            f"Call it {left[0]!r} again (`as: {left[0]}`, or the sink's `from`), or begin anew: "
            "`penstock pipeline reset FILE`.",
            pipeline.place,
        )


_ADVICE = (
    "Take the change back, begin anew with `penstock pipeline reset FILE`, or give the pipeline "
    "a new name: it then begins by itself, beside the old one."
)


def _read(checkpoint: Checkpoint, files: Files) -> dict[str, Shape]:
    text = files.read(f"{checkpoint.root}/{FILE}")
    try:
        found = json.loads(text or "{}")
        return {
            name: Shape(tuple(each["sources"]), tuple(each["operators"]), each["partitions"])
            for name, each in found.items()
        }
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}  # torn or of another release: Spark still compares what it can
