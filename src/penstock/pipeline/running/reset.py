"""Forgetting how far a pipeline has come."""

from __future__ import annotations

import os
import shutil

from penstock.pipeline.checkpoint import MARK, checkpoint_root, is_remote
from penstock.pipeline.problem import Problem
from penstock.pipeline.running.registry import LOCK, Claim
from penstock.pipeline.running.shape import FILE
from penstock.pipeline.spec import sinks
from penstock.pipeline.spec.model import Pipeline, Sink

OURS = (MARK, FILE, LOCK, "queries")
"""What a checkpoint consists of. Nothing else in the folder is touched."""


def consequences(pipeline: Pipeline) -> list[str]:
    """What a reset will mean for each sink, once the pipeline runs again."""
    return [f"{name}: {_consequence(sink)}" for name, sink in pipeline.sinks.items()]


def _consequence(sink: Sink) -> str:
    match sink:
        case sinks.TopicSink():
            return f"the topic {sink.topic} gets all records again, after those it has"
        case sinks.ParquetSink():
            return f"{sink.parquet} gets all rows again, beside those it has: empty it first"
        case sinks.IcebergSink() if sink.mode == "upsert":
            return f"the rows of {sink.iceberg} are replaced by themselves"
        case sinks.IcebergSink():
            return f"{sink.iceberg} gets all rows again, beside those it has: empty it first"
        case sinks.JdbcSink() if sink.key:
            return f"the rows of {sink.table} are replaced by themselves"
        case sinks.JdbcSink():
            return f"{sink.table} gets all rows again, beside those it has: empty it first"
        case sinks.ConsoleSink():
            return "all rows are shown again"
        case sinks.PythonSink():
            return f"{sink.python} is called with all rows again"


def forget_checkpoint(pipeline: Pipeline) -> bool:
    """Delete the checkpoint; False if there is none. A pipeline that runs is refused."""
    root = checkpoint_root(pipeline).removeprefix("file://")
    if is_remote(root):
        raise Problem(
            f"the checkpoint {root} is not on this machine",
            "Delete that folder with the tools of the place where it is.",
            pipeline.place,
        )
    if not os.path.isfile(os.path.join(root, MARK)):
        return False
    claim = Claim(pipeline)
    try:
        # The mark goes first: half a checkpoint without it is nobody's, and is begun anew.
        for name in OURS:
            path = os.path.join(root, name)
            if os.path.isdir(path):
                shutil.rmtree(path)
            elif os.path.exists(path):
                os.remove(path)
        if not os.listdir(root):
            os.rmdir(root)
    finally:
        claim.release()
    return True
