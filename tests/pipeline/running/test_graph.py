"""A pipeline as lines, as Mermaid and as a picture."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from penstock.pipeline.running.drawing import BOX_HEIGHT, BOX_WIDTH, svg
from penstock.pipeline.running.graph import Graph, graph_of, layers_of, mermaid, outline
from tests.pipeline.running.scene import pipeline_in

SHOP = """\
name: shop
sources:
  orders: {topic: orders}
  clicks: {topic: clicks}
steps:
  - {filter: "amount > 0 AND note <> '<&\\"|>'", from: orders, as: paid}
  - {sql: SELECT * FROM paid p JOIN clicks c ON p.id = c.id, as: joined}
  - {join: names, table: "csv:names.csv", on: names.id = joined.id, as: named}
  - {route: {large: amount > 100, small: "true"}}
  - {sql: SELECT count(*) AS n FROM paid, as: counts}
sinks:
  big: {topic: large, from: large}
  lake: {parquet: lake, from: small}
  counted: {topic: counts}
on_error: dlq
"""


@pytest.fixture
def shop(tmp_path: Path) -> Graph:
    return graph_of(pipeline_in(tmp_path, SHOP))


def feeds(graph: Graph, name: str) -> set[str]:
    here = next(number for number, node in enumerate(graph.nodes) if node.name == name)
    return {graph.nodes[before].name for before, after in graph.edges if after == here}


def test_views_are_fed_by_what_they_name(shop: Graph) -> None:
    assert feeds(shop, "paid") == {"orders"}
    assert feeds(shop, "joined") == {"paid", "clicks"}
    assert feeds(shop, "named") == {"joined", "names"}
    assert feeds(shop, "counts") == {"paid"}
    assert feeds(shop, "counted") == {"counts"}
    assert feeds(shop, "dead-letters") == {"orders", "clicks"}


def test_a_route_says_which_view_goes_where(shop: Graph) -> None:
    assert feeds(shop, "big") == feeds(shop, "lake") == {"step4"}
    assert sorted(shop.labels.values()) == ["large", "small"]


def test_rows_flow_from_left_to_right(shop: Graph) -> None:
    layers = layers_of(shop)
    assert all(layers[before] < layers[here] for before, here in shop.edges)
    ends = [layers[number] for number, node in enumerate(shop.nodes) if node.kind == "sink"]
    assert set(ends) == {max(layers)}


def test_the_outline_has_a_line_for_each_part(shop: Graph) -> None:
    lines = outline(shop).splitlines()
    assert len(lines) == len(shop.nodes)
    assert lines[-2].endswith("topic counts, exactly-once  <- counts")


def test_mermaid_is_not_led_astray_by_what_conditions_hold(shop: Graph) -> None:
    told = mermaid(shop)
    assert told.startswith("flowchart LR\n")
    assert "note #lt;> '#lt;#amp;#quot;#124;>'" in told
    assert "-->|large|" in told
    assert told.count("-.->") == 2


def test_the_picture_is_well_formed_and_no_box_lies_on_another(shop: Graph) -> None:
    root = ElementTree.fromstring(svg(shop))
    boxes = [
        (int(rect.attrib["x"]), int(rect.attrib["y"]))
        for rect in root.iter("{http://www.w3.org/2000/svg}rect")
        if "x" in rect.attrib
    ]
    assert len(boxes) == len(shop.nodes)
    for number, (x, y) in enumerate(boxes):
        for x2, y2 in boxes[:number]:
            assert abs(x - x2) >= BOX_WIDTH or abs(y - y2) >= BOX_HEIGHT
    assert max(x for x, _ in boxes) + BOX_WIDTH <= int(root.attrib["width"])
    assert max(y for _, y in boxes) + BOX_HEIGHT <= int(root.attrib["height"])
