"""Entries that come and go: which may be, which are meant, and that no others go with them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.controller import acls
from penstock.metadata.acls import Acl, AclsDelta, AclsImage
from penstock.model.errors import ErrorCode
from penstock.model.operations import Operation
from penstock.model.resources import PatternType, Permission, ResourceType
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.generated import create_acls as creating
from penstock.protocol.generated import delete_acls as deleting
from penstock.protocol.generated.metadata_records import RemoveAccessControlEntryRecord
from penstock.security.acl_filters import AclFilter

from .stage import Stage, folded

TOPIC, CLUSTER = ResourceType.TOPIC, ResourceType.CLUSTER
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
READ, ALLOW = Operation.READ, Permission.ALLOW
INVALID, TOO_MUCH = ErrorCode.INVALID_REQUEST, ErrorCode.POLICY_VIOLATION

ORDERS = Acl(TOPIC, "orders", LITERAL, "User:ann", "*", READ, ALLOW)
ALL_OF_THEM = AclFilter(
    ResourceType.ANY, None, PatternType.ANY, None, None, Operation.ANY, Permission.ANY
)


def create(stage: Stage, *wanted: Acl) -> list[ErrorCode]:
    request = creating.CreateAclsRequest(
        creations=[
            creating.AclCreation(
                resource_type=acl.resource_type,
                resource_name=acl.resource_name,
                resource_pattern_type=acl.pattern_type,
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission,
            )
            for acl in wanted
        ]
    )
    results = stage.ask(ApiKey.CREATE_ACLS, request).results
    assert all(bool(each.error_code) == (each.error_message is not None) for each in results)
    return [ErrorCode(each.error_code) for each in results]


def delete(stage: Stage, *filters: AclFilter) -> list[Any]:
    """What each filter took away, or its error."""
    request = deleting.DeleteAclsRequest(
        filters=[
            deleting.DeleteAclsFilter(
                resource_type_filter=each.resource_type,
                resource_name_filter=each.resource_name,
                pattern_type_filter=each.pattern_type,
                principal_filter=each.principal,
                host_filter=each.host,
                operation=each.operation,
                permission_type=each.permission,
            )
            for each in filters
        ]
    )
    return [
        ErrorCode(result.error_code)
        if result.error_code
        else {
            Acl(
                each.resource_type,
                each.resource_name,
                each.pattern_type,
                each.principal,
                each.host,
                each.operation,
                each.permission_type,
            )
            for each in result.matching_acls
        }
        for result in stage.ask(ApiKey.DELETE_ACLS, request).filter_results
    ]


def standing(stage: Stage) -> set[Acl]:
    """What stands, after checking that both views of it agree."""
    image: AclsImage = stage.image.acls
    assert dict(image.ids) == dict(AclsImage(dict(image.by_id)).ids)
    return set(image.by_id.values())


def test_entries_are_created_once_however_often_they_are_asked_for() -> None:
    stage = Stage(1)
    other = ORDERS._replace(host="10.0.0.1")
    assert create(stage, ORDERS, other, ORDERS) == [0, 0, 0]
    assert create(stage, ORDERS) == [0]
    assert standing(stage) == {ORDERS, other}
    assert len(stage.image.acls.by_id) == 2


@pytest.mark.parametrize(
    "change",
    [
        {"resource_type": ResourceType.UNKNOWN},
        {"resource_type": ResourceType.ANY},
        {"resource_type": 99},
        {"resource_type": CLUSTER},
        {"resource_name": ""},
        {"pattern_type": PatternType.UNKNOWN},
        {"pattern_type": PatternType.ANY},
        {"pattern_type": PatternType.MATCH},
        {"pattern_type": -1},
        {"operation": Operation.UNKNOWN},
        {"operation": Operation.ANY},
        {"operation": 16},
        {"permission": Permission.UNKNOWN},
        {"permission": Permission.ANY},
        {"permission": 4},
        {"principal": "ann"},
        {"principal": ""},
        {"host": ""},
        {"host": "10.0.0.0/33"},
        {"host": "10.0.0.1/8"},
    ],
    ids=str,
)
def test_an_entry_that_cannot_be_is_refused_and_the_others_are_not(change: dict[str, Any]) -> None:
    stage = Stage(1)
    assert create(stage, ORDERS._replace(**change), ORDERS) == [INVALID, 0]
    assert standing(stage) == {ORDERS}


@pytest.mark.parametrize(
    "acl",
    [
        Acl(CLUSTER, "kafka-cluster", LITERAL, "User:ann", "*", Operation.ALTER, ALLOW),
        Acl(ResourceType.USER, "User:bob", LITERAL, "User:*", "*", Operation.CREATE_TOKENS, ALLOW),
        Acl(TOPIC, "*", LITERAL, "User:*", "10.0.0.0/8", Operation.ALL, Permission.DENY),
        Acl(TOPIC, "a", PREFIXED, "Group:x:y", "fe80::/10", Operation.TWO_PHASE_COMMIT, ALLOW),
        Acl(ResourceType.GROUP, "g", PREFIXED, "User:", "a.host.by.name", READ, ALLOW),
    ],
    ids=str,
)
def test_whatever_kafka_takes_is_taken(acl: Acl) -> None:
    stage = Stage(1)
    assert create(stage, acl) == [0]
    assert standing(stage) == {acl}


def test_only_what_a_filter_means_goes() -> None:
    """CVE-2024-27309: one of two entries of a resource went, and the other was no longer heeded."""
    stage = Stage(1)
    kept = {
        ORDERS._replace(principal="User:bob"),
        ORDERS._replace(pattern_type=PREFIXED),
        ORDERS._replace(host="10.0.0.1"),
        ORDERS._replace(operation=Operation.WRITE),
        ORDERS._replace(permission=Permission.DENY),
    }
    create(stage, ORDERS, *kept)
    assert delete(stage, AclFilter(*ORDERS)) == [{ORDERS}]
    assert standing(stage) == kept
    assert set(folded(list(stage.image.acls.records())).acls.by_id.values()) == kept


def test_an_entry_that_stands_under_two_ids_goes_as_a_whole() -> None:
    stage = Stage(1)
    stage.take([ORDERS.record(b"1" * 16), ORDERS.record(b"2" * 16)])
    assert standing(stage) == {ORDERS}
    assert delete(stage, AclFilter(*ORDERS)) == [{ORDERS}]
    assert not standing(stage)


def test_each_filter_names_what_it_means_though_it_goes_once() -> None:
    stage = Stage(1)
    create(stage, ORDERS)
    assert delete(stage, ALL_OF_THEM, AclFilter(*ORDERS), ALL_OF_THEM) == [{ORDERS}] * 3
    assert delete(stage, ALL_OF_THEM) == [set()]


def test_a_filter_that_makes_no_sense_takes_nothing_and_does_not_stop_the_others() -> None:
    stage = Stage(1)
    create(stage, ORDERS)
    wrong = [
        ALL_OF_THEM._replace(resource_type=0),
        ALL_OF_THEM._replace(pattern_type=5),
        ALL_OF_THEM._replace(operation=0),
        ALL_OF_THEM._replace(permission=9),
    ]
    assert delete(stage, *wrong) == [INVALID] * 4
    assert delete(stage, wrong[0], ALL_OF_THEM) == [INVALID, {ORDERS}]


FAMILY = {
    name: ORDERS._replace(resource_name=resource, pattern_type=pattern)
    for name, resource, pattern in (
        ("itself", "orders", LITERAL),
        ("all", "*", LITERAL),
        ("prefix", "ord", PREFIXED),
        ("whole", "orders", PREFIXED),
        ("star prefix", "*", PREFIXED),
        ("longer", "orders-eu", PREFIXED),
        ("other", "payments", LITERAL),
    )
}


@pytest.mark.parametrize(
    ("pattern", "name", "meant"),
    [
        (PatternType.MATCH, "orders", {"itself", "all", "prefix", "whole"}),
        (PatternType.MATCH, "*", {"all", "star prefix"}),
        (PatternType.ANY, "orders", {"itself", "whole"}),
        (PatternType.ANY, "*", {"all", "star prefix"}),
        (LITERAL, "orders", {"itself"}),
        (LITERAL, "*", {"all"}),
        (PREFIXED, "orders", {"whole"}),
        (PREFIXED, None, {"prefix", "whole", "star prefix", "longer"}),
        (PatternType.MATCH, None, set(FAMILY)),
        (PatternType.ANY, None, set(FAMILY)),
    ],
)
def test_patterns_mean_what_they_mean_in_kafka(
    pattern: PatternType, name: str | None, meant: set[str]
) -> None:
    stage = Stage(1)
    create(stage, *FAMILY.values())
    wanted = ALL_OF_THEM._replace(pattern_type=pattern, resource_name=name)
    assert delete(stage, wanted) == [{FAMILY[each] for each in meant}]


def test_more_than_one_request_may_change_is_refused_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acls, "CHANGES_MAX", 3)
    stage = Stage(1)
    many = [ORDERS._replace(resource_name=f"t{number}") for number in range(4)]
    assert create(stage, *many) == [TOO_MUCH] * 4
    assert create(stage, *many[:3]) == [0, 0, 0]
    assert create(stage, *many[1:]) == [0, 0, 0]  # of which two stand already
    assert standing(stage) == set(many)
    assert delete(stage, ALL_OF_THEM) == [TOO_MUCH]
    assert standing(stage) == set(many)


def test_names_that_no_batch_would_carry_are_refused() -> None:
    stage = Stage(1)
    long = [ORDERS._replace(resource_name=f"{number}" + "x" * 30_000) for number in range(110)]
    assert create(stage, *long) == [TOO_MUCH] * 110


def test_there_is_an_end_to_how_many_may_stand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acls, "ACLS_MAX", 2)
    stage = Stage(1)
    bob, eve = (ORDERS._replace(principal=f"User:{name}") for name in ("bob", "eve"))
    assert create(stage, ORDERS, bob) == [0, 0]
    assert create(stage, eve) == [TOO_MUCH]
    assert create(stage, bob) == [0]
    assert standing(stage) == {ORDERS, bob}


def test_filters_that_would_look_at_everything_again_and_again_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(acls, "LOOKS_MAX", 5)
    stage = Stage(1)
    entries = [ORDERS._replace(resource_name=f"t{number}") for number in range(3)]
    create(stage, *entries)
    assert delete(stage, ALL_OF_THEM, ALL_OF_THEM) == [TOO_MUCH] * 2
    assert delete(stage, *(AclFilter(*each) for each in entries)) == [{each} for each in entries]


# -- against a plain reading of the rules ---------------------------------------------------------

_acls = st.builds(
    Acl,
    st.sampled_from([TOPIC, ResourceType.GROUP]),
    st.sampled_from(["a", "ab", "abc", "*"]),
    st.sampled_from([LITERAL, PREFIXED]),
    st.sampled_from(["User:x", "User:y"]),
    st.sampled_from(["*", "h"]),
    st.sampled_from([READ, Operation.ALL]),
    st.sampled_from([ALLOW, Permission.DENY]),
)
_filters = st.builds(
    AclFilter,
    st.sampled_from([ResourceType.ANY, TOPIC, ResourceType.GROUP]),
    st.sampled_from([None, "a", "ab", "abcd", "*"]),
    st.sampled_from([PatternType.ANY, PatternType.MATCH, LITERAL, PREFIXED]),
    st.sampled_from([None, "User:x"]),
    st.sampled_from([None, "h"]),
    st.sampled_from([Operation.ANY, READ, Operation.ALL]),
    st.sampled_from([Permission.ANY, ALLOW]),
)


def means(wanted: AclFilter, acl: Acl) -> bool:
    if wanted.resource_type not in (ResourceType.ANY, acl.resource_type):
        return False
    if wanted.pattern_type not in (PatternType.ANY, PatternType.MATCH, acl.pattern_type):
        return False
    if wanted.resource_name is not None:
        named = wanted.resource_name == acl.resource_name
        if wanted.pattern_type == PatternType.MATCH:
            if acl.pattern_type == LITERAL:
                named = named or acl.resource_name == "*"
            else:
                named = wanted.resource_name.startswith(acl.resource_name)
        if not named:
            return False
    return (
        wanted.principal in (None, acl.principal)
        and wanted.host in (None, acl.host)
        and wanted.operation in (Operation.ANY, acl.operation)
        and wanted.permission in (Permission.ANY, acl.permission)
    )


@given(st.sets(_acls, max_size=30), _filters)
def test_a_filter_means_what_the_rules_say(entries: set[Acl], wanted: AclFilter) -> None:
    image = AclsImage({bytes([at]) * 16: acl for at, acl in enumerate(entries)})
    assert {acl for _, acl in wanted.found(image)} == {acl for acl in entries if means(wanted, acl)}


@given(st.lists(st.tuples(st.integers(0, 5), st.one_of(st.none(), _acls)), max_size=40))
def test_the_ids_of_each_entry_are_known_whatever_came_and_went(
    changes: list[tuple[int, Acl | None]],
) -> None:
    image = AclsImage()
    for at in range(0, len(changes), 3):
        delta = AclsDelta(image)
        for number, acl in changes[at : at + 3]:
            acl_id = bytes([number]) * 16
            if acl is None:
                delta.remove(RemoveAccessControlEntryRecord(id=acl_id))
            else:
                delta.entry(acl.record(acl_id))
        image = delta.apply()
        told = {acl: set(ids) for acl, ids in image.ids.items()}
        assert told == {acl: set(ids) for acl, ids in AclsImage(dict(image.by_id)).ids.items()}
