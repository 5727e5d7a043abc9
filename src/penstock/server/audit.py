"""Who was refused, who came in, and who changed what: one line of JSON each, for those who watch.

The lines go to the logger `penstock.audit`. The same refusal is written once in a window, and how
often it came again is written when the window ends: a client that retries in a loop fills no disk.
What is changed is always written, by the node that was asked and, if another one decides, by that
one too. Secrets are never given to these functions, and names are cut to a length.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from penstock.model.config.problems import shortened
from penstock.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.model.operations import Operation
    from penstock.model.resources import ResourceType
    from penstock.security.principal import Principal
    from penstock.server.call import Call

log = logging.getLogger("penstock.audit")

WINDOW_SECONDS = 60.0
"""In which the same event is written once."""

LINES_MAX = 1_000
"""Of each kind of event in one window, so that none drowns the others; how many more there were is
written at its end. Changes are not bounded: who makes them has the right to."""

TEXT_MAX = 255
ITEMS_MAX = 100
"""Of a list in the details of a change."""


# -- what others call -----------------------------------------------------------------------------


def denied(call: Call, operation: Operation, kind: ResourceType, name: str) -> None:
    """Somebody asked for what they have no right to.

    `server/rights.py` calls it by itself, unless it is asked not to: who is only shown less of a
    list was not refused anything.
    """
    # Not by the request: who may not read a topic may not in any of its versions.
    key = ("denied", str(call.principal), call.host, int(operation), int(kind), name)
    window = _window(asyncio.get_running_loop())
    if window.passes_over("denied", key):
        return  # before a line is made of it: one request may name a great many
    event = {
        "event": "denied",
        **_who(call),
        "operation": operation.name,
        "resource": f"{kind.name}:{_short(name)}",
    }
    window.keep(event, key)
    _write(event)


def login_failed(host: str, listener: str, mechanism: str, user: str, reason: str) -> None:
    """Somebody could not prove who they are; a `user` that they claimed to be may be empty."""
    event = _login("login failed", host, listener, mechanism, user)
    _seldom({**event, "reason": _short(reason)}, (*event.values(), reason))


def logged_in(host: str, listener: str, mechanism: str, principal: Principal) -> None:
    """Somebody proved who they are."""
    event = _login("logged in", host, listener, mechanism, str(principal))
    _seldom(event, tuple(event.values()))


def changed(call: Call, what: str, details: Mapping[str, Any] | None = None) -> None:
    """Somebody changed something: `what` in a few words, `details` as plain values.

    On a listener that is open to all nobody is known, and nothing is written.
    """
    if call.connection.gate is None:
        return
    event = {"event": "changed", **_who(call), "change": what}
    if details:
        event["details"] = _cut(details)
    _write(event)


# -- lines ----------------------------------------------------------------------------------------


def _who(call: Call) -> dict[str, Any]:
    told: dict[str, Any] = {
        "principal": _short(str(call.principal)),
        "host": call.host,
        "listener": call.listener_name,
        "api": ApiKey(call.api_key).name,
        "client": _short(call.client_id or ""),
    }
    if call.enveloped:
        told["passed_on_by"] = call.connection.peer[0]
    return told


def _login(event: str, host: str, listener: str, mechanism: str, user: str) -> dict[str, Any]:
    return {
        "event": event,
        "host": host,
        "listener": listener,
        "mechanism": _short(mechanism),
        "principal": _short(user),
    }


def _short(text: str) -> str:
    return shortened(text, TEXT_MAX)


def _cut(value: Any) -> Any:
    """A value as it is written: nothing in it can be longer than what one wants to read."""
    if isinstance(value, str):
        return _short(value)
    if isinstance(value, dict):
        some = {_short(str(key)): _cut(value[key]) for key in islice(value, ITEMS_MAX)}
        more = len(value) - ITEMS_MAX
        return {**some, "...": f"and {more} more"} if more > 0 else some
    if isinstance(value, list | tuple | set | frozenset):
        items = [_cut(each) for each in islice(value, ITEMS_MAX)]
        more = len(value) - ITEMS_MAX
        return [*items, f"and {more} more"] if more > 0 else items
    return value if value is None or isinstance(value, bool | int | float) else _short(str(value))


def _write(event: Mapping[str, Any]) -> None:
    # JSON escapes line ends and what terminals take for commands: nobody forges a line by a name.
    log.info("%s", json.dumps(event))


# -- how often ------------------------------------------------------------------------------------


class Window:
    """Which events were told since when, and how often they came again. Pure."""

    __slots__ = ("_told", "_unwritten", "_written")

    def __init__(self) -> None:
        self._told: dict[tuple[Any, ...], tuple[Mapping[str, Any], int]] = {}
        self._written: Counter[str] = Counter()
        self._unwritten: Counter[str] = Counter()

    def passes_over(self, kind: str, key: tuple[Any, ...]) -> bool:
        """Whether an event is only counted: its like was written, or too many of its kind were."""
        known = self._told.get(key)
        if known is not None:
            self._told[key] = (known[0], known[1] + 1)
            return True
        if self._written[kind] >= LINES_MAX:
            self._unwritten[kind] += 1
            return True
        return False

    def keep(self, event: Mapping[str, Any], key: tuple[Any, ...]) -> None:
        """It is written now."""
        self._written[event["event"]] += 1
        self._told[key] = (event, 0)

    def end(self) -> list[Mapping[str, Any]]:
        """What is to be said when the window ends."""
        again = [{**event, "again": count} for event, count in self._told.values() if count]
        unwritten = self._unwritten.items()
        return [*again, *({"event": kind, "unwritten": count} for kind, count in unwritten)]


_windows: WeakKeyDictionary[asyncio.AbstractEventLoop, Window] = WeakKeyDictionary()
"""The one that is open now, by the loop that the node runs on."""


def _window(loop: asyncio.AbstractEventLoop) -> Window:
    window = _windows.get(loop)
    if window is None:
        window = _windows[loop] = Window()
        loop.call_later(WINDOW_SECONDS, _end_window, loop)
    return window


def _seldom(event: Mapping[str, Any], key: tuple[Any, ...]) -> None:
    window = _window(asyncio.get_running_loop())
    if not window.passes_over(event["event"], key):
        window.keep(event, key)
        _write(event)


def _end_window(loop: asyncio.AbstractEventLoop) -> None:
    for event in _windows.pop(loop).end():
        _write(event)
