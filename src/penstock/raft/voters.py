"""Who votes in the quorum: named in every node's configuration, or in the log itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock.metadata.cluster import Endpoint
from penstock.metadata.levels import KRAFT_VERSION, SUPPORTED
from penstock.model.ids import ZERO_UUID
from penstock.protocol.generated import control_records as made

if TYPE_CHECKING:
    from collections.abc import Iterable

DYNAMIC_FROM = 1
"""The kraft.version from which the log, and not the configuration, says who votes."""


class Voter(NamedTuple):
    id: int
    directory: bytes = ZERO_UUID
    """Tells a voter that lost its disk from the one that voted before; unknown if static."""
    endpoints: tuple[Endpoint, ...] = ()


class Voters(NamedTuple):
    """The voters, and the version of the quorum's own protocol."""

    by_id: dict[int, Voter]
    kraft_version: int = 0

    @property
    def ids(self) -> list[int]:
        return sorted(self.by_id)

    @property
    def majority(self) -> int:
        return len(self.by_id) // 2 + 1


def static_voters(voters: Iterable[Voter]) -> Voters:
    """Voters as configured (controller.quorum.voters)."""
    return Voters({voter.id: voter for voter in voters}, 0)


def voters_of(record: made.VotersRecord, kraft_version: int) -> Voters:
    """Voters as the log has them."""
    return Voters(
        {
            v.voter_id: Voter(
                v.voter_id,
                v.voter_directory_id,
                # The quorum does not store how a listener is secured: each node's file does.
                tuple(Endpoint(e.name, e.host, e.port, 0) for e in v.endpoints),
            )
            for v in record.voters
        },
        kraft_version,
    )


def voters_record(voters: Voters) -> made.VotersRecord:
    span = SUPPORTED[KRAFT_VERSION]
    return made.VotersRecord(
        version=0,
        voters=[
            made.VotersRecordVoter(
                voter_id=voter.id,
                voter_directory_id=voter.directory,
                endpoints=[
                    made.Endpoint(name=e.name, host=e.host, port=e.port) for e in voter.endpoints
                ],
                kraft_version_feature=made.KRaftVersionFeature(
                    min_supported_version=span.first, max_supported_version=span.last
                ),
            )
            for voter in voters.by_id.values()
        ],
    )
