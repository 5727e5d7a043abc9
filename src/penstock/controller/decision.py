"""What a decision is made from, and what it is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from penstock.model.errors import ErrorCode
from penstock.model.ids import Millis
from penstock.security.principal import ANONYMOUS, Principal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.controller.config_rules import ConfigRules
    from penstock.controller.sessions import Sessions
    from penstock.controller.topic_names import TopicNames
    from penstock.metadata.image import MetadataImage
    from penstock.metadata.levels import LevelRange
    from penstock.platform.chance import Chance

THE_EPOCH = Millis(0)

RECORDS_MAX = 25_000
"""Records that one change may consist of: it is one batch, which is read and applied whole."""

CONFIG_BYTES_MAX = 3 << 20
"""Of names and values that one change may set: it shares the batch with all the other records."""

PARTITIONS_MAX = 10_000
"""Partitions that one topic may get in one change."""


class Refusal(NamedTuple):
    """Why something is not done, in Kafka's terms."""

    error: ErrorCode
    message: str | None = None


TOO_MUCH_CONFIG = Refusal(
    ErrorCode.POLICY_VIOLATION,
    f"One request may make at most {RECORDS_MAX} changes, with at most {CONFIG_BYTES_MAX} bytes "
    "of configuration in them.",
)

_TOO_FAST = "The quota of changes (controller_mutation_rate) is used up: wait, and try again."


class ConfigRoom:
    """The bytes of configuration that a change has still room for."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = CONFIG_BYTES_MAX

    def take(self, resource: str, settings: Mapping[str, str | None]) -> bool:
        """Whether these settings of a resource fit too; if so, they take up their room."""
        each = len(resource.encode())
        size = sum(
            each + len(key.encode()) + len((value or "").encode())
            for key, value in settings.items()
        )
        return self.take_bytes(size)

    def take_bytes(self, size: int) -> bool:
        """The same for what has a size of another kind."""
        if size > self._left:
            return False
        self._left -= size
        return True


class Decision(NamedTuple):
    """Records to commit and, once they are, the reply to give."""

    records: Sequence[Any]
    response: Any
    atomic: bool = True
    """All or nothing. A change that is not may be committed in pieces, in order."""


class TokenSettings(NamedTuple):
    """What the operator chose about delegation tokens."""

    secret: str
    lifetime_ms_max: int = 604_800_000
    """After which a token cannot be renewed."""
    renewal_ms: int = 86_400_000
    """For how long a token is good, unless it is renewed."""
    sweep_seconds: float = 3_600
    """How often tokens that are no longer good are taken away."""

    def __repr__(self) -> str:  # whoever reads the key can make every token
        return f"TokenSettings(lifetime_ms_max={self.lifetime_ms_max})"


class Settings(NamedTuple):
    """What the operator chose, as far as the controller cares."""

    cluster_id: str
    node_id: int
    partitions_default: int = 1
    replication_default: int = 1
    session_timeout_ms: int = 9_000
    heartbeat_ms: int = 2_000
    """How often brokers say that they are there."""
    delete_topics: bool = True
    isr_min_default: int = 1
    balance_seconds: float | None = 300
    """How often leadership goes back to preferred replicas; None if it does not by itself."""
    unclean_seconds: float = 300
    """How often partitions without a leader are looked at, in topics that allow one that lags."""
    quorum: tuple[int, ...] = ()
    """Ids of the voters; each must support a feature level before it is finalized."""
    tokens: TokenSettings | None = None
    """None if there are no delegation tokens."""


class Leave(Protocol):
    """How much metadata a client may still change."""

    def take(self, count: int) -> ErrorCode:
        """Use it up, for so many partitions that come or go; an error if they may not."""


class Context(NamedTuple):
    """Everything that a decision may look at. Nothing in it changes while one is made."""

    image: MetadataImage
    """The latest state, not yet committed changes included."""
    settings: Settings
    supported: Mapping[str, LevelRange]
    """Feature levels that this controller's software understands."""
    rules: ConfigRules
    names: TopicNames
    sessions: Sessions
    now: Millis
    """Monotonic milliseconds."""
    chance: Chance
    next_offset: int
    """Where the first record of this decision will stand in the metadata log."""
    version: int
    """Of the request: a few answers depend on it."""
    wall: Millis = THE_EPOCH
    """Wall-clock milliseconds, for what people read."""
    principal: Principal = ANONYMOUS
    """Who asks."""
    leave: Leave | None = None
    """How much they may change; None for as much as they want."""

    def too_fast(self, partitions: int) -> Refusal | None:
        """Why these partitions may not come or go now; if they may, that is used up."""
        error = ErrorCode.NONE if self.leave is None else self.leave.take(partitions)
        return None if error is ErrorCode.NONE else Refusal(error, _TOO_FAST)

    def speaks_for(self, broker: int, epoch: int) -> bool:
        """Whether this is the process that last registered as the broker. If not, Kafka's answer
        is STALE_BROKER_EPOCH, even if nobody is registered at all: register first."""
        registered = self.image.cluster.brokers.get(broker)
        return registered is not None and registered.epoch == epoch
