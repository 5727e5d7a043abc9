"""A graph as a picture: boxes in columns, from what is read to what is written."""

from __future__ import annotations

from typing import NamedTuple
from xml.sax.saxutils import escape

from penstock.pipeline.running.graph import ERRORS, SINK, SOURCE, STEP, TABLE, Graph, layers_of

BOX_WIDTH, BOX_HEIGHT = 220, 56
GAP_X, GAP_Y = 70, 22
MARGIN, TITLE_HEIGHT = 24, 34
LINE_CHARACTERS = 32
"""About as many fit into a box, in the small type of its second line."""

_STYLE = """\
text { font-family: system-ui, sans-serif; fill: #1f2933 }
.title { font-size: 17px; font-weight: 600 } .name { font-size: 14px; font-weight: 600 }
.detail { font-size: 11px; fill: #52606d } .label { font-size: 10px; fill: #52606d }
rect { stroke-width: 1.5 } path { fill: none; stroke: #9aa5b1; stroke-width: 1.5 }
.source rect { fill: #e6f1fb; stroke: #2f80c3 } .step rect { fill: #f5f7fa; stroke: #7b8794 }
.table rect { fill: #fdf6e3; stroke: #c98a12 } .sink rect { fill: #e6f6ec; stroke: #2f9e5b }
.errors rect { fill: #fdeceb; stroke: #c9403a } .lost { stroke: #c9403a; stroke-dasharray: 4 3 }
.back { fill: #ffffff; stroke: none }
"""

_ARROW = """\
<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7"
 orient="auto"><path d="M0 0 L8 4 L0 8 z" style="fill:#9aa5b1;stroke:none"/></marker></defs>"""

_CLASSES = {SOURCE: "source", STEP: "step", TABLE: "table", SINK: "sink", ERRORS: "errors"}


class Spot(NamedTuple):
    """Where the upper left corner of a box is."""

    x: int
    y: int


def svg(graph: Graph) -> str:
    """The picture, as a text that browsers show."""
    columns = _columns(graph)
    spots = _spots(columns)
    width = MARGIN * 2 + len(columns) * BOX_WIDTH + (len(columns) - 1) * GAP_X
    tallest = max(len(column) for column in columns)
    height = MARGIN * 2 + TITLE_HEIGHT + tallest * (BOX_HEIGHT + GAP_Y) - GAP_Y
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    label = f'role="img" aria-label="{_quoted(graph.title)}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {label}>',
        f"<style>{_STYLE}</style>",
        _ARROW,
        f'<rect class="back" width="{width}" height="{height}"/>',
        f'<text class="title" x="{MARGIN}" y="{MARGIN + 14}">{escape(graph.title)}</text>',
        *(_edge(graph, spots, edge) for edge in graph.edges),
        *(_box(graph, spots[number], number) for number in range(len(graph.nodes))),
        "</svg>",
    ]
    return "\n".join([*parts, ""])


def _columns(graph: Graph) -> list[list[int]]:
    """The nodes of each column from the top down, each about as high as what feeds it."""
    layers = layers_of(graph)
    columns: list[list[int]] = [[] for _ in range(max(layers) + 1)]
    for number, layer in enumerate(layers):
        columns[layer].append(number)
    height: dict[int, float] = {}
    for column in columns:
        for place, number in enumerate(column):
            feeding = [height[before] for before, here in graph.edges if here == number]
            height[number] = sum(feeding) / len(feeding) if feeding else float(place)
        # Dead letters belong at the bottom, whatever feeds them.
        column.sort(key=lambda number: (graph.nodes[number].kind == ERRORS, height[number]))
        height.update((number, float(place)) for place, number in enumerate(column))
    return columns


def _spots(columns: list[list[int]]) -> dict[int, Spot]:
    tallest = max(len(column) for column in columns)
    spots = {}
    for layer, column in enumerate(columns):
        # A short column stands in the middle of its neighbours.
        top = (tallest - len(column)) * (BOX_HEIGHT + GAP_Y) // 2
        for place, number in enumerate(column):
            spots[number] = Spot(
                MARGIN + layer * (BOX_WIDTH + GAP_X),
                MARGIN + TITLE_HEIGHT + top + place * (BOX_HEIGHT + GAP_Y),
            )
    return spots


def _box(graph: Graph, spot: Spot, number: int) -> str:
    node = graph.nodes[number]
    detail = node.detail
    if len(detail) > LINE_CHARACTERS:
        detail = detail[: LINE_CHARACTERS - 1] + "…"
    return (
        f'<g class="{_CLASSES[node.kind]}"><title>{escape(f"{node.name}: {node.detail}")}</title>'
        f'<rect x="{spot.x}" y="{spot.y}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="8"/>'
        f'<text class="name" x="{spot.x + 12}" y="{spot.y + 23}">{escape(node.name)}</text>'
        f'<text class="detail" x="{spot.x + 12}" y="{spot.y + 42}">{escape(detail)}</text></g>'
    )


def _edge(graph: Graph, spots: dict[int, Spot], edge: tuple[int, int]) -> str:
    before, here = edge
    x1, y1 = spots[before].x + BOX_WIDTH, spots[before].y + BOX_HEIGHT // 2
    x2, y2 = spots[here].x - 2, spots[here].y + BOX_HEIGHT // 2
    bend = max(GAP_X // 2, (x2 - x1) // 2)
    lost = ' class="lost"' if graph.nodes[here].kind == ERRORS else ""
    line = (
        f'<path{lost} d="M{x1} {y1} C{x1 + bend} {y1} {x2 - bend} {y2} {x2} {y2}" '
        'marker-end="url(#tip)"/>'
    )
    label = graph.labels.get(edge)
    if not label:
        return line
    x, y = (x1 + x2) // 2, (y1 + y2) // 2 - 5
    return line + f'<text class="label" text-anchor="middle" x="{x}" y="{y}">{escape(label)}</text>'


def _quoted(text: str) -> str:
    return escape(text, {'"': "&quot;"})
