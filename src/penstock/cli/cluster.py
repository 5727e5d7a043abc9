"""`penstock cluster`: a cluster as a whole."""

from __future__ import annotations

from penstock.cli.options import (
    BOOTSTRAP_DEFAULT,
    WAIT_DEFAULT,
    Bootstrap,
    Output,
    Settings,
    Wait,
    new_app,
)
from penstock.cli.output import Shape, Table, answer

cluster = new_app("Look at a cluster as a whole.")


@cluster.command()
def describe(
    output: Output = Shape.TABLE,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    settings: Settings = None,
    wait: Wait = WAIT_DEFAULT,
) -> None:
    """Show the cluster's id, its brokers, and the health of its partitions."""
    from penstock.cli import client, topics

    admin = client.admin(bootstrap, settings)
    future = admin.describe_cluster(request_timeout=wait)
    found = client.result(future, "the cluster cannot be described", wait)
    listed = topics.listing(admin, wait)
    controller = found.controller.id if found.controller is not None else None
    document = {
        "cluster": found.cluster_id,
        "controller": controller,
        "topics": len(listed),
        "partitions": sum(one["partitions"] for one in listed),
        "under_replicated": sum(one["under_replicated"] for one in listed),
        "offline": sum(one["offline"] for one in listed),
        "brokers": [
            {"id": node.id, "host": node.host, "port": node.port, "rack": node.rack}
            for node in sorted(found.nodes, key=lambda node: node.id)
        ],
    }
    headings = ("cluster", "controller", "topics", "partitions", "under-replicated", "offline")
    summary = [document[heading.replace("-", "_")] for heading in headings]
    columns = ("id", "host", "port", "rack")
    brokers = [[broker[column] for column in columns] for broker in document["brokers"]]
    answer(document, [Table(headings, [summary]), Table(columns, brokers)], output)
