"""A pipeline as a graph: what is read, what happens to it, where it goes. Pure, without Spark."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from penstock.pipeline.assembly import DEAD_LETTERS
from penstock.pipeline.spec import sinks, sources, steps
from penstock.pipeline.spec.model import Pipeline, Sink, Source, Step

SOURCE, STEP, TABLE, SINK, ERRORS = "source", "step", "table", "sink", "errors"
DETAIL_MAX = 60


@dataclass(frozen=True, slots=True)
class Node:
    """A source, a step, a table or a sink."""

    kind: str
    name: str
    detail: str
    """What it is, in a few words."""


@dataclass(slots=True)
class Graph:
    """Nodes in the order of the file, and which feeds which, by their places."""

    title: str
    nodes: list[Node] = field(default_factory=list)
    edges: list[tuple[int, int]] = field(default_factory=list)
    labels: dict[tuple[int, int], str] = field(default_factory=dict)
    """The view that flows along an edge, where a node makes several."""

    def _add(self, node: Node, *before: int) -> int:
        self.nodes.append(node)
        here = len(self.nodes) - 1
        self.edges += [(each, here) for each in dict.fromkeys(before)]
        return here


def graph_of(pipeline: Pipeline) -> Graph:
    """The graph that a file describes."""
    graph = Graph(pipeline.name)
    views: dict[str, int] = {}
    for name, source in pipeline.sources.items():
        views[name] = graph._add(Node(SOURCE, name, source_detail(source)))
    read = list(views.values())
    last = list(views)[-1]
    for number, step in enumerate(pipeline.steps, 1):
        last = _add_step(graph, views, step, step.view or f"step{number}", last)
    for name, sink in pipeline.sinks.items():
        view = sink.source or last
        here = graph._add(Node(SINK, name, sink_detail(sink)), views[view])
        _label(graph, views[view], here, view)
    if pipeline.on_error.policy == "dlq":
        topic = pipeline.on_error.topic or f"{pipeline.name}.dlq"
        graph._add(Node(ERRORS, DEAD_LETTERS, f"topic {topic}"), *read)
    return graph


def _add_step(graph: Graph, views: dict[str, int], step: Step, name: str, last: str) -> str:
    """Add a step and the views that it makes; which of them is the last now."""
    used = used_views(step, list(views), last)
    before = [views[each] for each in used]
    if isinstance(step, steps.JoinStep) and step.table:
        before.append(graph._add(Node(TABLE, step.join, _short(step.table))))
    here = graph._add(Node(STEP, name, step_detail(step)), *before)
    for each in used:
        _label(graph, views[each], here, each)
    made = list(step.route) if isinstance(step, steps.RouteStep) else [name]
    views.update(dict.fromkeys(made, here))
    return made[-1]


def _label(graph: Graph, before: int, here: int, view: str) -> None:
    if graph.nodes[before].name != view:
        graph.labels[before, here] = view


def used_views(step: Step, known: list[str], last: str) -> list[str]:
    """The views that a step reads."""
    first = step.source or last
    if isinstance(step, steps.SqlStep):
        named = [each for each in known if re.search(rf"(?i)\b{re.escape(each)}\b", step.sql)]
        if "{}" in step.sql or not named:
            named.append(first)
        return list(dict.fromkeys(named))
    if isinstance(step, steps.JoinStep) and not step.table:
        return [first, step.join]
    return [first]


def source_detail(source: Source) -> str:
    """What a source is, in a few words."""
    if isinstance(source, sources.TopicSource):
        return f"topic {source.topic}" if source.topic else f"topics like {source.pattern}"
    if isinstance(source, sources.FileSource):
        return f"{'growing ' if source.growing else ''}files {_short(source.files)}"
    if isinstance(source, sources.JdbcSource):
        return f"table {_short(source.table)}"
    if isinstance(source, sources.GeneratorSource):
        return f"{source.generate} rows a second"
    return _short(source.python)


def step_detail(step: Step) -> str:
    """What a step does, in a few words."""
    match step:
        case steps.SqlStep():
            return _short(step.sql)
        case steps.SelectStep():
            return _short("select " + ", ".join(step.select))
        case steps.FilterStep():
            return _short(f"filter {step.filter}")
        case steps.JoinStep():
            return _short(f"{step.how} join {step.join} on {step.condition}")
        case steps.WindowStep():
            told = ", ".join(step.aggregate.values())
            return _short(f"{told} per {step.window if not step.session else 'session'}")
        case steps.DeduplicateStep():
            return _short("deduplicate by " + ", ".join(step.deduplicate))
        case steps.RouteStep():
            return _short("route to " + ", ".join(step.route))
        case steps.StatefulStep():
            return _short(f"{step.stateful} by {', '.join(step.by)}")
        case steps.PythonStep():
            return _short(step.python)
        case steps.CastStep():
            return _short("cast " + ", ".join(step.cast))
        case steps.RenameStep():
            return _short("rename " + ", ".join(step.rename))
        case steps.FlattenStep():
            return _short("flatten " + ", ".join(step.flatten))
        case steps.MaskStep():
            return _short("mask " + ", ".join(step.mask))


def sink_detail(sink: Sink) -> str:
    """What a sink is, in a few words."""
    match sink:
        case sinks.TopicSink():
            return _short(f"topic {sink.topic}, {sink.delivery}")
        case sinks.ParquetSink():
            return _short(f"Parquet in {sink.parquet}")
        case sinks.IcebergSink():
            return _short(f"Iceberg table {sink.iceberg}")
        case sinks.JdbcSink():
            return _short(f"table {sink.table}")
        case sinks.ConsoleSink():
            return "the terminal"
        case sinks.PythonSink():
            return _short(sink.python)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= DETAIL_MAX else line[: DETAIL_MAX - 1] + "…"


def layers_of(graph: Graph) -> list[int]:
    """How far each node is from what it begins with: the longest way. Sinks stand last."""
    layer = [0] * len(graph.nodes)
    # Every edge but a dead-letter one leads to a node that was added later.
    for before, here in sorted(graph.edges, key=lambda edge: edge[1]):
        layer[here] = max(layer[here], layer[before] + 1)
    for number, node in enumerate(graph.nodes):
        if node.kind == TABLE:
            follower = next(here for before, here in graph.edges if before == number)
            layer[number] = layer[follower] - 1
    last = max(layer)
    return [
        last if node.kind in (SINK, ERRORS) else layer[number]
        for number, node in enumerate(graph.nodes)
    ]


def mermaid(graph: Graph) -> str:
    """The graph in Mermaid's notation, for READMEs and wikis."""
    shapes = {SOURCE: ("([", "])"), TABLE: ("[(", ")]"), STEP: ("[", "]")}
    lines = ["flowchart LR"]
    for number, node in enumerate(graph.nodes):
        left, right = shapes.get(node.kind, ("([", "])"))
        text = _mermaid_text(f"{node.name}<br/>{node.detail}")
        lines.append(f'  n{number}{left}"{text}"{right}')
    for before, here in graph.edges:
        label = graph.labels.get((before, here))
        arrow = f"-->|{_mermaid_text(label)}|" if label else "-->"
        dotted = "-.->" if graph.nodes[here].kind == ERRORS else arrow
        lines.append(f"  n{before} {dotted} n{here}")
    return "\n".join([*lines, ""])


def _mermaid_text(text: str) -> str:
    safe = text.replace("&", "#amp;").replace('"', "#quot;").replace("|", "#124;")
    return re.sub(r"<(?!br/>)", "#lt;", safe)


def outline(graph: Graph) -> str:
    """The graph as lines, for a terminal."""
    width = max(len(node.name) for node in graph.nodes)
    lines = []
    for number, node in enumerate(graph.nodes):
        feeds = [
            graph.labels.get((before, here), graph.nodes[before].name)
            for before, here in graph.edges
            if here == number
        ]
        reads = f"  <- {', '.join(feeds)}" if feeds else ""
        lines.append(f"{node.kind:<7} {node.name:<{width}}  {node.detail}{reads}")
    return "\n".join([*lines, ""])
