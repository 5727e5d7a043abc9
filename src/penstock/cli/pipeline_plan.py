"""`penstock pipeline plan`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.failure import Failure, say
from penstock.cli.options import Output
from penstock.cli.output import Shape, answer

if TYPE_CHECKING:
    from penstock.pipeline.running.graph import Graph


def plan(
    file: Annotated[str, typer.Argument(metavar="FILE", help="The pipeline file.")],
    svg: Annotated[
        str | None,
        typer.Option("--svg", metavar="PICTURE", help="Draw the graph into this file."),
    ] = None,
    mermaid: Annotated[
        bool, typer.Option("--mermaid", help="Print the graph in Mermaid's notation.")
    ] = False,
    spark: Annotated[
        bool, typer.Option("--spark", help="Print Spark's plan of each view that is written.")
    ] = False,
    output: Output = Shape.TABLE,
) -> None:
    """Show what a pipeline will do, without running it.

    Sources, steps and sinks as lines, as a picture or as Mermaid; or Spark's own plan, for which
    Spark is started. Brokers and databases are not needed, unless a table has to be looked at.
    """
    from penstock.pipeline.running import drawing, graph
    from penstock.pipeline.spec.read import read_pipeline

    pipeline = read_pipeline(file, os.environ)
    drawn = graph.graph_of(pipeline)
    if svg is not None:
        try:
            with open(svg, "w", encoding="utf-8") as picture:
                picture.write(drawing.svg(drawn))
        except OSError as refusal:
            raise Failure(f"cannot write {svg}: {refusal.strerror}") from None
        say(f"{svg} is drawn")
    if spark:
        from penstock.pipeline.running.explain import spark_plans

        for name, text in spark_plans(pipeline).items():
            print(f"== {name} ==\n{text}")
    elif mermaid:
        print(graph.mermaid(drawn), end="")
    elif output is not Shape.TABLE:
        answer(_document(drawn), (), output)
    elif svg is None:
        print(graph.outline(drawn), end="")


def _document(drawn: Graph) -> dict[str, object]:
    return {
        "pipeline": drawn.title,
        "nodes": [
            {"kind": node.kind, "name": node.name, "detail": node.detail} for node in drawn.nodes
        ],
        "edges": [
            {
                "from": drawn.nodes[before].name,
                "to": drawn.nodes[here].name,
                "view": drawn.labels.get((before, here), drawn.nodes[before].name),
            }
            for before, here in drawn.edges
        ],
    }
