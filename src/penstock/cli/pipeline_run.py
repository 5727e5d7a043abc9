"""`penstock pipeline run`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.failure import say
from penstock.cli.options import Output, pairs_of
from penstock.cli.output import Shape

if TYPE_CHECKING:
    from penstock.pipeline.running.status import PipelineStatus

MASTER_DEFAULT = "local[*]"


def run(
    file: Annotated[
        str, typer.Argument(metavar="FILE|FOLDER", help="A pipeline file, or a folder of them.")
    ],
    master: Annotated[
        str,
        typer.Option(
            "--master",
            "-m",
            metavar="URL",
            envvar="PENSTOCK_MASTER",
            show_envvar=True,
            help="Where Spark runs: this machine, or a cluster such as spark://HOST:7077.",
        ),
    ] = MASTER_DEFAULT,
    once: Annotated[
        bool,
        typer.Option("--once", help="Take what is there now and end, whatever the trigger says."),
    ] = False,
    conf: Annotated[
        list[str] | None,
        typer.Option("--conf", metavar="KEY=VALUE", help="A setting of Spark's; repeatable."),
    ] = None,
    metrics_port: Annotated[
        int | None,
        typer.Option(
            "--metrics-port",
            metavar="PORT",
            min=0,
            max=65535,
            help="Serve metrics for Prometheus on this machine; 0 takes a free port.",
        ),
    ] = None,
    output: Output = Shape.TABLE,
) -> None:
    """Run a pipeline, or every pipeline of a folder.

    A terminal shows a live status, or a bar if the end is known; elsewhere a line is written now
    and then, and with -o json each status is a line of JSON. Ctrl-C or SIGTERM stops after the
    batch in hand, a second one at once. A folder's pipelines run as processes of their own, and
    are started again when they fail.
    """
    settings = pairs_of(conf, "--conf")
    if os.path.isdir(file):
        from penstock.cli.pipeline_folder import run_folder

        run_folder(file, master, settings, once=once, metrics_port=metrics_port, shape=output)
        return
    from penstock.cli.pipeline_show import show_for
    from penstock.pipeline.running.metrics import MetricsServer
    from penstock.pipeline.running.registry import Entry
    from penstock.pipeline.running.run import GRACE_SECONDS, run_pipeline
    from penstock.pipeline.running.signals import SignalledStop
    from penstock.pipeline.running.status import FAILED
    from penstock.pipeline.running.supervise import PARENT
    from penstock.pipeline.spec.read import read_pipeline

    stop = SignalledStop()
    stop.listen()
    pipeline = read_pipeline(file, os.environ)
    Entry(pipeline.name).keep_python_quiet()
    known: dict[str, PipelineStatus] = {}
    server = None if metrics_port is None else MetricsServer(metrics_port, known.values)
    if server is not None:
        say(f"metrics are on http://127.0.0.1:{server.port}/metrics")
    show = show_for(output, bounded=once or pipeline.trigger.available_now)

    parent = os.environ.get(PARENT)

    def told(status: PipelineStatus) -> None:
        known[status.pipeline] = status
        if status.state != FAILED or output is not Shape.TABLE:
            show([status])  # a failure is told in full at the end
        if parent and int(parent) != os.getppid():
            stop.ask()  # whoever supervised this process is gone

    try:
        run_pipeline(
            pipeline,
            master=master,
            once=once,
            settings=settings,
            listener=told,
            stop=stop,
            # Of a supervisor that was killed, the pipelines go on until their batches are done.
            patience=GRACE_SECONDS if parent else 0.0,
        )
    finally:
        show.close()
        if server is not None:
            server.close()
