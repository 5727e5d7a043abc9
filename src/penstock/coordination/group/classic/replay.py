"""What a record of a classic group changes in the shard."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.coordination.group.shard import Replay

REPLAY: dict[int, Replay] = {}
