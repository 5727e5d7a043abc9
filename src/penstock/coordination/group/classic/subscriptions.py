"""Which topics the members of a group read, where they are consumers and say so."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from penstock.protocol.generated.consumer_protocol import ConsumerProtocolSubscription
from penstock.protocol.primitives import ProtocolError

log = logging.getLogger("penstock.coordination.classic")

_VERSION_BYTES = 2


def topics_of(group_id: str, metadata: Iterable[bytes]) -> frozenset[str] | None:
    """All topics that these subscriptions name, or None if one of them cannot be read.

    Every version of a subscription begins like version 0, whose fields are all that is needed.
    """
    topics: set[str] = set()
    for said in metadata:
        try:
            subscription, _ = ConsumerProtocolSubscription.read(said, 0, _VERSION_BYTES)
        except ProtocolError as problem:
            log.warning("group %r: a subscription cannot be read: %s", group_id, problem)
            return None
        topics.update(subscription.topics)
    return frozenset(topics)
