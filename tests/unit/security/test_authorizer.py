"""Who may do what: Kafka's rules, by tables and against an evaluator that reads every entry."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.metadata.acls import Acl, AclsDelta, AclsImage
from penstock.model.operations import Operation
from penstock.model.resources import CLUSTER_NAME, PatternType, Permission, ResourceType
from penstock.security.authorizer import ANSWERS_MAX, NAME_MAX, Authorizer
from penstock.security.principal import Principal

ALICE = Principal("alice")
BOB = Principal("bob")
HERE = "10.1.2.3"
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
ALLOW, DENY = Permission.ALLOW, Permission.DENY
TOPIC = ResourceType.TOPIC


def acl(
    operation: Operation = Operation.READ,
    name: str = "orders",
    *,
    kind: ResourceType = TOPIC,
    pattern: PatternType = LITERAL,
    who: str = "User:alice",
    host: str = "*",
    permission: Permission = ALLOW,
) -> Acl:
    return Acl(kind, name, pattern, who, host, operation, permission)


def image_of(*acls: Acl) -> AclsImage:
    return AclsImage({number.to_bytes(16, "big"): each for number, each in enumerate(acls)})


def authorizer_with(
    *acls: Acl, supers: tuple[Principal, ...] = (), is_open: bool = False
) -> Authorizer:
    made = Authorizer(supers, is_open)
    made.on_image(image_of(*acls))
    return made


def may(
    authorizer: Authorizer,
    operation: Operation = Operation.READ,
    name: str = "orders",
    *,
    who: Principal = ALICE,
    host: str = HERE,
    kind: ResourceType = TOPIC,
) -> bool:
    return authorizer.allows(who, host, operation, kind, name)


# -- names ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "named", "asked", "covered"),
    [
        (LITERAL, "orders", "orders", True),
        (LITERAL, "orders", "orders-2", False),
        (LITERAL, "orders", "order", False),
        (LITERAL, "*", "anything", True),
        (LITERAL, "*", "*", True),
        (PREFIXED, "ord", "orders", True),
        (PREFIXED, "orders", "orders", True),
        (PREFIXED, "orders", "order", False),
        (PREFIXED, "rders", "orders", False),
        (PREFIXED, "*", "orders", False),  # only a literal star means all
        (PREFIXED, "*", "*stars", True),
    ],
)
def test_patterns_cover_names(pattern: PatternType, named: str, asked: str, covered: bool) -> None:
    authorizer = authorizer_with(acl(name=named, pattern=pattern))
    assert may(authorizer, name=asked) is covered


def test_a_name_is_covered_by_prefixes_of_every_length() -> None:
    entries = [
        acl(Operation.READ, "a", pattern=PREFIXED),
        acl(Operation.WRITE, "abc", pattern=PREFIXED),
        acl(Operation.DELETE, "abcde", pattern=PREFIXED),
    ]
    authorizer = authorizer_with(*entries)
    assert [may(authorizer, each, "abcd") for each in (Operation.READ, Operation.WRITE)] == [
        True,
        True,
    ]
    assert not may(authorizer, Operation.DELETE, "abcd")


def test_kinds_of_resources_are_kept_apart() -> None:
    authorizer = authorizer_with(acl(name="x", kind=ResourceType.GROUP))
    assert may(authorizer, name="x", kind=ResourceType.GROUP)
    assert not may(authorizer, name="x", kind=TOPIC)
    assert not may(authorizer, name="x", kind=ResourceType.TRANSACTIONAL_ID)


# -- principals -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("named", "who", "meant"),
    [
        ("User:alice", ALICE, True),
        ("User:alice", BOB, False),
        ("User:*", BOB, True),
        ("User:*", Principal("x", "Team"), True),  # Kafka's wildcard knows no kinds
        ("Team:alice", ALICE, False),
        ("Team:alice", Principal("alice", "Team"), True),
        ("User:alice", Principal("alice", by_token=True), True),
        ("User:Alice", ALICE, False),
    ],
)
def test_entries_are_about_principals(named: str, who: Principal, meant: bool) -> None:
    assert may(authorizer_with(acl(who=named)), who=who) is meant


def test_super_users_pass_whatever_is_denied() -> None:
    denial = acl(Operation.ALL, "*", who="User:*", permission=DENY)
    authorizer = authorizer_with(denial, supers=(ALICE,))
    assert may(authorizer)
    assert not may(authorizer, who=BOB)
    assert not may(authorizer, who=Principal("alice", "Team"))


# -- operations -----------------------------------------------------------------------------------

IMPLIED = {
    Operation.READ: {Operation.DESCRIBE},
    Operation.WRITE: {Operation.DESCRIBE},
    Operation.DELETE: {Operation.DESCRIBE},
    Operation.ALTER: {Operation.DESCRIBE},
    Operation.ALTER_CONFIGS: {Operation.DESCRIBE_CONFIGS},
}
REAL = [each for each in Operation if each > Operation.ALL]


@pytest.mark.parametrize("granted", REAL)
def test_what_is_allowed_may_imply_that_it_is_described(granted: Operation) -> None:
    authorizer = authorizer_with(acl(granted))
    assert {each for each in REAL if may(authorizer, each)} == {granted} | IMPLIED.get(
        granted, set()
    )


@pytest.mark.parametrize("denied", REAL)
def test_what_is_denied_implies_nothing(denied: Operation) -> None:
    authorizer = authorizer_with(acl(Operation.ALL), acl(denied, permission=DENY))
    assert {each for each in REAL if not may(authorizer, each)} == {denied}


def test_all_operations_are_allowed_or_denied_at_once() -> None:
    assert all(may(authorizer_with(acl(Operation.ALL)), each) for each in REAL)
    denied = authorizer_with(acl(Operation.ALL), acl(Operation.ALL, permission=DENY))
    assert not any(may(denied, each) for each in REAL)


@pytest.mark.parametrize(
    "denial",
    [
        acl(permission=DENY),
        acl(name="*", permission=DENY),
        acl(name="or", pattern=PREFIXED, permission=DENY),
        acl(who="User:*", permission=DENY),
        acl(host=HERE, permission=DENY),
        acl(Operation.ALL, permission=DENY),
    ],
)
def test_any_denial_beats_any_permission(denial: Acl) -> None:
    allowing = [acl(), acl(name="*"), acl(name="orders", pattern=PREFIXED), acl(Operation.ALL)]
    assert not may(authorizer_with(*allowing, denial))
    assert not may(authorizer_with(denial, *allowing))


def test_an_operation_of_a_later_release_means_nothing() -> None:
    strange = acl()._replace(operation=77)
    authorizer = authorizer_with(strange, strange._replace(operation=-3, permission=DENY))
    assert not any(may(authorizer, each) for each in REAL)


# -- hosts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("named", "host", "meant"),
    [
        ("*", HERE, True),
        (HERE, HERE, True),
        ("10.1.2.4", HERE, False),
        ("10.1.0.0/16", HERE, True),
        ("10.1.2.99/24", HERE, True),  # bits behind the mask do not matter
        ("10.2.0.0/16", HERE, False),
        ("0.0.0.0/0", HERE, True),
        ("::/0", HERE, False),
        ("0:0:0:0:0:0:0:1", "::1", True),  # as Java writes it
        ("2001:db8::/32", "2001:db8::17", True),
        ("2001:db8::/32", "2001:db9::17", False),
        ("fe80::/10", "fe80::1%eth0", True),
        ("::ffff:10.1.2.3", HERE, True),
        ("::ffff:10.1.0.0/112", HERE, True),
        ("::ffff:10.2.0.0/112", HERE, False),
        ("10.1.2.3/99", HERE, False),
        ("broker.example", HERE, False),  # names are not looked up
        ("10.1.2.3", "", False),
        ("*", "", True),
    ],
)
def test_entries_are_about_addresses_and_networks(named: str, host: str, meant: bool) -> None:
    assert may(authorizer_with(acl(host=named)), host=host) is meant


def test_networks_deny_as_well() -> None:
    authorizer = authorizer_with(acl(), acl(host="10.0.0.0/8", permission=DENY))
    assert not may(authorizer, host="10.200.0.1")
    assert may(authorizer, host="11.0.0.1")


# -- without entries ------------------------------------------------------------------------------


def test_what_nothing_is_said_about_is_refused_or_by_choice_open() -> None:
    assert not may(authorizer_with())
    assert may(authorizer_with(is_open=True))


def test_an_entry_about_anybody_closes_a_resource_that_was_open() -> None:
    authorizer = authorizer_with(acl(who="User:bob"), is_open=True)
    assert not may(authorizer)
    assert may(authorizer, name="others")
    assert not may(authorizer_with(acl(name="*", who="User:bob"), is_open=True), name="others")
    assert not may(authorizer_with(acl(name="or", pattern=PREFIXED, who="User:bob"), is_open=True))


# -- some resource of a kind ----------------------------------------------------------------------

WRITE = Operation.WRITE


def write(
    name: str,
    pattern: PatternType = LITERAL,
    permission: Permission = ALLOW,
    who: str = "User:alice",
) -> Acl:
    return acl(WRITE, name, pattern=pattern, permission=permission, who=who)


@pytest.mark.parametrize(
    ("entries", "allowed"),
    [
        ([], False),
        ([write("a")], True),
        ([write("a", PREFIXED)], True),
        ([write("a", who="User:*")], True),
        ([write("a", who="User:bob")], False),
        ([acl(Operation.READ, "a")], False),
        ([acl(Operation.ALL, "a")], True),
        ([write("a"), write("a", permission=DENY)], False),
        ([write("a", PREFIXED), write("a", permission=DENY)], True),
        ([write("abc"), write("ab", PREFIXED, DENY)], False),
        ([write("abc", PREFIXED), write("ab", PREFIXED, DENY)], False),
        ([write("ab", PREFIXED), write("abc", PREFIXED, DENY)], True),
        ([write("a", PREFIXED), write("*", permission=DENY)], False),
        ([write("*"), write("a", PREFIXED, DENY)], True),
        ([write("*"), write("h", PREFIXED, DENY)], True),
        ([write("a"), write("a", permission=DENY), write("b")], True),
        ([write("a"), write("a", permission=DENY, who="User:*")], False),
    ],
)
def test_whether_some_resource_of_a_kind_may_be_touched(entries: list[Acl], allowed: bool) -> None:
    authorizer = authorizer_with(*entries)
    for _ in range(2):  # the second answer is remembered
        assert authorizer.allows_some(ALICE, HERE, WRITE, TOPIC) is allowed


def test_super_users_may_touch_some_resource_and_so_may_all_where_all_is_open() -> None:
    denial = write("*", permission=DENY, who="User:*")
    assert authorizer_with(denial, supers=(ALICE,)).allows_some(ALICE, HERE, WRITE, TOPIC)
    assert authorizer_with(is_open=True).allows_some(ALICE, HERE, WRITE, TOPIC)


# -- loading and changing -------------------------------------------------------------------------


def test_until_the_log_is_read_only_super_users_pass() -> None:
    authorizer = Authorizer([BOB], open_without_entries=True)
    read = False
    authorizer.loaded = lambda: read
    authorizer.on_image(image_of(acl()))
    assert not authorizer.ready
    assert not may(authorizer)
    assert not authorizer.allows_some(ALICE, HERE, WRITE, TOPIC)
    assert may(authorizer, who=BOB)
    read = True
    assert authorizer.ready
    assert may(authorizer)


def test_a_change_counts_at_once_and_empties_what_others_remember() -> None:
    first = image_of(acl(), acl(WRITE))
    authorizer = Authorizer([], False)
    authorizer.on_image(first)
    memory, other = authorizer.memory(), authorizer.memory()
    memory.add("t")
    other.add("u")
    assert may(authorizer)
    assert authorizer.allows_some(ALICE, HERE, WRITE, TOPIC)
    delta = AclsDelta(first)
    delta.changed = {bytes(16): None, (1).to_bytes(16, "big"): acl(WRITE, permission=DENY)}
    authorizer.on_image(delta.apply(), delta)
    assert not may(authorizer)
    assert not authorizer.allows_some(ALICE, HERE, WRITE, TOPIC)
    assert memory == other == set()


def test_the_same_image_changes_nothing() -> None:
    image = image_of(acl())
    authorizer = Authorizer([], False)
    authorizer.on_image(image)
    memory = authorizer.memory()
    memory.add("t")
    authorizer.on_image(image)
    assert memory == {"t"}


def test_a_delta_from_another_image_is_not_trusted() -> None:
    authorizer = authorizer_with(acl())
    elsewhere = AclsDelta(AclsImage())
    elsewhere.changed = {b"x" * 16: acl(WRITE)}
    authorizer.on_image(elsewhere.apply(), elsewhere)
    assert may(authorizer, WRITE)
    assert not may(authorizer)


def test_an_entry_that_stands_twice_is_there_until_both_are_gone() -> None:
    first = image_of(acl(), acl())
    authorizer = Authorizer([], False)
    authorizer.on_image(first)
    delta = AclsDelta(first)
    delta.changed = {bytes(16): None}
    second = delta.apply()
    authorizer.on_image(second, delta)
    assert may(authorizer)
    delta = AclsDelta(second)
    delta.changed = {(1).to_bytes(16, "big"): None}
    authorizer.on_image(delta.apply(), delta)
    assert not may(authorizer)


def test_what_is_remembered_is_bounded() -> None:
    authorizer = authorizer_with(acl(name="*"))
    for number in range(ANSWERS_MAX + 10):
        assert may(authorizer, name=str(number))
    assert may(authorizer, name="x" * (NAME_MAX + 1))
    assert len(authorizer._answers) <= ANSWERS_MAX
    assert max(len(question[3]) for question in authorizer._answers) <= NAME_MAX


def test_the_cluster_is_a_resource_like_others() -> None:
    authorizer = authorizer_with(
        acl(Operation.CLUSTER_ACTION, CLUSTER_NAME, kind=ResourceType.CLUSTER)
    )
    assert may(authorizer, Operation.CLUSTER_ACTION, CLUSTER_NAME, kind=ResourceType.CLUSTER)
    assert not may(authorizer, Operation.ALTER, CLUSTER_NAME, kind=ResourceType.CLUSTER)


# -- against an evaluator that reads every entry --------------------------------------------------

DESCRIBING = {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}


def plainly(
    acls: list[Acl], who: str, host: str, operation: Operation, kind: int, name: str, is_open: bool
) -> bool:
    """The rules as one would tell them."""
    about = [each for each in acls if each.resource_type == kind and _covers(each, name)]
    if not about:
        return is_open
    mine = [
        each for each in about if each.principal in (who, "User:*") and _from_there(each.host, host)
    ]
    if any(
        each.permission == DENY and each.operation in (operation, Operation.ALL) for each in mine
    ):
        return False
    return any(each.permission == ALLOW and _grants(each.operation, operation) for each in mine)


def _covers(each: Acl, name: str) -> bool:
    if each.pattern_type == PREFIXED:
        return name.startswith(each.resource_name)
    return each.resource_name in (name, "*")


def _from_there(named: str, host: str) -> bool:
    return named in ("*", host) or (
        "/" in named and ipaddress.ip_address(host) in ipaddress.ip_network(named)
    )


def _grants(granted: int, operation: Operation) -> bool:
    return (
        granted in (operation, Operation.ALL)
        or (operation == Operation.DESCRIBE and granted in DESCRIBING)
        or (operation == Operation.DESCRIBE_CONFIGS and granted == Operation.ALTER_CONFIGS)
    )


NAMES = st.text("ab*", min_size=1, max_size=4)
HOSTS = st.sampled_from(["10.0.0.1", "10.0.0.2", "10.0.1.1", "2001:db8::1"])
ACLS = st.builds(
    acl,
    st.sampled_from([each for each in Operation if each >= Operation.ALL]),
    NAMES,
    kind=st.sampled_from([TOPIC, ResourceType.GROUP]),
    pattern=st.sampled_from([LITERAL, PREFIXED]),
    who=st.sampled_from(["User:alice", "User:bob", "User:*"]),
    host=st.one_of(HOSTS, st.sampled_from(["*", "*", "10.0.0.0/24", "10.0.0.0/8", "2001::/16"])),
    permission=st.sampled_from([ALLOW, ALLOW, DENY]),
)
STEPS = st.lists(st.tuples(st.integers(0, 7), st.none() | ACLS), max_size=12)


@settings(max_examples=120)
@given(start=st.lists(ACLS, max_size=8), steps=STEPS, is_open=st.booleans(), data=st.data())
def test_answers_are_those_of_who_reads_every_entry(
    start: list[Acl], steps: list[tuple[int, Acl | None]], is_open: bool, data: st.DataObject
) -> None:
    image = image_of(*start)
    authorizer = Authorizer([], is_open)
    authorizer.on_image(image)
    for number, change in [(-1, None), *steps]:
        if number >= 0:
            delta = AclsDelta(image)
            delta.changed = {number.to_bytes(16, "big"): change}
            image = delta.apply()
            authorizer.on_image(image, delta)
        who = data.draw(st.sampled_from([ALICE, BOB]))
        name, host = data.draw(NAMES), data.draw(HOSTS)
        entries = list(image.by_id.values())
        for operation in REAL:
            for kind in (TOPIC, ResourceType.GROUP):
                assert authorizer.allows(who, host, operation, kind, name) == plainly(
                    entries, str(who), host, operation, kind, name, is_open
                )


@settings(max_examples=120)
@given(entries=st.lists(ACLS, max_size=6), host=HOSTS)
def test_some_resource_may_be_touched_if_any_name_at_all_may(entries: list[Acl], host: str) -> None:
    authorizer = authorizer_with(*entries)
    # Names that a pattern covers, and names that only the longest prefix of a pattern covers.
    names = {f"{each.resource_name}{end}" for each in entries for end in ("", "c")} | {"c"}
    plain = any(
        plainly(entries, "User:alice", host, WRITE, TOPIC, name, False) for name in names - {"*"}
    )
    assert authorizer.allows_some(ALICE, host, WRITE, TOPIC) == plain
