"""The window as the share coordinator knew it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.coordination.delivery.effects import Held
from penstock.coordination.delivery.states import State
from penstock.coordination.delivery.window import Run, Window

if TYPE_CHECKING:
    from penstock.coordination.delivery.settings import Backoff
    from penstock.coordination.effects import Moment


def load(held: Held, backoff: Backoff, at: Moment) -> Window:
    """What was delivered and not answered left no trace: it lies in holes between what is known
    about, or behind all of it, and is delivered again."""
    window = Window(held.start)
    for first, last, state, count, not_before in sorted(held.batches):
        first = max(first, window.end)
        if last < first:
            continue
        if first > window.end:
            window.append(Run(window.end, first - 1, State.AVAILABLE, 0))
        run = Run(first, last, State.AVAILABLE if state is State.ACQUIRED else State(state), count)
        left_ms = backoff.left_ms(count, not_before, at.wall)
        if run.state is State.AVAILABLE and left_ms:
            run.not_before = not_before
            run.due = at.mono + left_ms
        elif run.state is State.ARCHIVING:
            run.is_kept = True
            run.due = at.mono + 1
        window.append(run)
    window.advance()
    return window
