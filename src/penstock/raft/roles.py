"""What a member of the quorum is doing, and what moves it on: one table."""

from __future__ import annotations

from enum import Enum


class Role(Enum):
    """What a node is doing in its epoch."""

    UNATTACHED = "knows no leader"
    FOLLOWER = "copies the leader's log"
    PROSPECTIVE = "asks whether it could win, and disturbs nobody by asking"
    CANDIDATE = "asks for votes in a new epoch"
    LEADER = "appends, and decides what is committed"
    RESIGNED = "led this epoch, and must not write in it again"


class Event(Enum):
    """What moves a node from one role to another."""

    SILENCE = "nobody led for too long"
    NEWER_EPOCH = "somebody speaks of a later epoch"
    LEADER_FOUND = "somebody leads this epoch"
    ENCOURAGED = "more than half of the voters would vote for it"
    DISCOURAGED = "half of the voters would not, or did not answer"
    ALONE = "there is no other voter to ask"
    ELECTED = "more than half of the voters granted their vote"
    DEFEATED = "half of the voters did not, or not in time"
    STOP = "the process is ending"
    DESERTED = "more than half of the voters have not fetched for too long"
    REMOVED = "it is committed that others vote, and not this node"
    LEFT_OUT = "nobody led for too long, and it has no vote"


NEXT: dict[tuple[Role, Event], Role] = {
    **{(role, Event.NEWER_EPOCH): Role.UNATTACHED for role in Role},
    **{(role, Event.LEFT_OUT): Role.UNATTACHED for role in Role if role is not Role.LEADER},
    (Role.UNATTACHED, Event.LEADER_FOUND): Role.FOLLOWER,
    (Role.PROSPECTIVE, Event.LEADER_FOUND): Role.FOLLOWER,
    (Role.CANDIDATE, Event.LEADER_FOUND): Role.FOLLOWER,
    (Role.UNATTACHED, Event.SILENCE): Role.PROSPECTIVE,
    (Role.FOLLOWER, Event.SILENCE): Role.PROSPECTIVE,
    (Role.RESIGNED, Event.SILENCE): Role.PROSPECTIVE,
    (Role.PROSPECTIVE, Event.ENCOURAGED): Role.CANDIDATE,
    (Role.PROSPECTIVE, Event.DISCOURAGED): Role.UNATTACHED,
    (Role.UNATTACHED, Event.ALONE): Role.CANDIDATE,
    (Role.RESIGNED, Event.ALONE): Role.CANDIDATE,
    (Role.CANDIDATE, Event.ELECTED): Role.LEADER,
    (Role.CANDIDATE, Event.DEFEATED): Role.PROSPECTIVE,
    (Role.LEADER, Event.STOP): Role.RESIGNED,
    (Role.LEADER, Event.DESERTED): Role.RESIGNED,
    (Role.LEADER, Event.REMOVED): Role.RESIGNED,
}
