"""What must hold when all is over: histories, replicas, and clients that were never broken off."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

from penstock.testing.history import ALL, History, exactly_once, find, report
from tests.system.chaos.load import SINK, SOURCE, Load
from tests.system.chaos.replicas import differences
from tests.system.chaos.trio import Trio


def origin(output: str) -> str:
    """Which input a copy was made of."""
    return output.removeprefix("done ")


def judge(trio: Trio, load: Load) -> tuple[History, list[str]]:
    """End the load, stop the nodes in order, and say everything that is wrong."""
    load.finish()
    wrong = list(load.problems)
    try:
        trio.wait_settled()
    except AssertionError as unsettled:
        wrong.append(str(unsettled))
    history = load.history()
    verdicts = find(history, *ALL, exactly_once(SOURCE, SINK, origin))
    if verdicts:
        wrong.append(report(history, verdicts))
    wrong += _stop(trio)
    wrong += differences(
        {each.name: each.log_directories() for each in trio.members.values()},
        [str(place) for place in load.places],
    )
    return history, wrong


def _stop(trio: Trio) -> Iterator[str]:
    for member in trio.members.values():
        if not member.node.running:
            yield f"{member.name} had ended by itself:\n{member.node.output()[-3000:]}"
            continue
        try:
            status = member.node.stop()
        except subprocess.TimeoutExpired as problem:
            yield f"{member.name} did not stop: {problem}"
        else:
            if status != 0:
                yield f"{member.name} stopped with status {status}"
