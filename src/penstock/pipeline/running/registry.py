"""Which pipelines run on this machine, and how they are: a small folder for each.

A run keeps its folder locked for as long as it lives, so that a process that died without a word
is told from one that is at work. The status is replaced as a whole: readers see one or the next.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from penstock.pipeline.checkpoint import checkpoint_root, is_remote
from penstock.pipeline.problem import Problem
from penstock.pipeline.running.status import ENDED, FAILED, PipelineStatus, read_status
from penstock.pipeline.spec.model import Pipeline

VARIABLE = "PENSTOCK_STATE"
LOOK_SECONDS = 0.2
STATUS = "status.json"
LOCK = "lock"


def registry_folder() -> Path:
    """Where all pipelines of this user are registered."""
    given = os.environ.get(VARIABLE)
    if given:
        return Path(given)
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "penstock" / "pipelines"


class Entry:
    """One pipeline's folder."""

    def __init__(self, name: str) -> None:
        # A name is checked when a file is read; here it may come from a command line.
        self.name = name
        self.folder = registry_folder() / re.sub(r"[^\w.-]", "_", name)

    @property
    def log(self) -> Path:
        """Where Spark's own words go."""
        return self.folder / "spark.log"

    def keep_python_quiet(self) -> None:
        """Send what this process logs to a file beside Spark's log.

        Py4J logs every exception that crosses it with a stack, also those that are told in words.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        handler = logging.FileHandler(self.folder / "python.log", mode="w", delay=True)
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        logging.getLogger().addHandler(handler)
        logging.captureWarnings(True)

    def write(self, status: PipelineStatus) -> None:
        """Let other terminals see how the pipeline is."""
        aside = self.folder / f"{STATUS}.new"
        aside.write_text(json.dumps(status.document()))
        os.replace(aside, self.folder / STATUS)

    def read(self) -> PipelineStatus | None:
        """How it is, or how its last run ended; None if it never ran here."""
        try:
            document: dict[str, Any] = json.loads((self.folder / STATUS).read_text())
            status = read_status(document)
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError):
            return None  # written by another release
        if status.state not in ENDED and not self.locked():
            status.state = FAILED
            status.message = f"the process {status.pid} ended without a word"
        return status

    def locked(self) -> bool:
        """Whether a run holds the folder."""
        try:
            with open(self.folder / LOCK) as file:
                return not _try_lock(file)
        except FileNotFoundError:
            return False


class Claim:
    """The right to run a pipeline, held by one process at a time."""

    def __init__(self, pipeline: Pipeline, wait_seconds: float = 0.0) -> None:
        """Take it; `Problem` if another process has it, and keeps it for `wait_seconds`."""
        deadline = time.monotonic() + wait_seconds
        self.entry = Entry(pipeline.name)
        self.entry.folder.mkdir(parents=True, exist_ok=True)
        self._held = [_claim(self.entry.folder / LOCK, pipeline, deadline)]
        root = checkpoint_root(pipeline)
        if not is_remote(root):
            os.makedirs(root, exist_ok=True)
            self._held.append(_claim(Path(root) / LOCK, pipeline, deadline))

    def release(self) -> None:
        """Let others have it."""
        for each in self._held:
            each.close()


def entries() -> Iterator[Entry]:
    """All pipelines that run or ran here."""
    folder = registry_folder()
    if folder.is_dir():
        for each in sorted(folder.iterdir()):
            if (each / STATUS).is_file():
                yield Entry(each.name)


def _claim(path: Path, pipeline: Pipeline, deadline: float) -> IO[str]:
    file = open(path, "a+")  # noqa: SIM115 - held for as long as the run
    while not (locked := _try_lock(file)) and time.monotonic() < deadline:
        time.sleep(LOOK_SECONDS)
    if locked:
        file.seek(0)
        file.truncate()
        file.write(str(os.getpid()))
        file.flush()
        return file
    file.seek(0)
    holder = file.read().strip() or "another process"
    file.close()
    raise Problem(
        f"the pipeline {pipeline.name!r} runs already (process {holder})",
        f"`penstock pipeline status {pipeline.name}` shows it, "
        f"`penstock pipeline stop {pipeline.name}` stops it.",
        pipeline.place,
    )


def _try_lock(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
