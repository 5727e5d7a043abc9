"""Spark in a process of its own, for tests whose session must not be everybody's.

A Python process has one Spark session at a time and one Java for ever; the fixture `spark` takes
them. What a test wants to be done elsewhere is a function of a module, called with the session of
the other process first.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from typing import Any, Concatenate, ParamSpec, TypeVar

SECONDS_MAX = 500

Given = ParamSpec("Given")
Made = TypeVar("Made")

_session: Any = None


class SparkChild:
    """A process with one Spark session, which `make_session` makes there out of `arguments`."""

    def __init__(self, make_session: Callable[..., Any], *arguments: object) -> None:
        self._pool = ProcessPoolExecutor(
            1,
            # Not forked: threads of clients in this process would be missing in that one.
            mp_context=multiprocessing.get_context("spawn"),
            initializer=_open,
            initargs=(make_session, arguments),
        )

    def __enter__(self) -> SparkChild:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.submit(_close).result(SECONDS_MAX)
        self._pool.shutdown()

    def do(
        self,
        work: Callable[Concatenate[Any, Given], Made],
        *arguments: Given.args,
        **named: Given.kwargs,
    ) -> Made:
        """Call `work` there, with the session and these arguments."""
        return self._pool.submit(_call, work, arguments, named).result(SECONDS_MAX)


def _open(make_session: Callable[..., Any], arguments: tuple[object, ...]) -> None:
    global _session
    _session = make_session(*arguments)


def _call(work: Callable[..., Made], arguments: tuple[Any, ...], named: Mapping[str, Any]) -> Made:
    return work(_session, *arguments, **named)


def _close() -> None:
    _session.stop()
