"""PRODUCER_FENCED as clients know it that are older than this error."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from penstock.model.errors import ErrorCode


def known_error(error: int, knows_fencing: bool) -> int:
    """The error, or the one that used to be said in its place."""
    if error == ErrorCode.PRODUCER_FENCED and not knows_fencing:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error


def in_known_errors(answer: Any, knows_fencing: bool) -> Any:
    """A response with an error code, or a future of one, for a client of some age."""
    if knows_fencing:
        return answer
    if isinstance(answer, Awaitable):
        return _wait(answer)
    answer.error_code = known_error(answer.error_code, knows_fencing)
    return answer


async def _wait(answer: Awaitable[Any]) -> Any:
    return in_known_errors(await answer, False)
