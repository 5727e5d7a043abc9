"""Subscriptions by regular expression: which topics an expression stands for.

Expressions are RE2's: matching takes time linear in the name, whatever the expression, and its
compiled size is bounded. Matching happens away from requests (`Resolution`, an errand); what is
found is written down, so that the next coordinator need not ask again.
"""

from __future__ import annotations

import logging
from enum import Enum, auto
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.coordination.group.consumer.group import ConsumerGroup
from penstock.coordination.group.consumer.hashing import group_hash
from penstock.coordination.group.consumer.records import forget_regex, write_epoch, write_regex
from penstock.coordination.group.consumer.refusal import Refusal
from penstock.coordination.group.consumer.subscriptions import Resolved
from penstock.model.errors import ErrorCode
from penstock.model.ids import Millis

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.coordination.effects import Effects, Moment
    from penstock.coordination.group.consumer.member import Member
    from penstock.coordination.group.shard import GroupShard

log = logging.getLogger("penstock.coordination.group")

COMPILED_BYTES_MAX = 1 << 18
"""Kafka has no such bound: there, repetitions of repetitions take all the memory."""

MATCHING_SECONDS_MAX = 5.0
"""For one expression and all topics. Large expressions are slow, if not for ever."""

RESOLUTION_SECONDS_MAX = 20.0
"""For all expressions of a group, after which it is other groups' turn."""

REFRESH_MS_MIN = 10_000
"""Between two looks at a group's expressions."""

RESOLUTION_MS_MAX = 60_000
"""After this long a resolution is taken to be lost, and another one may begin."""


class RegexChange(Enum):
    """What a heartbeat does to its member's subscription by expression."""

    NONE = auto()
    UPDATED = auto()
    """Another one, of which it is not known yet what it stands for."""
    RESOLVED = auto()
    """Another one, or none any more, and it is known what that means."""


class Resolution(NamedTuple):
    """An errand: find the topics that expressions stand for."""

    group_id: str
    regexes: tuple[str, ...]
    topics: Mapping[str, Any]
    """By name; the metadata's own, which does not change."""
    version: int
    timestamp: int
    sees: Callable[[str], bool] | None = None
    """Which topics they who asked may know of; None: all. For the event loop, unlike `run`."""

    def run(self) -> Found:
        """Match them all. May take a while: not for the event loop."""
        end = monotonic() + RESOLUTION_SECONDS_MAX
        return {regex: self._match(regex, end) for regex in self.regexes}

    def _match(self, regex: str, end: float) -> Resolved | None:
        now = monotonic()
        if now > end:
            return None
        pattern = compile_regex(regex)
        names: list[str] = []
        if not isinstance(pattern, str):
            end = min(end, now + MATCHING_SECONDS_MAX)
            for name in self.topics:
                if pattern.fullmatch(name):
                    names.append(name)
                if monotonic() > end:
                    log.warning("group %s: %r takes too long to match", self.group_id, regex)
                    return None
        return Resolved(frozenset(names), self.version, self.timestamp)

    def shown(self, found: Found) -> Found:
        """What was found, without the topics that must not be known."""
        if self.sees is None:
            return found
        every = {name for it in found.values() if it is not None for name in it.topics}
        hidden = {name for name in every if not self.sees(name)}
        return {
            regex: it if it is None or not hidden else it._replace(topics=it.topics - hidden)
            for regex, it in found.items()
        }


Found = dict[str, Resolved | None]
"""By expression; None: it took too long."""


def compile_regex(regex: str) -> Any:
    """The compiled expression, or a string that says what is wrong with it."""
    import re2  # type: ignore[import-untyped]  # when somebody subscribes so, not when the node starts

    options = re2.Options()
    options.log_errors = False
    options.never_capture = True  # captures cost much where parentheses are many
    options.max_mem = COMPILED_BYTES_MAX
    try:
        return re2.compile(regex, options)
    except re2.error as problem:
        what = problem.args[0] if problem.args else "not understood"
        return what.decode("utf-8", "replace") if isinstance(what, bytes) else str(what)


def change_regex(
    shard: GroupShard,
    group: ConsumerGroup,
    old: Member,
    new: Member,
    at: Moment,
    out: Effects,
    sees: Callable[[str], bool] | None = None,
) -> RegexChange | Refusal:
    """See to a member's expression, and to a look at all of the group's if one is due."""
    subscriptions = group.subscriptions
    change, is_first = RegexChange.NONE, False
    if old.regex != new.regex:
        change = RegexChange.UPDATED
        if old.regex and subscriptions.regexes.get(old.regex) == 1:
            forget_regex(out, group.group_id, old.regex)
        if new.regex:
            if new.regex not in subscriptions.regexes:
                problem = compile_regex(new.regex)
                if isinstance(problem, str):
                    return Refusal(
                        ErrorCode.INVALID_REGULAR_EXPRESSION,
                        f"SubscribedTopicRegex `{new.regex}` is not a valid regular expression: "
                        f"{problem}.",
                    )
                is_first = True
            elif new.regex in subscriptions.resolved:
                change = RegexChange.RESOLVED
        elif old.regex:
            change = RegexChange.RESOLVED
    if is_first or subscriptions.regexes:
        _resolve_if_due(shard, group, old, new, is_first, at, out, sees)
    return change


def _resolve_if_due(
    shard: GroupShard,
    group: ConsumerGroup,
    old: Member,
    new: Member,
    is_first: bool,
    at: Moment,
    out: Effects,
    sees: Callable[[str], bool] | None,
) -> None:
    if at.mono < group.resolving_until:
        return
    around = shard.consumers
    known = group.subscriptions.resolved
    if known:
        last = next(iter(known.values()))
        if at.wall <= last.timestamp + REFRESH_MS_MIN:
            return
        refresh_ms = shard.settings.consumer_regex_refresh_ms
        is_old = last.version < around.newest_topics_at or at.wall > last.timestamp + refresh_ms
    else:
        is_old = True
    regexes = group.subscriptions.regexes
    if old.regex != new.regex:
        regexes = group.subscriptions.after([(old, new)]).regexes
    if regexes and (is_first or is_old or len(regexes) != len(known)):
        image = around.image
        # Should time run out, those that were left over come first the next time.
        oldest = sorted(regexes, key=lambda it: known[it].timestamp if it in known else -1)
        topics = image.topics.by_name
        out.errand(Resolution(group.group_id, tuple(oldest), topics, image.offset, at.wall, sees))
        _pause(group, Millis(at.mono + RESOLUTION_MS_MAX), group.resolving_until, out)


def _pause(group: ConsumerGroup, until: Millis, if_refused: Millis, out: Effects) -> None:
    """No other resolution until then; if the log refuses this step, until another time."""
    group.resolving_until = until
    earlier = out.undo

    def undo(error: ErrorCode, amends: Effects) -> None:
        if earlier is not None:
            earlier(error, amends)
        group.resolving_until = if_refused

    out.undo = undo


def on_resolved(shard: GroupShard, found: Found, group_id: str, at: Moment, out: Effects) -> None:
    """Write down what expressions stand for; the group moves on if that is something new."""
    group = shard.groups.get(group_id)
    if not isinstance(group, ConsumerGroup):
        return
    # What took too long is not tried again at once.
    pause_end = Millis(at.mono + RESOLUTION_MS_MAX)
    if None in found.values():
        group.resolving_until = pause_end
    else:
        # Nor is what the log does not take: it may be too much for one batch.
        _pause(group, Millis(0), pause_end, out)
    subscriptions = group.subscriptions
    used = {
        regex: it
        for regex, it in found.items()
        if it is not None and regex in subscriptions.regexes
    }
    nothing: frozenset[str] = frozenset()
    differs = False
    for regex, it in used.items():
        known = subscriptions.resolved.get(regex)
        differs = differs or it.topics != (known.topics if known else nothing)
        write_regex(out, group_id, regex, it)
    around = shard.consumers
    topics = subscriptions.with_resolved(used).topics
    metadata_hash = group_hash(topics, around.image, around.hashes)
    if differs or metadata_hash != group.metadata_hash:
        write_epoch(out, group_id, group.epoch + 1, metadata_hash)
        group.checked_at_epoch = group.epoch + 1
