"""The folder in which a pipeline keeps its progress, and the name that it was given once."""

from __future__ import annotations

import json
import os
import uuid
from dataclasses import dataclass
from typing import Protocol

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


class Files(Protocol):
    """Small files in the place where a checkpoint is."""

    def read(self, path: str) -> str | None:
        """What the file holds; None if there is none."""

    def write(self, path: str, text: str) -> None:
        """Write the whole file, so that it is there as a whole or not at all."""

    def exists(self, path: str) -> bool:
        """Whether there is a file or a folder of this name."""


class LocalFiles:
    """Files of this machine."""

    def read(self, path: str) -> str | None:
        try:
            with open(path) as file:
                return file.read()
        except FileNotFoundError:
            return None

    def write(self, path: str, text: str) -> None:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(f"{path}.new", "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(f"{path}.new", path)

    def exists(self, path: str) -> bool:
        return os.path.exists(path)


LOCAL = LocalFiles()


def open_checkpoint(pipeline: Pipeline, files: Files = LOCAL) -> Checkpoint:
    """The checkpoint of this pipeline, made if there is none; another pipeline's is refused."""
    root = checkpoint_root(pipeline)
    mark = f"{root}/{MARK}"
    text = files.read(mark)
    if text is None:
        made = Checkpoint(root, uuid.uuid4().hex[:12])
        files.write(mark, json.dumps({"pipeline": pipeline.name, "id": made.id}))
        return made
    try:
        found = json.loads(text)
        name, identity = str(found["pipeline"]), str(found["id"])
    except (ValueError, KeyError, TypeError) as damage:
        raise Problem(
            f"{mark} is damaged: {damage}",
            "Restore it, or begin anew: `penstock pipeline reset FILE`.",
            pipeline.place,
        ) from damage
    if name != pipeline.name:
        raise Problem(
            f"{root} is the checkpoint of the pipeline {name!r}, not of {pipeline.name!r}",
            "Give this pipeline a checkpoint of its own, or rename it back.",
            pipeline.place,
        )
    return Checkpoint(root, identity)


def is_remote(root: str) -> bool:
    """Whether only Spark can reach a checkpoint there."""
    return "://" in root


def checkpoint_root(pipeline: Pipeline) -> str:
    """Where the checkpoint is, or will be: beside the file, if the file does not say."""
    given = pipeline.checkpoint or f".penstock/{pipeline.name}"
    if is_remote(given) or os.path.isabs(given):
        return given
    return os.path.join(os.path.dirname(os.path.abspath(pipeline.place.file)), given)
