"""A share group in the cluster: its members, its dead letters, and what must be so in the end."""

from __future__ import annotations

from penstock.model import dead_letters
from penstock.records.batch import CONTROL
from penstock.records.record import iterate
from penstock.replica.partition import Partition
from penstock.testing.history import Place
from penstock.testing.sim.clients.share import Sharer
from penstock.testing.sim.clients.share_ledger import Ledger
from penstock.testing.sim.cluster import Cluster

GROUP = "share-0"
MEMBERS = 2
COUNT_MAX = 10
SECONDS_MAX = 30.0
LETTERS = Place("dlq.share-0", 0)


class Sharing:
    """Groups differ: some have a dead-letter topic, some let records wait that come back."""

    def __init__(self, cluster: Cluster, place: Place, seed: int) -> None:
        self.ledger = Ledger(COUNT_MAX)
        self._cluster = cluster
        self._place = place
        self._members: list[Sharer] = []
        self._buries = seed % 4 == 1
        self._configs = {"share.auto.offset.reset": "earliest"}
        if self._buries:
            self._configs["errors.deadletterqueue.topic.name"] = LETTERS.topic
        if seed % 4 in (1, 2):
            self._configs["penstock.share.retry.backoff.ms"] = "150"

    async def prepare(self) -> None:
        """As whoever sets up the group would do."""
        cluster = self._cluster
        if self._buries:
            topic = cluster.create_topic(
                LETTERS.topic, 1, errors_deadletterqueue_group_enable="true"
            )
            await cluster.client("admin-letters", topic).tasks[0]
        await cluster.client("admin-group", cluster.configure_group(GROUP, self._configs)).tasks[0]

    def start(self) -> None:
        for number in range(MEMBERS):
            name = f"sharer-{number}"
            talk = self._cluster.talk(name)
            member = Sharer(talk, GROUP, self._place, self.ledger, self._epoch_at)
            self._members.append(member)
            self._cluster.client(name, member.run())

    async def finish(self) -> None:
        """Nobody writes any more: in the end the group is done with all that is there, and what
        was rejected is in the dead-letter topic."""
        cluster = self._cluster
        await cluster.until(
            lambda: self._led(self._place) is not None, SECONDS_MAX, "the shared partition is led"
        )
        offsets = self._offsets()
        for member in self._members:
            member.calm = True
        await cluster.until(
            lambda: not self.ledger.missing(offsets),
            SECONDS_MAX,
            f"the group is done with {len(offsets)} records",
        )
        if self._buries:
            await cluster.until(
                lambda: not self.ledger.rejected - self._buried(),
                SECONDS_MAX,
                f"there are letters of all {len(self.ledger.rejected)} rejected records",
            )
        cluster.tell(
            f"the group is done with {len(offsets)} records, "
            f"of which {len(self.ledger.rejected)} were rejected"
        )
        for member in self._members:
            member.stopping = True

    # -- looking into the nodes -------------------------------------------------------------------

    def _epoch_at(self, node_id: int) -> int:
        """Which epoch of the shared partition a node believes in; -1 if it is down."""
        partition = self._hosted(node_id, self._place)
        return -1 if partition is None else partition.leader_epoch

    def _hosted(self, node_id: int, place: Place) -> Partition | None:
        machine = self._cluster.machines[node_id]
        if machine.node is None or not machine.started:
            return None
        return machine.node.broker.hosted.get((place.topic, place.partition))

    def _led(self, place: Place) -> Partition | None:
        """A partition at its leader; None while the lead goes from one to another."""
        hosted = [self._hosted(machine.node_id, place) for machine in self._cluster.brokers]
        return next((each for each in hosted if each is not None and each.leading), None)

    def _offsets(self) -> list[int]:
        """All records that are there."""
        partition = self._led(self._place)
        assert partition is not None
        return [
            offset
            for head, _ in partition.log.batches(0, partition.high_watermark)
            if not head.attributes & CONTROL
            for offset in range(head.base_offset, head.base_offset + head.last_offset_delta + 1)
        ]

    def _buried(self) -> set[int]:
        """The offsets of the records of which there are letters."""
        partition = self._led(LETTERS)
        if partition is None:
            return set()  # for now
        return {
            int(value or b"-1")
            for head, data in partition.log.batches(0, partition.high_watermark)
            for record in iterate(bytes(data), head=head)
            for name, value in record.headers
            if name == dead_letters.OFFSET
        }
