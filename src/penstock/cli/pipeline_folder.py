"""Running a folder of pipelines: one table, one Ctrl-C."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from penstock.cli.failure import Failure, say
from penstock.cli.output import Shape

if TYPE_CHECKING:
    from penstock.pipeline.running.status import PipelineStatus
    from penstock.pipeline.spec.model import Pipeline


def run_folder(
    folder: str,
    master: str,
    settings: Mapping[str, str],
    *,
    once: bool,
    metrics_port: int | None,
    shape: Shape,
) -> None:
    """Run every pipeline of a folder until all have ended; a failure if one of them failed."""
    from penstock.cli.pipeline_show import show_for
    from penstock.pipeline.running.metrics import MetricsServer
    from penstock.pipeline.running.signals import SignalledStop
    from penstock.pipeline.running.status import FAILED
    from penstock.pipeline.running.supervise import Child, Supervisor

    pipelines = _read_all(folder)
    stop = SignalledStop()
    stop.listen()
    children = [
        Child(each.name, each.place.file, _command(each.place.file, master, settings, once))
        for each in pipelines
    ]
    known: dict[str, PipelineStatus] = {}
    server = None if metrics_port is None else MetricsServer(metrics_port, known.values)
    if server is not None:
        say(f"metrics are on http://127.0.0.1:{server.port}/metrics")
    show = show_for(shape, bounded=False)

    def told(statuses: Sequence[PipelineStatus]) -> None:
        known.update((each.pipeline, each) for each in statuses)
        show(statuses)

    try:
        ended = Supervisor(children, stop).run(told)
    finally:
        show.close()
        if server is not None:
            server.close()
    failed = [each.pipeline for each in ended if each.state == FAILED]
    if failed:
        raise Failure(
            f"{', '.join(failed)} failed", f"`penstock pipeline status {failed[0]}` tells more"
        )


def _command(file: str, master: str, settings: Mapping[str, str], once: bool) -> list[str]:
    words = [sys.executable, "-m", "penstock", "pipeline", "run", file, "--master", master]
    words += [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]
    return [*words, "-o", "json", *(["--once"] if once else [])]


def _read_all(folder: str) -> list[Pipeline]:
    """Every pipeline of the folder; nothing is started while one of them is wrong."""
    from penstock.pipeline.problem import Problems
    from penstock.pipeline.spec.check import check_files

    checked = check_files([folder])
    if problems := tuple(problem for each in checked for problem in each.problems):
        raise Problems(problems)
    return [each.pipeline for each in checked if each.pipeline is not None]
