"""Writes docs/reference/rights.md.

    python -m codegen.rights_page

The table comes from `penstock.server.access`, by which nodes decide; a test wants no difference.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from penstock.protocol.registry import API
from penstock.server.access import ACCESS, CONTROLLER_ACCESS, Access
from penstock.server.apis import CONTROLLER_HANDLERS, HANDLERS

HERE = os.path.dirname(os.path.abspath(__file__))
TARGET = os.path.join(HERE, "..", "docs", "reference", "rights.md")

INTRODUCTION = """\
# Rights

<!-- Written by `python -m codegen.rights_page`. Do not edit. -->

A node with `authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer` asks of
every request whether who sent it may have what it asks for. The rules are Kafka's:

- An access control entry allows or denies one operation, or `ALL`, on resources of one kind, to one
  principal or to everybody (`User:*`), from one address or from everywhere (`*`).
- It names a resource, or all of a kind (a literal `*`), or all whose names begin alike (a prefixed
  pattern).
- Any entry that denies beats all that allow. What no entry allows is refused, unless
  `allow.everyone.if.no.acl.found` is set and no entry at all is about the resource.
- `READ`, `WRITE`, `DELETE` and `ALTER` bring `DESCRIBE` along where they are allowed, and
  `ALTER_CONFIGS` brings `DESCRIBE_CONFIGS`. To deny an operation denies no other.
- `super.users` need no entries. Nodes need `CLUSTER_ACTION` on the cluster to talk to each other,
  or are super users.
- What a broker passes on to the controller is judged there again, by the rights of its client.

One thing is Penstock's own: the host of an entry may be a network, such as `10.1.0.0/16` or
`2001:db8::/32`.

Until a node has read the entries that the cluster has agreed on, it lets only super users pass, and
hangs up on all others, who come again.

Refusals, logins and what administrators change are written to the logger `penstock.audit`, as a
line of JSON each: who, from where, what, and never a secret. The same refusal is written once a
minute, and how often it came again at the minute's end.

"""

HEAD = """\
| API | Key | What it takes |
| --- | --- | --- |
"""


def page() -> str:
    """The whole page."""
    different = {key: each for key, each in CONTROLLER_ACCESS.items() if each != ACCESS.get(key)}
    nodes = {key: CONTROLLER_ACCESS[key] for key in CONTROLLER_HANDLERS.keys() - HANDLERS.keys()}
    return (
        f"{INTRODUCTION}## On listeners for clients and brokers\n\n"
        f"{_table({key: ACCESS[key] for key in HANDLERS})}\n"
        f"## On listeners of controllers\n\nAs above, but for these:\n\n"
        f"{_table({**nodes, **different})}"
    )


def _table(rows: Mapping[int, Access]) -> str:
    named = sorted((API[key].name, key, access) for key, access in rows.items())
    return HEAD + "".join(f"| {name} | {key} | {_words(each)} |\n" for name, key, each in named)


def _words(access: Access) -> str:
    if access.of_cluster:
        return f"{' or '.join(each.name for each in access.of_cluster)} on the cluster"
    return access.by_handler or f"nothing: {access.for_all}"


def main() -> None:
    with open(TARGET, "w", encoding="utf-8") as file:
        file.write(page())


if __name__ == "__main__":
    main()
