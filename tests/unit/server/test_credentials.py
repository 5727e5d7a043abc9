"""Rights, users, quotas and tokens through a whole node: who sees them, what is written down, and
that they outlive a restart."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.app.security import STANDARD_AUTHORIZER
from penstock.metadata.acls import Acl, AclsImage
from penstock.metadata.delegation_tokens import DelegationToken, DelegationTokensImage
from penstock.model.errors import ErrorCode
from penstock.model.operations import Operation
from penstock.model.resources import PatternType, Permission, ResourceType
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.generated import (
    alter_client_quotas,
    alter_user_scram_credentials,
    create_acls,
    create_delegation_token,
    delete_acls,
    describe_acls,
    describe_delegation_token,
    describe_user_scram_credentials,
    expire_delegation_token,
)
from penstock.security.authorizer import Authorizer
from penstock.security.principal import ANONYMOUS, Principal
from penstock.security.tokens import token_hmac
from penstock.server.call import Call, Sender
from penstock.server.handlers import create_delegation_token as create_handler
from penstock.server.handlers import describe_delegation_token as describe_handler
from penstock.server.handlers import expire_delegation_token as expire_handler
from penstock.server.token_requests import taken_from
from tests.unit.server.asking import Asker, asking_node, running_node
from tests.unit.server.several import several_nodes

GUARDED = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:ANONYMOUS"}
EVERYTHING: dict[str, Any] = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}
SALTED = b"never to be seen" * 2


def creation(name: str) -> create_acls.CreateAclsRequest:
    return create_acls.CreateAclsRequest(
        creations=[
            create_acls.AclCreation(
                resource_type=2,
                resource_name=name,
                principal="User:ann",
                host="*",
                operation=3,
                permission_type=3,
            )
        ]
    )


def password(user: str) -> alter_user_scram_credentials.AlterUserScramCredentialsRequest:
    return alter_user_scram_credentials.AlterUserScramCredentialsRequest(
        upsertions=[
            alter_user_scram_credentials.ScramCredentialUpsertion(
                name=user, mechanism=1, iterations=4096, salt=b"salt", salted_password=SALTED
            )
        ]
    )


def quota(user: str) -> alter_client_quotas.AlterClientQuotasRequest:
    made = alter_client_quotas
    return made.AlterClientQuotasRequest(
        entries=[
            made.AlterClientQuotasRequestEntryData(
                entity=[
                    made.AlterClientQuotasRequestEntityData(entity_type="user", entity_name=user)
                ],
                ops=[made.OpData(key="producer_byte_rate", value=1024.0)],
            )
        ]
    )


async def listed(asker: Asker) -> set[str]:
    """The names of the resources that entries are about."""
    answer = await asker.ask(describe_acls.DescribeAclsRequest(**EVERYTHING), 3)
    assert answer.error_code == 0
    return {resource.resource_name for resource in answer.resources}


async def described(asker: Asker) -> list[str]:
    request = describe_user_scram_credentials.DescribeUserScramCredentialsRequest(users=None)
    return [result.user for result in (await asker.ask(request, 0)).results]


async def test_a_node_without_an_authorizer_takes_no_entries(tmp_path: Path) -> None:
    disabled = ErrorCode.SECURITY_DISABLED
    remove = delete_acls.DeleteAclsFilter(**EVERYTHING)
    async with asking_node(tmp_path) as asker:
        assert (await asker.ask(creation("t"), 3)).results[0].error_code == disabled
        gone = await asker.ask(delete_acls.DeleteAclsRequest(filters=[remove]), 3)
        assert gone.filter_results[0].error_code == disabled
        shown = await asker.ask(describe_acls.DescribeAclsRequest(**EVERYTHING), 3)
        assert (shown.error_code, shown.resources) == (disabled, [])


async def test_what_stood_stands_after_a_restart_and_nothing_else_does(tmp_path: Path) -> None:
    """CVE-2024-27309, and its like: nothing is lost, and nothing comes back, by way of the log or
    of a snapshot."""
    snapshots = {**GUARDED, "metadata.log.max.record.bytes.between.snapshots": "1"}
    kept, gone = {"a", "ab", "*"}, {"b", "abc"}
    for settings, folder in ((GUARDED, "log"), (snapshots, "snapshots")):
        directory = tmp_path / folder
        async with asking_node(directory, settings) as asker:
            for name in sorted(kept | gone):
                await asker.ask(creation(name), 3)
            for user in ("ann", "bob"):
                await asker.ask(password(user), 0)
            wanted = [
                delete_acls.DeleteAclsFilter(**{**EVERYTHING, "resource_name_filter": name})
                for name in gone
            ]
            await asker.ask(delete_acls.DeleteAclsRequest(filters=wanted), 2)
            deletion = alter_user_scram_credentials.ScramCredentialDeletion(name="bob", mechanism=1)
            await asker.ask(
                alter_user_scram_credentials.AlterUserScramCredentialsRequest(deletions=[deletion]),
                0,
            )
            assert await listed(asker) == kept
        taken = list((directory / "__cluster_metadata-0").glob("*.checkpoint"))
        assert bool(taken) == (settings is snapshots)
        async with asking_node(directory, settings) as asker:
            assert await listed(asker) == kept
            assert await described(asker) == ["ann"]


async def test_whichever_node_is_asked_the_controller_decides_and_all_learn_of_it(
    tmp_path: Path,
) -> None:
    async with several_nodes(tmp_path, 3, GUARDED) as cluster:
        for number, asker in cluster.askers.items():
            made = await asker.ask(creation(f"topic-{number}"), 3)
            assert [each.error_code for each in made.results] == [0]
            assert (await asker.ask(password(f"user-{number}"), 0)).results[0].error_code == 0
            assert (await asker.ask(quota(f"user-{number}"), 1)).entries[0].error_code == 0
        images = [node.broker for node in cluster.nodes.values()]
        await cluster.until(
            lambda: all(
                len(each.image.acls.by_id) == len(each.image.scram.users) == 3
                and len(each.image.client_quotas.entities) == 3
                for each in images
            ),
            "the same on every node",
        )
        for asker in cluster.askers.values():
            assert await listed(asker) == {"topic-1", "topic-2", "topic-3"}


async def test_whichever_node_is_asked_a_token_stands_for_who_asked(tmp_path: Path) -> None:
    async with several_nodes(tmp_path, 3, {"delegation.token.secret.key": SECRET}) as cluster:
        request = create_delegation_token.CreateDelegationTokenRequest()
        for number, node in cluster.nodes.items():
            call = call_of(Principal(f"user-{number}"), enveloped=True)
            call.api_key = int(ApiKey.CREATE_DELEGATION_TOKEN)
            made = await create_handler.handle(node.broker, call, request)
            assert (made.error_code, made.principal_name) == (0, f"user-{number}")
            assert made.hmac == token_hmac(SECRET, made.token_id)
        owners = [token.owner for token in cluster.image.delegation_tokens.by_id.values()]
        assert sorted(owners) == ["User:user-1", "User:user-2", "User:user-3"]


async def test_each_change_is_written_down_and_no_secret_with_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with asking_node(tmp_path, GUARDED) as asker:
        await asker.ask(creation("orders"), 3)
        await asker.ask(password("ann"), 0)
        await asker.ask(quota("ann"), 1)
        remove = delete_acls.DeleteAclsFilter(**EVERYTHING)
        await asker.ask(delete_acls.DeleteAclsRequest(filters=[remove]), 3)
    lines = [json.loads(r.getMessage()) for r in caplog.records if r.name == "penstock.audit"]
    entry = "ALLOW User:ann from * to READ TOPIC:LITERAL:orders"
    assert [(line["change"], line["details"]) for line in lines] == [
        ("create ACLs", {"acls": [entry]}),
        ("alter SCRAM credentials", {"set": ["ann (SCRAM-SHA-256)"], "deleted": []}),
        (
            "alter client quotas",
            {"entities": [{"of": ["user ann"], "quotas": {"producer_byte_rate": 1024.0}}]},
        ),
        ("delete ACLs", {"acls": [entry]}),
    ]
    assert {line["principal"] for line in lines} == {"User:ANONYMOUS"}
    assert not any("never to be seen" in r.getMessage() for r in caplog.records)


async def test_what_is_refused_is_not_written_down_as_done(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with asking_node(tmp_path, GUARDED) as asker:
        await asker.ask(creation(""), 3)
        await asker.ask(password(""), 0)
        trial = quota("ann")
        trial.validate_only = True
        await asker.ask(trial, 1)
    assert not [r for r in caplog.records if r.name == "penstock.audit"]


# -- tokens ---------------------------------------------------------------------------------------

SECRET = "the key"
ANN, BOB, EVE = (Principal(name) for name in ("ann", "bob", "eve"))


def token(owner: str, requester: str, *renewers: str) -> DelegationToken:
    return DelegationToken(owner, requester, renewers, 1, 3, 2)


TOKENS = {
    "of-ann": token("User:ann", "User:ann", "User:bob"),
    "for-bob": token("User:bob", "User:ann"),
    "of-bob": token("User:bob", "User:bob"),
}


def broker_with(*rules: Acl, protocol: str = "SASL_SSL", secret: str | None = SECRET) -> Any:
    authorizer = Authorizer([], False)
    authorizer.on_image(AclsImage({bytes([at]) * 16: acl for at, acl in enumerate(rules)}))
    config = SimpleNamespace(security_protocols={"CLIENTS": protocol}, get_str=lambda _: secret)
    image = SimpleNamespace(delegation_tokens=DelegationTokensImage(TOKENS))
    return SimpleNamespace(authorizer=authorizer, config=config, image=image)


def call_of(principal: Principal, version: int = 3, *, enveloped: bool = False) -> Call:
    connection: Any = SimpleNamespace(
        listener_name="CLIENTS",
        peer=("10.0.0.1", 1),
        gate=SimpleNamespace(principal=principal),
    )
    key = int(ApiKey.DESCRIBE_DELEGATION_TOKEN)
    sender = Sender(principal, "10.0.0.1") if enveloped else None
    return Call(connection, key, version, 1, None, sender)


def shown(broker: Any, call: Call, *owners: str) -> set[str]:
    request = describe_delegation_token.DescribeDelegationTokenRequest(
        owners=None
        if not owners
        else [
            describe_delegation_token.DescribeDelegationTokenOwner(
                principal_type="User", principal_name=owner
            )
            for owner in owners
        ]
    )
    answer = describe_handler.handle(broker, call, request)
    assert answer.error_code == 0
    for each in answer.tokens:
        assert each.hmac == token_hmac(SECRET, each.token_id)
        assert (each.token_requester_principal_name != "") == (call.version >= 3)
    return {each.token_id for each in answer.tokens}


def rule(kind: ResourceType, name: str, operation: Operation) -> Acl:
    return Acl(kind, name, PatternType.LITERAL, "User:eve", "*", operation, Permission.ALLOW)


@pytest.mark.parametrize(
    ("principal", "rules", "seen"),
    [
        (ANN, [], {"of-ann", "for-bob"}),
        (BOB, [], {"of-ann", "for-bob", "of-bob"}),
        (EVE, [], set()),
        (EVE, [(ResourceType.DELEGATION_TOKEN, "of-bob", Operation.DESCRIBE)], {"of-bob"}),
        (EVE, [(ResourceType.USER, "User:ann", Operation.DESCRIBE_TOKENS)], {"of-ann"}),
        (EVE, [(ResourceType.USER, "User:ann", Operation.DESCRIBE)], set()),
        (EVE, [(ResourceType.USER, "ann", Operation.DESCRIBE_TOKENS)], set()),
    ],
)
@pytest.mark.parametrize("version", [1, 2, 3])
def test_tokens_are_shown_to_whom_they_concern_and_to_who_has_a_right(
    principal: Principal, rules: list[Any], seen: set[str], version: int
) -> None:
    broker = broker_with(*(rule(*each) for each in rules))
    assert shown(broker, call_of(principal, version)) == seen


def test_one_can_ask_for_the_tokens_of_some_owners() -> None:
    assert shown(broker_with(), call_of(BOB), "ann") == {"of-ann", "for-bob"}
    assert shown(broker_with(), call_of(ANN), "eve") == set()
    nobody = describe_delegation_token.DescribeDelegationTokenRequest(owners=[])
    assert describe_handler.handle(broker_with(), call_of(BOB), nobody).tokens == []


def test_without_a_key_there_is_nothing_to_show() -> None:
    everybody = describe_delegation_token.DescribeDelegationTokenRequest(owners=None)
    answer = describe_handler.handle(broker_with(secret=None), call_of(ANN), everybody)
    assert answer.error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED


@pytest.mark.parametrize(
    ("protocol", "principal", "enveloped", "taken"),
    [
        ("SASL_SSL", ANN, False, True),
        ("SASL_PLAINTEXT", ANN, False, True),
        ("SSL", ANN, False, True),
        ("SSL", ANONYMOUS, False, False),
        ("PLAINTEXT", ANN, False, False),
        ("PLAINTEXT", ANONYMOUS, False, False),
        ("PLAINTEXT", ANN, True, True),
        ("SASL_SSL", ANN._replace(by_token=True), False, False),
        ("SASL_SSL", ANN._replace(by_token=True), True, False),
    ],
)
def test_requests_about_tokens_are_taken_from_who_proved_who_they_are_without_one(
    protocol: str, principal: Principal, enveloped: bool, taken: bool
) -> None:
    call = call_of(principal, enveloped=enveloped)
    assert taken_from(broker_with(protocol=protocol), call) == taken


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_a_token_for_another_takes_the_right_to_it(version: int) -> None:
    request = create_delegation_token.CreateDelegationTokenRequest(
        owner_principal_type="User", owner_principal_name="bob"
    )
    call = call_of(EVE, version)
    answer = await create_handler.handle(broker_with(), call, request)
    assert answer.error_code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    assert (answer.principal_name, answer.token_id, answer.hmac) == ("bob", "", b"")
    answer.write(version, bytearray())


async def test_no_token_begets_another_and_each_leaves_a_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with running_node(tmp_path, {"delegation.token.secret.key": SECRET}) as node:
        call = call_of(ANN._replace(by_token=True), enveloped=True)
        create = create_delegation_token.CreateDelegationTokenRequest()
        made = await create_handler.handle(node.broker, call, create)
        assert made.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        call = call_of(ANN, enveloped=True)
        made = await create_handler.handle(node.broker, call, create)
        assert (made.error_code, made.principal_name) == (0, "ann")
        await asyncio.sleep(0)
        assert list(node.broker.image.delegation_tokens.by_id) == [made.token_id]
        expire = expire_delegation_token.ExpireDelegationTokenRequest(
            hmac=made.hmac, expiry_time_period_ms=-1
        )
        assert (await expire_handler.handle(node.broker, call, expire)).error_code == 0
        assert not node.broker.image.delegation_tokens.by_id
    created, expired = (
        json.loads(r.getMessage()) for r in caplog.records if r.name == "penstock.audit"
    )
    assert (created["change"], expired["change"]) == (
        "create delegation token",
        "expire delegation token",
    )
    for line in (created, expired):
        assert line["details"]["token_id"] == made.token_id
        assert line["details"]["owner"] == "User:ann"
    told = " ".join(r.getMessage() for r in caplog.records)
    assert base64.b64encode(made.hmac).decode() not in told
    assert repr(made.hmac) not in told
    assert SECRET not in told
