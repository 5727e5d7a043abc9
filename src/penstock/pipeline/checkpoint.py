"""The folder in which a pipeline keeps its progress, and the name that it was given once."""

from __future__ import annotations

import json
import os
import uuid
from dataclasses import dataclass

from penstock.pipeline.problem import Problem
from penstock.pipeline.spec.model import Pipeline

MARK = "penstock.json"
"""The file that says whose checkpoint this is."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A pipeline's own folder. Each of its queries has a folder in it, which is Spark's."""

    root: str
    id: str
    """Made when the checkpoint was: progress of another one counts for nothing."""

    def folder(self, query: str) -> str:
        """Where Spark keeps the progress and state of one query."""
        return f"{self.root}/queries/{query}"


def open_checkpoint(pipeline: Pipeline) -> Checkpoint:
    """The checkpoint of this pipeline, made if there is none; another pipeline's is refused."""
    root = checkpoint_root(pipeline)
    mark = os.path.join(root, MARK)
    try:
        with open(mark) as file:
            found = json.load(file)
    except FileNotFoundError:
        return _make(root, pipeline.name)
    except ValueError as damage:
        raise Problem(
            f"{mark} cannot be read: {damage}",
            "Restore it, or begin anew: penstock pipeline reset",
        ) from damage
    if found["pipeline"] != pipeline.name:
        raise Problem(
            f"{root} is the checkpoint of the pipeline {found['pipeline']!r}, not of "
            f"{pipeline.name!r}",
            "Give this pipeline a checkpoint of its own, or rename it back.",
            pipeline.place,
        )
    return Checkpoint(root, found["id"])


def checkpoint_root(pipeline: Pipeline) -> str:
    """Where the checkpoint is, or will be: beside the file, if the file does not say."""
    given = pipeline.checkpoint or f".penstock/{pipeline.name}"
    if "://" in given or os.path.isabs(given):
        return given
    return os.path.join(os.path.dirname(os.path.abspath(pipeline.place.file)), given)


def _make(root: str, name: str) -> Checkpoint:
    os.makedirs(root, exist_ok=True)
    mark = os.path.join(root, MARK)
    content = {"pipeline": name, "id": uuid.uuid4().hex[:12]}
    with open(f"{mark}.new", "w") as file:
        json.dump(content, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(f"{mark}.new", mark)
    return Checkpoint(root, content["id"])
