"""`penstock pipeline`: data pipelines on Spark. Each command is imported when it is chosen."""

# ruff: noqa: ARG002 - the signatures are those of Typer's own group
from __future__ import annotations

import importlib
from typing import Any

from typer.main import get_command

from penstock.cli.coercion import QuickGroup
from penstock.cli.failure import Failure
from penstock.cli.options import new_app

COMMANDS = {
    "init": ("init", "Write a pipeline file to begin with."),
    "run": ("run", "Run a pipeline, or a folder of them."),
    "validate": ("validate", "Check pipeline files, without starting anything."),
    "plan": ("plan", "Show what a pipeline will do: as a picture, or as Spark's plan."),
    "list": ("list_pipelines", "List the pipelines that run on this machine."),
    "status": ("status", "Show what a pipeline is doing."),
    "stop": ("stop", "Stop pipelines after the batch in hand."),
    "reset": ("reset", "Forget how far a pipeline has come."),
    "redrive": ("redrive", "Send dead letters through again."),
    "compact": ("compact", "Make few large files out of a lake's many small ones."),
    "export": ("export", "Write a pipeline as a project of Spark's own."),
    "doctor": ("doctor", "Find or fetch what pipelines need: Java, Spark, jars."),
}
"""Name: the function in the module `pipeline_NAME`, and the line that help shows."""


class PipelineGroup(QuickGroup):
    """A group that imports the command that is asked for, and tells problems as failures."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        if cmd_name not in self.commands:
            module = importlib.import_module(f"penstock.cli.pipeline_{cmd_name}")
            app = new_app()
            app.command()(getattr(module, COMMANDS[cmd_name][0]))
            command = get_command(app)
            command.name = cmd_name
            self.commands[cmd_name] = command
        return self.commands[cmd_name]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])

    def invoke(self, ctx: Any) -> Any:
        from penstock.pipeline.problem import Problem

        try:
            return super().invoke(ctx)
        except Problem as problem:
            front = f"{problem.place}: " if problem.place else ""
            raise Failure(front + problem.what, problem.advice) from None


pipeline = new_app("Run, watch and mend data pipelines on Spark.")
pipeline.info.cls = PipelineGroup
