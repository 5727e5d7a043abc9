"""What a voter must never forget: its epoch, its vote, the leader. The `quorum-state` file."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock.model.ids import NO_NODE, ZERO_UUID, uuid_of, uuid_text

if TYPE_CHECKING:
    from penstock.raft.voters import Voters

FILE_NAME = "quorum-state"


class CorruptElectionState(ValueError):
    """The file says something that no voter writes. Guessing could give one epoch two leaders."""


class ElectionState(NamedTuple):
    epoch: int = 0
    leader: int = NO_NODE
    voted: int = NO_NODE
    voted_directory: bytes = ZERO_UUID


def encode(state: ElectionState, voters: Voters) -> bytes:
    """Kafka's JSON, in its order of fields; the older form while voters are static."""
    import json  # not needed by a process that never opens a quorum

    if voters.kraft_version == 0:
        fields: dict[str, object] = {
            "clusterId": "",
            "leaderId": state.leader,
            "leaderEpoch": state.epoch,
            "votedId": state.voted,
            "appliedOffset": 0,
            "currentVoters": [{"voterId": voter} for voter in voters.ids],
            "data_version": 0,
        }
    else:
        fields = {
            "leaderId": state.leader,
            "leaderEpoch": state.epoch,
            "votedId": state.voted,
            "votedDirectoryId": uuid_text(state.voted_directory),
            "data_version": 1,
        }
    return json.dumps(fields, separators=(",", ":")).encode()


def decode(data: bytes) -> ElectionState:
    """The state in a quorum-state file of either form."""
    import json

    try:
        fields = json.loads(data)
        if fields["data_version"] not in (0, 1):
            raise ValueError(f"data_version {fields['data_version']} is not known")
        directory = fields.get("votedDirectoryId")
        state = ElectionState(
            fields["leaderEpoch"],
            fields["leaderId"],
            fields["votedId"],
            ZERO_UUID if directory is None else uuid_of(directory),
        )
        if not all(isinstance(number, int) for number in state[:3]):
            raise ValueError("an epoch or id is not a number")
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptElectionState(f"{FILE_NAME} cannot be read: {error}") from None
    return state
