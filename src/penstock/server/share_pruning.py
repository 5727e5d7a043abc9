"""Cuts off what nobody needs any more of `__share_group_state`."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from penstock.server.internal_topics import SHARES_TOPIC

if TYPE_CHECKING:
    from penstock.coordination.share.shard import Prune
    from penstock.server.broker import Broker

log = logging.getLogger("penstock.server")


class SharePruning:
    """Carries out the errands of a broker's share shards."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def run(self, index: int, errand: Prune) -> None:
        """Move the log's beginning, as DeleteRecords would; followers hear of it as they fetch."""
        partition = self._broker.hosted.get((SHARES_TOPIC, index))
        if partition is None or not partition.leading:
            return  # whoever leads now prunes in its own time
        offset = min(errand.offset, partition.high_watermark)
        if offset > partition.log.start:
            log.debug("%s begins at %d now", partition, offset)
            partition.delete_to(offset)
