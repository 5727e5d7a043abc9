"""Slots: into how many parts a topic sink cuts a batch, and which batch it has begun.

A row's slot depends on its key alone (on its value where there is no key). A batch that is played
again therefore finds each row in the slot that it was in before, however Spark has split the work
meanwhile, provided that the number of slots is the same: it is kept here, in the pipeline's
checkpoint, before the first row is written. The next batch may have another number.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, replace

from penstock.pipeline.checkpoint import Checkpoint
from penstock.pipeline.problem import Problem

NO_BATCH = -1


@dataclass(frozen=True, slots=True)
class Slots:
    """What a sink has decided for the batch that it has begun."""

    count: int
    home: str
    """The topic whose partitions lend the markers their names: slot 0 has partition 0's."""
    begun: int = NO_BATCH
    """The last batch of which rows may be in topics: no row of a later one is."""

    def begin(self, batch: int) -> Slots:
        """The same, with this batch begun."""
        return replace(self, begun=batch)


class SlotBook:
    """The file that holds a sink's slots."""

    def __init__(self, checkpoint: Checkpoint, sink: str) -> None:
        self.path = os.path.join(checkpoint.root, "sinks", f"{sink}.json")

    def read(self) -> Slots | None:
        """What was kept; None if nothing was."""
        try:
            with open(self.path) as file:
                return Slots(**json.load(file))
        except FileNotFoundError:
            return None
        except (ValueError, TypeError) as damage:
            raise Problem(
                f"{self.path} cannot be read: {damage}",
                "Restore it, or begin anew: penstock pipeline reset",
            ) from damage

    def keep(self, slots: Slots) -> None:
        """Write it so that it is there after a crash, whole."""
        folder = os.path.dirname(self.path)
        os.makedirs(folder, exist_ok=True)
        with open(f"{self.path}.new", "w") as file:
            json.dump(asdict(slots), file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(f"{self.path}.new", self.path)
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
