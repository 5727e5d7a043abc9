"""A cluster whose nodes have rights that its clients have not: it goes on, and they stay outside.

Nobody proves who they are here, so rights go by address: nodes come from one, the client from
another. Only until the cluster is up everybody is a super user, as its nodes have to be then.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from penstock.metadata.acls import Acl
from penstock.model.operations import Operation
from penstock.model.resources import PatternType
from tests.unit.server import rights_questions as q
from tests.unit.server.asking import Asker, batch, port_of
from tests.unit.server.rights_scene import (
    AUTHORIZED,
    ME,
    cluster,
    creation,
    errors,
    topic,
    transaction,
)
from tests.unit.server.several import Several, several_nodes
from tests.unit.server.txn_talk import Talk

NODES, STRANGER = "127.0.0.1", "127.0.0.2"
CONFIG = {
    **AUTHORIZED,
    "super.users": ME,
    "transaction.state.log.num.partitions": "3",
    "auto.create.topics.enable": "true",
}
NO_TOPIC = 29


def _from(host: str, rules: list[Acl]) -> list[Acl]:
    return [each._replace(host=host) for each in rules]


RULES = [
    *_from(NODES, cluster(Operation.ALL)),
    *_from(STRANGER, topic("mine", Operation.READ, Operation.WRITE)),
    *_from(STRANGER, transaction("x", Operation.WRITE)),
    *_from(
        STRANGER,
        topic("made-", Operation.CREATE, Operation.DESCRIBE, pattern=PatternType.PREFIXED),
    ),
]


@asynccontextmanager
async def stranger_at(several: Several) -> AsyncIterator[Several]:
    """The same nodes, as a client finds them that comes from elsewhere."""
    async with AsyncExitStack() as stack:
        askers = {}
        for number, node in several.nodes.items():
            ends = await asyncio.open_connection(NODES, port_of(node), local_addr=(STRANGER, 0))
            askers[number] = Asker(*ends)
            stack.callback(askers[number].close)
        yield Several(several.nodes, askers)


async def test_nodes_go_on_and_clients_have_their_own_rights(tmp_path: Path) -> None:
    async with several_nodes(tmp_path, config=CONFIG) as several:
        ids = {name: await several.create(name, 3, 3) for name in ("mine", "theirs")}
        await several.askers[1].ask(creation(RULES), 3)
        await several.until(
            lambda: all(
                len(it.broker.image.acls.by_id) == len(RULES) for it in several.nodes.values()
            ),
            "the entries on every node",
        )
        for node in several.nodes.values():
            assert node.broker.authorizer is not None
            node.broker.authorizer._super_users = frozenset()
        async with stranger_at(several) as client:
            await _writes_what_is_replicated(client)
            await _forges_no_follower(client, ids)
            await _commits_a_transaction(client, ids["mine"])
            await _has_topics_made(client)


async def _writes_what_is_replicated(client: Several) -> None:
    for index in range(3):
        asker = client.askers[client.leader("mine", index)]
        answer = await asker.produce("mine", batch(2), index)  # on all three, or it would wait
        assert (answer.error_code, answer.base_offset) == (0, 0)
        refused = await client.askers[client.leader("theirs", index)].produce(
            "theirs", batch(2), index
        )
        assert refused.error_code == NO_TOPIC


async def _forges_no_follower(client: Several, ids: dict[str, bytes]) -> None:
    leader = client.leader("mine", 0)
    forged: Any = q.fetching(replica_id=leader % 3 + 1, topics=("mine", "theirs"))(17, ids)
    answer = await client.askers[leader].ask(forged, 17)
    told = {part.error_code for each in answer.responses for part in each.partitions}
    assert told == {NO_TOPIC}


async def _commits_a_transaction(client: Several, topic_id: bytes) -> None:
    """Its coordinator and its partitions lie on different nodes, which ask each other."""
    talk = Talk(client, "x")  # type: ignore[arg-type]
    talk.topic, talk.topic_id = "mine", topic_id
    async with asyncio.timeout(20):
        find = q.finding(1, "x")(4, {})
        while (await client.askers[2].ask(find, 4)).coordinators[0].error_code:
            await asyncio.sleep(0.05)
        while await talk.init():
            await asyncio.sleep(0.05)
    for index in range(3):
        assert [error.name for error in await talk.send(index)] == ["NONE"]
    assert (await talk.end(True)).name == "NONE"
    for index in range(3):
        partition = client.nodes[client.leader("mine", index)].broker.hosted["mine", index]
        # Two records, one of the transaction, and its marker.
        await client.until(lambda it=partition: it.last_stable == 4, f"a marker in {partition}")


async def _has_topics_made(client: Several) -> None:
    """Whichever node is asked, it is the client who creates."""
    for number, asker in client.askers.items():
        name = f"made-{number}"
        asked = q.asking_metadata((name, f"other-{number}"), creating=True)(9, {})
        answer = await asker.ask(asked, 9)
        told = errors(answer, "topics")
        assert told[f"other-{number}"] == "TOPIC_AUTHORIZATION_FAILED"
        await client.until(lambda it=name: it in client.image.topics.by_name, f"{name} is made")
        assert f"other-{number}" not in client.image.topics.by_name
