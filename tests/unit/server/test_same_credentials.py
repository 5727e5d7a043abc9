"""Asked to change and to show rights, users, quotas and tokens, Penstock does what Apache does.

Both get the same questions in the same order, drawn with a seed: most make sense, some do not. What
Penstock refuses and Kafka takes for lack of a look is left out: a salt or a host that is empty, a
network that is none, a salted password of a wrong length. So is what Kafka stumbles over as a
whole: an entry for ANY resource or operation, and one entity in two entries of a request.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from penstock.app.security import STANDARD_AUTHORIZER
from penstock.protocol.generated import (
    alter_client_quotas,
    alter_user_scram_credentials,
    create_acls,
    create_delegation_token,
    delete_acls,
    describe_acls,
    describe_client_quotas,
    describe_delegation_token,
    describe_user_scram_credentials,
    expire_delegation_token,
    renew_delegation_token,
)
from penstock.protocol.message import Message
from penstock.protocol.registry import API
from tests.oracle.nodes import ApacheNode
from tests.unit.server.asking import asking, asking_node
from tests.unit.server.test_same_answers import Pair, differences

pytestmark = pytest.mark.java

SETTINGS = {
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "super.users": "User:ANONYMOUS",
    "delegation.token.secret.key": "the same key",
}
SETTLE_SECONDS_MAX = 10.0

Dice = random.Random


@pytest.fixture(scope="module")
def apache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheNode]:
    node = ApacheNode(tmp_path_factory.mktemp("apache"), config=SETTINGS)
    with node:
        yield node


async def both_agree(
    apache: ApacheNode, folder: Path, questions: Callable[[Dice], Iterator[Message]], seed: int
) -> None:
    """Ask both the same, one after the other, each time in one of the versions there are."""
    dice = random.Random(seed)
    async with AsyncExitStack() as stack:
        theirs = await stack.enter_async_context(asking(apache.port))
        ours = await stack.enter_async_context(asking_node(folder, SETTINGS))
        pair = Pair(theirs, ours)
        for request in questions(dice):
            spec = API[request.API_KEY]
            version = dice.choice(range(spec.codec_versions.start, spec.versions.stop))
            await _agree(pair, request, version)


async def _agree(pair: Pair, request: Message, version: int) -> None:
    """What is shown may lag behind what was decided: it is asked for again. What changes is not."""
    lags = type(request).__name__.startswith("Describe")
    deadline = asyncio.get_running_loop().time() + (SETTLE_SECONDS_MAX if lags else 0)
    while True:
        theirs, ours = await pair.ask(request, version)
        different = differences(ours, theirs)
        if not different:
            return
        assert asyncio.get_running_loop().time() < deadline, (request, version, *different)
        await asyncio.sleep(0.05)


# -- ACLs -----------------------------------------------------------------------------------------

NAMES = ("a", "ab", "abc", "b", "*", "kafka-cluster")
PRINCIPALS = ("User:x", "User:y", "User:*", "Group:g")
HOSTS = ("*", "10.0.0.1", "some.host")


def acls(dice: Dice) -> Iterator[Message]:
    for _ in range(60):
        yield create_acls.CreateAclsRequest(
            creations=[
                create_acls.AclCreation(
                    resource_type=dice.choice((2, 2, 2, 3, 4, 5, 6, 7, 8)),
                    resource_name=dice.choice((*NAMES, "")),
                    resource_pattern_type=dice.choice((3, 3, 3, 4, 4, 5)),
                    principal=dice.choice((*PRINCIPALS, "nobody")),
                    host=dice.choice(HOSTS),
                    operation=dice.choice((2, 3, 4, 8, 14, 15, 16)),
                    permission_type=dice.choice((2, 3, 3, 3, 4)),
                )
                for _ in range(dice.randrange(6))
            ]
        )
        if dice.random() < 0.5:
            yield describe_acls.DescribeAclsRequest(**_filter(dice))
        if dice.random() < 0.3:
            yield delete_acls.DeleteAclsRequest(
                filters=[
                    delete_acls.DeleteAclsFilter(**_filter(dice)) for _ in range(dice.randrange(4))
                ]
            )
    everything: dict[str, Any] = {
        "resource_type_filter": 1,
        "resource_name_filter": None,
        "pattern_type_filter": 1,
        "principal_filter": None,
        "host_filter": None,
        "operation": 1,
        "permission_type": 1,
    }
    yield describe_acls.DescribeAclsRequest(**everything)
    yield delete_acls.DeleteAclsRequest(filters=[delete_acls.DeleteAclsFilter(**everything)])
    yield describe_acls.DescribeAclsRequest(**everything)


def _filter(dice: Dice) -> dict[str, Any]:
    return {
        "resource_type_filter": dice.choice((1, 1, 2, 2, 3)),
        "resource_name_filter": dice.choice((None, *NAMES, "abcd")),
        "pattern_type_filter": dice.choice((1, 2, 2, 3, 4)),
        "principal_filter": dice.choice((None, None, None, *PRINCIPALS)),
        "host_filter": dice.choice((None, None, *HOSTS)),
        "operation": dice.choice((1, 1, 1, 3, 4)),
        "permission_type": dice.choice((1, 1, 1, 2, 3)),
    }


# -- users ----------------------------------------------------------------------------------------

USERS = ("ann", "bob", "eve", "zoe")


def users(dice: Dice) -> Iterator[Message]:
    made = alter_user_scram_credentials
    for _ in range(60):
        yield made.AlterUserScramCredentialsRequest(
            deletions=[
                made.ScramCredentialDeletion(
                    name=dice.choice((*USERS, "")), mechanism=dice.choice((0, 1, 1, 2, 2, 3))
                )
                for _ in range(dice.randrange(3))
            ],
            upsertions=[_upsertion(dice) for _ in range(dice.randrange(3))],
        )
        if dice.random() < 0.6:
            asked = [*USERS, "nobody", ""]
            names = None if dice.random() < 0.3 else dice.choices(asked, k=dice.randrange(4))
            yield describe_user_scram_credentials.DescribeUserScramCredentialsRequest(
                users=None
                if names is None
                else [describe_user_scram_credentials.UserName(name=name) for name in names]
            )


def _upsertion(dice: Dice) -> alter_user_scram_credentials.ScramCredentialUpsertion:
    mechanism = dice.choice((0, 1, 1, 1, 2, 2, 2, 3))
    return alter_user_scram_credentials.ScramCredentialUpsertion(
        name=dice.choice((*USERS, *USERS, "")),
        mechanism=mechanism,
        iterations=dice.choice((0, 4095, 4096, 4096, 8192, 16384, 16385)),
        salt=dice.randbytes(16),
        salted_password=dice.randbytes(64 if mechanism == 2 else 32),
    )


# -- quotas ---------------------------------------------------------------------------------------

KEYS = ("producer_byte_rate", "consumer_byte_rate", "request_percentage",
        "controller_mutation_rate", "connection_creation_rate", "beer_rate")  # fmt: skip


def quotas(dice: Dice) -> Iterator[Message]:
    made, shown = alter_client_quotas, describe_client_quotas
    for _ in range(60):
        yield made.AlterClientQuotasRequest(
            entries=[
                made.AlterClientQuotasRequestEntryData(
                    entity=[
                        made.AlterClientQuotasRequestEntityData(entity_type=kind, entity_name=name)
                        for kind, name in _entity(dice)
                    ],
                    ops=[
                        made.OpData(
                            key=key,
                            value=dice.choice((-1.0, 0.0, 1.0, 10.0, 12.5, 1e6)),
                            remove=dice.random() < 0.3,
                        )
                        for key in dice.sample(KEYS, dice.choice((1, 1, 2, 3)))
                    ],
                )
            ],
            validate_only=dice.random() < 0.2,
        )
        if dice.random() < 0.7:
            yield shown.DescribeClientQuotasRequest(
                components=[_component(dice, kind, name) for kind, name in _entity(dice)],
                strict=dice.random() < 0.5,
            )
    yield shown.DescribeClientQuotasRequest()


def _entity(dice: Dice) -> list[tuple[str, str | None]]:
    kinds = dice.choice(
        (("user",), ("client-id",), ("user", "client-id"), ("ip",), ("ip", "user"), ("planet",), ())
    )
    names = {"ip": ("10.0.0.1", "10.0.0.2"), "user": USERS[:2], "client-id": ("c", "d")}
    return [(kind, dice.choice((None, *names.get(kind, ("earth",))))) for kind in kinds]


def _component(dice: Dice, kind: str, name: str | None) -> describe_client_quotas.ComponentData:
    match_type = dice.choice((0, 1, 2, 2, 3)) if name is None else dice.choice((0, 0, 0, 1, 2))
    return describe_client_quotas.ComponentData(entity_type=kind, match_type=match_type, match=name)


# -- tokens ---------------------------------------------------------------------------------------


def tokens(dice: Dice) -> Iterator[Message]:
    """On a listener that asks nobody who they are, nobody gets or sees a token."""
    for _ in range(4):
        yield create_delegation_token.CreateDelegationTokenRequest(
            max_lifetime_ms=dice.choice((-1, 1000)),
        )
        yield renew_delegation_token.RenewDelegationTokenRequest(hmac=b"x", renew_period_ms=-1)
        yield expire_delegation_token.ExpireDelegationTokenRequest(
            hmac=b"x", expiry_time_period_ms=-1
        )
        yield describe_delegation_token.DescribeDelegationTokenRequest(owners=None)


@pytest.mark.parametrize(
    ("questions", "seed"), [(acls, 1), (acls, 2), (users, 1), (quotas, 1), (tokens, 1)]
)
def test_both_answer_the_same(
    apache: ApacheNode, tmp_path: Path, questions: Callable[[Dice], Iterator[Message]], seed: int
) -> None:
    asyncio.run(both_agree(apache, tmp_path, questions, seed))
