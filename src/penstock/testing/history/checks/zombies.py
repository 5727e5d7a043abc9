"""Producers whose transactional id another one has taken over."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from penstock.testing.history.history import History
from penstock.testing.history.operations import End, Init, Send
from penstock.testing.history.verdict import Verdict

ZOMBIE = "zombies have no effect"


def zombies_have_no_effect(history: History) -> Iterator[Verdict]:
    """What a producer begins after it was fenced is refused, and is never seen by anyone."""
    holders = _holders(history)
    for send in history.sends:
        fence = _fence(holders, send)
        if fence is None:
            continue
        offsets = history.offsets_of(send.place, send.value)
        alone = len(history.sends_of[send.place, send.value]) == 1
        if send.is_ok or (offsets and alone):
            at = send.offset if send.is_ok else min(offsets)
            says = (
                f"{send.client} was fenced by {fence.client}, and then wrote {send.value!r} at "
                f"offset {at} of {send.place}"
            )
            yield Verdict(ZOMBIE, says, (fence, send), send.place, at)
    for end in history.ends:
        fence = _fence(holders, end)
        if fence is not None and end.is_ok and end.commit:
            says = (
                f"{end.client} was fenced by {fence.client}, and then committed transaction "
                f"{end.transaction}"
            )
            yield Verdict(ZOMBIE, says, (fence, end))


def _holders(history: History) -> dict[str, list[Init]]:
    """By client: the inits of its transactional id, everybody's."""
    by_id: dict[str, list[Init]] = defaultdict(list)
    for init in history.inits:
        if init.is_ok:
            by_id[init.transactional_id].append(init)
    return {init.client: inits for inits in by_id.values() for init in inits}


def _fence(holders: dict[str, list[Init]], operation: Send | End) -> Init | None:
    """Who had taken the id over before the operation began; None if it was the client's own."""
    inits = holders.get(operation.client, ())
    own = [
        init for init in inits if init.client == operation.client and init.ended < operation.began
    ]
    if not own:
        return None
    since = max(init.ended for init in own)
    for init in inits:
        if init.client != operation.client and since < init.began and init.ended < operation.began:
            return init
    return None
