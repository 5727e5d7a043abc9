"""What a cluster tells about its groups, as plain documents and tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from penstock.cli.output import Table
from penstock.cli.wire_cluster import GROUP, Cluster, Refusal, check
from penstock.model.errors import ErrorCode
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.generated.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from penstock.protocol.generated.consumer_protocol import ConsumerProtocolAssignment
from penstock.protocol.generated.describe_groups import (
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from penstock.protocol.generated.list_groups import (
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)
from penstock.protocol.generated.share_group_describe import (
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from penstock.protocol.primitives import ProtocolError

Document = dict[str, Any]

DESCRIBED_TYPES = ("classic", "consumer", "share")
"""The types of groups whose members can be told."""

ASKED_MAX = 500
"""How many groups one request asks about."""


def word_of(name: str) -> str:
    """A state of the protocol's as this command writes and reads it: `preparing-rebalance`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).lower()


def name_of(word: str) -> str:
    """The protocol's name of a state: `PreparingRebalance`."""
    return "".join(part.capitalize() for part in word.split("-"))


def listing(cluster: Cluster, states: Sequence[str], types: Sequence[str]) -> list[Document]:
    """One line about each group, by name; no states or types means all of them."""
    request = ListGroupsRequest(
        states_filter=[name_of(state) for state in states], types_filter=list(types)
    )

    def once() -> list[Document]:
        found: list[Document] = []
        for number, told in cluster.everyone(request, ListGroupsResponse):
            check(told.error_code, "the groups could not be listed")
            found += [_line(number, one) for one in told.groups]
        return found

    listed = cluster.patiently(once)
    _count_members(cluster, listed)
    return sorted(listed, key=lambda one: str(one["group"]))


def _line(coordinator: int, group: ListedGroup) -> Document:
    return {
        "group": group.group_id,
        "type": group.group_type.lower() or "classic",
        "protocol": group.protocol_type,
        "state": word_of(group.group_state),
        "coordinator": coordinator,
        "members": None,
    }


def _count_members(cluster: Cluster, listed: Iterable[Document]) -> None:
    """Fill in how many members the groups have, asking each coordinator once for many."""
    asked: dict[tuple[int, str], list[Document]] = {}
    for one in listed:
        if one["state"] in ("empty", "dead"):
            one["members"] = 0
        elif one["type"] in DESCRIBED_TYPES:
            asked.setdefault((one["coordinator"], one["type"]), []).append(one)
    for (number, kind), all_of_them in asked.items():
        for start in range(0, len(all_of_them), ASKED_MAX):
            some = {str(one["group"]): one for one in all_of_them[start : start + ASKED_MAX]}
            for name, count in _member_counts(cluster, number, kind, list(some)):
                some[name]["members"] = count


def _member_counts(
    cluster: Cluster, number: int, kind: str, names: list[str]
) -> Iterable[tuple[str, int]]:
    wire = cluster.node(number)
    told: ConsumerGroupDescribeResponse | ShareGroupDescribeResponse | DescribeGroupsResponse
    if kind == "consumer":
        request = ConsumerGroupDescribeRequest(group_ids=names)
        told = wire.ask(request, ConsumerGroupDescribeResponse)
    elif kind == "share":
        told = wire.ask(ShareGroupDescribeRequest(group_ids=names), ShareGroupDescribeResponse)
    else:
        told = wire.ask(DescribeGroupsRequest(groups=names), DescribeGroupsResponse)
    # A group that went away, or changed its kind, since it was listed has no count.
    return [(one.group_id, len(one.members)) for one in told.groups if not one.error_code]


def describe(cluster: Cluster, name: str) -> Document:
    """A group, its coordinator and its members; `Refusal` if there is no such group."""
    return cluster.patiently(lambda: _describe_once(cluster, name))


def state_of(cluster: Cluster, name: str) -> tuple[str, int]:
    """The state of a group and how many members it has; `dead` where there is no such group."""
    try:
        described = describe(cluster, name)
    except Refusal as refusal:
        if refusal.code != ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        return "dead", 0
    return str(described["state"]), len(described["members"])


def _describe_once(cluster: Cluster, name: str) -> Document:
    coordinator = cluster.coordinator(GROUP, name)
    head = {"group": name, "coordinator": coordinator._asdict()}
    wire = cluster.node(coordinator.id)
    if wire.knows(ApiKey.CONSUMER_GROUP_DESCRIBE):
        new = wire.ask(
            ConsumerGroupDescribeRequest(group_ids=[name]), ConsumerGroupDescribeResponse
        ).groups[0]
        # A classic group is no consumer group to this API.
        if new.error_code != ErrorCode.GROUP_ID_NOT_FOUND:
            check(new.error_code, f"group {name} cannot be described", new.error_message)
            return {
                **head,
                "type": "consumer",
                "state": word_of(new.group_state),
                "assignor": new.assignor_name,
                "epoch": new.group_epoch,
                "members": [
                    {
                        "member": one.member_id,
                        "instance": one.instance_id,
                        "client": one.client_id,
                        "host": one.client_host.removeprefix("/"),
                        "epoch": one.member_epoch,
                        "assignment": _assigned(one.assignment),
                        "target": _assigned(one.target_assignment),
                    }
                    for one in sorted(new.members, key=lambda one: one.member_id)
                ],
            }
    old = wire.ask(DescribeGroupsRequest(groups=[name]), DescribeGroupsResponse).groups[0]
    what = f"group {name} cannot be described"
    check(old.error_code, what, old.error_message)
    if old.group_state == "Dead":  # how brokers before Kafka 4.0 say that there is none
        raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, what)
    return {
        **head,
        "type": "classic",
        "state": word_of(old.group_state),
        "assignor": old.protocol_data,
        "members": [
            {
                "member": one.member_id,
                "instance": one.group_instance_id,
                "client": one.client_id,
                "host": one.client_host.removeprefix("/"),
                "assignment": _decoded(old.protocol_type, one),
            }
            for one in sorted(old.members, key=lambda one: one.member_id)
        ],
    }


def _assigned(assignment: Assignment) -> dict[str, list[int]]:
    return {one.topic_name: sorted(one.partitions) for one in assignment.topic_partitions}


def _decoded(protocol: str, member: DescribedGroupMember) -> dict[str, list[int]] | None:
    """What a classic member was given; None where its assignment is no consumer's."""
    raw = member.member_assignment
    if protocol != "consumer" or len(raw) < 2:
        return {} if protocol == "consumer" else None
    newest = ConsumerProtocolAssignment.VERSIONS[-1]
    version = min(int.from_bytes(raw[:2], "big"), newest)
    try:
        assignment, _ = ConsumerProtocolAssignment.read(raw, version, 2)
    except ProtocolError:
        return None  # members wrote it to each other, and owe nobody a reason
    return {one.topic: sorted(one.partitions) for one in assignment.assigned_partitions}


def assignment_text(assignment: dict[str, list[int]] | None) -> str:
    """An assignment in a cell: `orders:0,1 payments:2`."""
    if not assignment:
        return ""
    return " ".join(
        f"{topic}:{','.join(map(str, partitions))}"
        for topic, partitions in sorted(assignment.items())
    )


def tables(document: Document) -> list[Table]:
    """A group for people: itself in a line, and its members."""
    coordinator = document["coordinator"]
    where = f"{coordinator['id']} ({coordinator['host']}:{coordinator['port']})"
    members = document["members"]
    head = ["group", "type", "state", "assignor", "coordinator", "members"]
    line = [document[key] for key in head[:4]] + [where, len(members)]
    if "epoch" in document:
        head.append("epoch")
        line.append(document["epoch"])
    made = [Table(head, [line])]
    if members:
        made.append(Table(*_member_rows(members)))
    return made


def _member_rows(members: list[Document]) -> tuple[list[str], list[list[object]]]:
    columns = [
        column
        for column in ("member", "instance", "client", "host", "epoch")
        if any(one.get(column) is not None for one in members)
    ]
    # What a member is to have is of interest only while it does not have it.
    moving = any(one.get("target", one["assignment"]) != one["assignment"] for one in members)
    assignments = ["assignment", "target"] if moving else ["assignment"]
    rows = [
        [*(one.get(key) for key in columns), *(assignment_text(one[key]) for key in assignments)]
        for one in members
    ]
    return [*columns, *assignments], rows
