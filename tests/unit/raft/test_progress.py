"""What a leader knows of those who copy its log."""

from __future__ import annotations

from penstock.model.ids import Millis
from penstock.raft.messages import Replica
from penstock.raft.progress import Progress
from penstock.raft.voters import Voter, Voters, static_voters

DISKS = {number: bytes([number]) * 16 for number in (1, 2, 3)}


def test_a_static_voter_that_becomes_known_by_its_disk_is_no_observer_besides() -> None:
    progress = Progress(1, static_voters(map(Voter, DISKS)), Millis(0))
    for number, disk in DISKS.items():
        progress.fetched(Replica(number, disk), 5, 5, Millis(10))
    named = {number: Voter(number, disk) for number, disk in DISKS.items()}
    progress.set_voters(Voters(named, 1), Millis(20))
    told = progress.report(Millis(30), 1_000)
    assert [(each.replica, each.is_voter) for each in told] == [
        (Replica(number, disk), True) for number, disk in DISKS.items()
    ]
