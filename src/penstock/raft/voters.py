"""Who votes in the quorum: named in every node's configuration, or in the log itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock.metadata.cluster import Endpoint
from penstock.metadata.levels import KRAFT_VERSION, SUPPORTED, LevelRange
from penstock.model.config.endpoints import voter_of
from penstock.model.ids import ZERO_UUID, uuid_of
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
    kraft_versions: LevelRange = SUPPORTED[KRAFT_VERSION]
    """What it can work with; those who are configured are taken at this release's word."""

    def is_like(self, other: Voter) -> bool:
        """Whether both say the same of one voter: a leader of another make may have turned its
        addresses round."""
        same = (self.id, self.directory, self.kraft_versions) == (
            other.id,
            other.directory,
            other.kraft_versions,
        )
        return same and self._addresses == other._addresses

    @property
    def _addresses(self) -> set[tuple[str, str, int]]:
        return {(each.name.upper(), each.host, each.port) for each in self.endpoints}


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

    def with_voter(self, voter: Voter) -> Voters:
        """These and one more, or one of them as it is now."""
        return self._replace(by_id=dict(sorted({**self.by_id, voter.id: voter}.items())))

    def without(self, voter: int) -> Voters:
        """These but one."""
        return self._replace(by_id={key: each for key, each in self.by_id.items() if key != voter})


def static_voters(voters: Iterable[Voter]) -> Voters:
    """Voters as configured (controller.quorum.voters)."""
    return Voters({voter.id: voter for voter in voters}, 0)


def first_voters(text: str, listener: str) -> Voters:
    """The first voters of a dynamic quorum, written ID@HOST:PORT:DIRECTORY,...

    ValueError says what is wrong with the text.
    """
    found: dict[int, Voter] = {}
    for each in text.split(","):
        address, _, directory = each.strip().rpartition(":")
        named = voter_of(address)
        if named is None or named.node_id < 0:
            raise ValueError(f"{each.strip()!r} is not ID@HOST:PORT:DIRECTORY")
        if named.node_id in found:
            raise ValueError(f"node {named.node_id} is named twice")
        try:
            uuid = uuid_of(directory)
        except ValueError:
            raise ValueError(f"{directory!r} is not the id of a directory") from None
        endpoint = Endpoint(listener, named.host, named.port, 0)
        found[named.node_id] = Voter(named.node_id, uuid, (endpoint,))
    return Voters(dict(sorted(found.items())), DYNAMIC_FROM)


def voters_of(record: made.VotersRecord, kraft_version: int) -> Voters:
    """Voters as the log has them."""
    return Voters(
        {
            v.voter_id: Voter(
                v.voter_id,
                v.voter_directory_id,
                # The quorum does not store how a listener is secured: each node's file does.
                tuple(Endpoint(e.name, e.host, e.port, 0) for e in v.endpoints),
                LevelRange(
                    v.kraft_version_feature.min_supported_version,
                    v.kraft_version_feature.max_supported_version,
                ),
            )
            for v in record.voters
        },
        kraft_version,
    )


def voters_record(voters: Voters) -> made.VotersRecord:
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
                    min_supported_version=voter.kraft_versions.first,
                    max_supported_version=voter.kraft_versions.last,
                ),
            )
            for voter in voters.by_id.values()
        ],
    )
