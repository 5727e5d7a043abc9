"""The promises, one function each, and all of them together.

A check takes a history and yields a verdict for each thing that is wrong. It looks only at what
was recorded: with nothing of its kind in the history it finds nothing, so record what you want to
know about, and read every partition to its end before you ask.
"""

from __future__ import annotations

from penstock.testing.history.checks.groups import fenced_commits_fail, positions_are_as_committed
from penstock.testing.history.checks.marks import (
    high_watermark_never_goes_back,
    last_stable_never_goes_back,
    last_stable_stays_below,
)
from penstock.testing.history.checks.order import later_sends_land_above, producers_keep_order
from penstock.testing.history.checks.readers import readers_go_in_order, readers_skip_nothing
from penstock.testing.history.checks.records import (
    acknowledged_is_kept,
    acknowledged_was_read,
    no_duplicates,
    nothing_from_nowhere,
    one_value_per_offset,
)
from penstock.testing.history.checks.shares import (
    deliveries_are_what_was_sent,
    settled_stays_settled,
)
from penstock.testing.history.checks.transactions import (
    aborted_is_invisible,
    all_or_nothing,
    committed_is_visible,
)
from penstock.testing.history.checks.zombies import zombies_have_no_effect
from penstock.testing.history.verdict import Check

ALL: tuple[Check, ...] = (
    acknowledged_is_kept,
    acknowledged_was_read,
    one_value_per_offset,
    no_duplicates,
    nothing_from_nowhere,
    producers_keep_order,
    later_sends_land_above,
    all_or_nothing,
    aborted_is_invisible,
    committed_is_visible,
    last_stable_stays_below,
    last_stable_never_goes_back,
    high_watermark_never_goes_back,
    readers_go_in_order,
    readers_skip_nothing,
    fenced_commits_fail,
    positions_are_as_committed,
    zombies_have_no_effect,
    settled_stays_settled,
    deliveries_are_what_was_sent,
)
"""Everything that holds for every topic that is neither compacted nor trimmed."""
