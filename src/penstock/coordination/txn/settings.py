"""What the node's configuration says to the transaction coordinator."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from penstock.model.config.node import NodeConfig


class TxnSettings(NamedTuple):
    """Bounds and intervals of one node."""

    timeout_max_ms: int
    """The longest time that a producer may ask for."""
    timeout_check_ms: int
    expiration_ms: int
    """How long an id that nobody uses is remembered."""
    expiration_check_ms: int

    @classmethod
    def of(cls, config: NodeConfig) -> TxnSettings:
        """As the node's configuration says."""
        number = config.get_int
        return cls(
            timeout_max_ms=number("transaction.max.timeout.ms"),
            timeout_check_ms=number("transaction.abort.timed.out.transaction.cleanup.interval.ms"),
            expiration_ms=number("transactional.id.expiration.ms"),
            expiration_check_ms=number(
                "transaction.remove.expired.transaction.cleanup.interval.ms"
            ),
        )
