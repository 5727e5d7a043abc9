"""Elections that nobody's coming or going calls for.

An operator asks for them (ElectLeaders), leadership has drifted away from the preferred replicas,
or a topic has come to allow a leader that lags.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock.controller.decision import Context, Decision, Refusal
from penstock.controller.elections import Election, settle
from penstock.controller.leaders import rules_for, unclean_allowed
from penstock.controller.partition_changes import PartitionChanges
from penstock.model.errors import ErrorCode
from penstock.model.ids import NO_NODE
from penstock.protocol.generated.elect_leaders import (
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

if TYPE_CHECKING:
    from penstock.protocol.generated.elect_leaders import ElectLeadersRequest

ELECTIONS_MAX = 1000
"""At one go, when nobody waits for them: other decisions come in between."""

_KINDS = {0: Election.PREFERRED, 1: Election.UNCLEAN}
_DONE = Refusal(ErrorCode.NONE)
_NOT_NEEDED = Refusal(ErrorCode.ELECTION_NOT_NEEDED, ErrorCode.ELECTION_NOT_NEEDED.message)


class Round(NamedTuple):
    """What one go at the elections came to."""

    elected: int
    unfinished: bool
    """Whether there may be more to do right away."""


def elect_leaders(context: Context, request: ElectLeadersRequest) -> Decision:
    """ElectLeaders: the preferred replica, or anybody alive where there is no leader at all."""
    election = _KINDS.get(request.election_type)
    if election is None:
        return Decision([], ElectLeadersResponse(error_code=ErrorCode.INVALID_REQUEST))
    changes = PartitionChanges(context)
    all_of_them = request.topic_partitions is None
    asked = (
        [(topic.name, sorted(topic.partitions)) for topic in context.image.topics.by_id.values()]
        if request.topic_partitions is None
        else [(wanted.topic, wanted.partitions) for wanted in request.topic_partitions]
    )
    results = []
    for name, indexes in asked:
        outcomes = [(index, _elected(context, changes, name, index, election)) for index in indexes]
        told = [
            PartitionResult(
                partition_id=index, error_code=outcome.error, error_message=outcome.message
            )
            for index, outcome in outcomes
            # Who asks about all partitions wants to hear of those that something became of.
            if not (all_of_them and outcome is _NOT_NEEDED)
        ]
        if told or not all_of_them:
            results.append(ReplicaElectionResult(topic=name, partition_result=told))
    response = ElectLeadersResponse(replica_election_results=results)
    return Decision(changes.records, response, atomic=False)


def _elected(
    context: Context, changes: PartitionChanges, name: str, index: int, election: Election
) -> Refusal:
    topic = changes.topic(name)
    old = None if topic is None else changes.partition(topic, index)
    if topic is None or old is None:
        message = f"There is no partition {index} of topic '{name}'."
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
    preferred = election is Election.PREFERRED
    if old.leader == old.replicas[0] if preferred else old.leader != NO_NODE:
        return _NOT_NEEDED
    new = settle(old, old.isr, rules_for(context, name, old, election))
    if preferred and new.leader != new.replicas[0]:
        return Refusal(
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
            f"Broker {old.replicas[0]} is not up, or not in sync.",
        )
    if new.leader == NO_NODE:
        return Refusal(
            ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
            f"None of the brokers {list(old.replicas)} is up.",
        )
    changes.change(topic, index, old, new)
    return _DONE


def balance(context: Context) -> Decision | None:
    """Give leadership back to preferred replicas that are in sync again."""
    changes = PartitionChanges(context)
    for topic in context.image.topics.by_id.values():
        for index, old in topic.partitions.items():
            first = old.replicas[0]
            if old.leader == first or first not in (old.isr or old.elr):
                continue
            new = settle(old, old.isr, rules_for(context, topic.name, old, Election.PREFERRED))
            if new.leader == first:
                changes.change(topic, index, old, new)
            if len(changes.records) >= ELECTIONS_MAX:
                return Decision(changes.records, Round(ELECTIONS_MAX, True), atomic=False)
    return _round(changes)


def elect_unclean(context: Context) -> Decision | None:
    """Let replicas that lag lead where nobody else can, and the topic allows it."""
    changes = PartitionChanges(context)
    for topic in context.image.topics.by_id.values():
        leaderless = [i for i, p in topic.partitions.items() if p.leader == NO_NODE]
        if not leaderless or not unclean_allowed(context, topic.name):
            continue
        for index in leaderless:
            _elected(context, changes, topic.name, index, Election.UNCLEAN)
            if len(changes.records) >= ELECTIONS_MAX:
                return Decision(changes.records, Round(ELECTIONS_MAX, True), atomic=False)
    return _round(changes)


def _round(changes: PartitionChanges) -> Decision | None:
    count = len(changes.records)
    return Decision(changes.records, Round(count, False), atomic=False) if count else None
