"""Taking notes of what a client does, as it does it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from penstock.testing.history.lines import begin_line, end_line, whole_line
from penstock.testing.history.operations import Operation, Outcome

_Kind = TypeVar("_Kind", bound=Operation)


class Recorder:
    """The notes of one client.

        recorder = Recorder("billing-1", "billing-1.jsonl")
        send = recorder.begin(Send(topic="bills", partition=0, value="bill 17"))
        ...
        recorder.ok(send, offset=4)

    Give every client a name of its own, and every life of a client that is killed and started
    again as well: after its restart it is another producer, and another member of its group.

    With a path, each line is with the operating system before the operation goes on, and survives
    the death of the process. `operations` has everything in memory, too. Threads may share it.
    """

    def __init__(
        self,
        client: str,
        path: str | os.PathLike[str] | None = None,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self.client = client
        self.operations: list[Operation] = []
        self._clock = clock
        self._lock = threading.Lock()
        self._file = None if path is None else open(path, "ab", buffering=0)  # noqa: SIM115

    def begin(self, operation: _Kind) -> _Kind:
        """Note that an operation begins: call it before the request can leave."""
        with self._lock:
            self._number(operation)
            operation.began = self._clock()
            if self._file is not None:
                self._file.write(begin_line(operation))
        return operation

    def ok(self, operation: Operation, **result: Any) -> None:
        """It took effect; `result` has the fields that are known only now, such as `offset`."""
        for name, value in result.items():
            setattr(operation, name, value)
        self._end(operation, Outcome.OK, "", result)

    def failed(self, operation: Operation, error: object = "") -> None:
        """It surely had no effect, and never will."""
        self._end(operation, Outcome.FAILED, str(error), {})

    def unknown(self, operation: Operation, error: object = "") -> None:
        """Nobody can say whether it had an effect."""
        self._end(operation, Outcome.UNKNOWN, str(error), {})

    def note(self, operation: _Kind, began: int | None = None) -> _Kind:
        """Note something seen, such as a poll, at once; `began` is when it was asked for."""
        with self._lock:
            self._number(operation)
            operation.ended = self._clock()
            operation.began = operation.ended if began is None else began
            operation.outcome = Outcome.OK
            if self._file is not None:
                self._file.write(whole_line(operation))
        return operation

    def now(self) -> int:
        """The time, for `note`."""
        return self._clock()

    def close(self) -> None:
        """No more notes."""
        if self._file is not None:
            self._file.close()

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _number(self, operation: Operation) -> None:
        operation.client = self.client
        operation.number = len(self.operations)
        self.operations.append(operation)

    def _end(
        self, operation: Operation, outcome: Outcome, error: str, result: dict[str, Any]
    ) -> None:
        with self._lock:
            operation.outcome = outcome
            operation.error = error
            at = self._clock()
            # What is unknown may still happen: it has no end.
            if outcome is not Outcome.UNKNOWN:
                operation.ended = at
            if self._file is not None:
                self._file.write(end_line(operation, at, result))
