"""What a request's topics, groups and ids are to who asks: each is looked at once.

To be refused is to be told; to be shown less of a list is not. So there are two kinds of questions
here: `refused_topics` for what the request names itself, and `shown` for what an answer would name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.model.operations import Operation
from penstock.model.resources import ResourceType
from penstock.server import audit
from penstock.server.rights import may, may_topic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.server.broker import Broker
    from penstock.server.call import Call

NO_TOPICS: frozenset[str] = frozenset()

TOLD_MAX = 100
"""Of the topics that one request is refused, so many are told to the audit log."""


def refused_topics(
    broker: Broker, call: Call, operation: Operation, names: Iterable[str]
) -> frozenset[str]:
    """The topics to which who called may not do `operation`: none on an open node."""
    if broker.authorizer is None:
        return NO_TOPICS
    asked = dict.fromkeys(names)
    refused = [name for name in asked if not may_topic(broker, call, operation, name, tells=False)]
    for name in refused[:TOLD_MAX]:
        audit.denied(call, operation, ResourceType.TOPIC, name)
    return frozenset(refused)


def shown(broker: Broker, call: Call, kind: ResourceType, name: str) -> bool:
    """Whether an answer may name something that its request did not."""
    return may(broker, call, Operation.DESCRIBE, kind, name, tells=False)


def shows_topic(broker: Broker, call: Call, name: str) -> bool:
    return shown(broker, call, ResourceType.TOPIC, name)


def sight(broker: Broker, call: Call) -> Callable[[str], bool] | None:
    """Which topics who called may know of, for those who decide later; None: all."""
    authorizer = broker.authorizer
    if authorizer is None:
        return None
    who, host, kind = call.principal, call.host, ResourceType.TOPIC  # the call may be over by then
    return lambda topic: authorizer.allows(who, host, Operation.DESCRIBE, kind, topic)
