"""Clients of one partition that the product does not have: they find its leader by themselves.

A wanderer asks whatever may be asked of a leader, of any place and epoch.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from pylog import errors
from pylog.model import BrokerId, LeaderEpoch, Offset, TopicId, TopicPartition
from pylog.records.batch import iter_headers
from pylog_broker.replication.fetch_messages import Fetch, PartitionData, PartitionFetch
from pylog_broker.replication.offset_messages import OffsetQuery
from pylog_broker.replication.replica_fetch_messages import EpochEndQuery, ReplicaEpochQuery
from tests.sim.client_service import Fetched
from tests.sim.ghost import PartitionGhost
from tests.sim.rpc import Actor, Machine, Rpc, unary
from tests.sim.violation import Violation

if TYPE_CHECKING:
    from tests.sim.cluster import Cluster

ASK_MS = 1_000
TIMES = (-3, -2, -1)


class Client(Actor):
    """The parts that producers and readers share: they find the leader and keep a connection to
    it."""

    def __init__(
        self, cluster: Cluster, name: str, topic_id: TopicId, topic_partition: TopicPartition
    ) -> None:
        super().__init__(Machine(name, cluster.scheduler, 0))
        self.cluster = cluster
        self.topic_id = topic_id
        self.topic_partition = topic_partition
        self.rng: random.Random = cluster.scheduler.rng(name)
        self.rpc: Rpc | None = None
        self.looking = False

    @property
    def ghost(self) -> PartitionGhost:
        """The ghost state of the client's partition."""
        return self.cluster.shadows.ghost(self.topic_id, self.topic_partition.partition)

    def retire(self) -> None:
        """The topic is gone: ask for nothing any more."""
        self.disconnect()
        self.alive = False

    def find_leader(self) -> None:
        """Ask any broker who leads, until one answers that can be reached."""
        if self.looking:
            return
        self.looking = True
        self._ask()

    def _ask(self) -> None:
        number = self.rng.choice(sorted(self.cluster.brokers))
        unary(
            self.cluster.net,
            self,
            lambda: self.cluster.brokers[number].process,
            lambda process, value, answer: answer(process.clients.leader_of(value)),
            self.topic_partition,
            self._told_leader,
            200 + self.rng.random() * 200,
        )

    def _told_leader(self, leader: BrokerId | None) -> None:
        process = self.cluster.process(leader) if leader is not None and leader >= 0 else None
        if process is None:
            self.timer(20 + self.rng.random() * 80, self._ask)
            return
        self.looking = False
        if self.rpc is not None and self.rpc.open and self.rpc.server is process:
            self.connected()
            return
        self.disconnect()
        self.rpc = Rpc(self.cluster.net, self, process)
        self.connected()

    def disconnect(self) -> None:
        """Give the connection up; what was asked on it has an unknown outcome."""
        rpc, self.rpc = self.rpc, None
        if rpc is not None and rpc.open:
            rpc.close()

    def start(self) -> None:
        """Begin."""
        raise NotImplementedError

    def connected(self) -> None:
        """There is a connection to the broker that is said to lead."""
        raise NotImplementedError


class WandererClient(Client):
    """Reads here and there, also where records are deleted already; asks for offsets by time, and
    where epochs end. The records that it is given must be committed.
    """

    def __init__(
        self, cluster: Cluster, name: str, topic_id: TopicId, topic_partition: TopicPartition
    ) -> None:
        super().__init__(cluster, name, topic_id, topic_partition)
        self.position = 0
        self.waiting = False

    def start(self) -> None:
        """Begin to wander."""
        self.find_leader()

    def connected(self) -> None:
        self._poll()

    def _poll(self) -> None:
        rpc = self.rpc
        if rpc is None or not rpc.open:
            self.find_leader()
            return
        if self.waiting:
            return
        self.waiting = True
        swarm = self.cluster.swarm
        wanted = PartitionFetch(
            self.topic_partition,
            self.topic_id,
            Offset(self.position),
            swarm.fetch_max_bytes,
            self._known_epoch(),
            self._epoch_before(),
        )
        rpc.request(
            self.cluster.server(rpc).clients.serve_fetch,
            Fetch(swarm.fetch_wait_ms, 1, swarm.fetch_max_bytes, (wanted,)),
            self._fetched,
            swarm.fetch_wait_ms + 1_000,
        )

    def _known_epoch(self) -> LeaderEpoch:
        """The epoch of the leader, as far as it is known; -1 when the client does not say it."""
        record = self.ghost.record
        named = record is not None and self.rng.random() < 0.5
        return record.leader_epoch if record is not None and named else LeaderEpoch(-1)

    def _epoch_before(self) -> LeaderEpoch:
        """The epoch of the record before the position, where that is committed; -1 when the client
        does not say it.
        """
        before = self.ghost.committed_before(self.position)
        named = before is not None and self.rng.random() < 0.5
        return LeaderEpoch(before.epoch) if before is not None and named else LeaderEpoch(-1)

    def _fetched(self, done: Fetched | None) -> None:
        self.waiting = False
        data = None if done is None else done.partitions[0]
        if data is None or data.failure is not None or data.diverging is not None:
            code = None if data is None or data.failure is None else data.failure.code
            if code == errors.OffsetOutOfRange.code and data is not None:
                self._out_of_range(data)
            self.cluster.scheduler.note("read fails", self.name, code)
            self.disconnect()
            self.timer(50 + self.rng.random() * 100, self.find_leader)
            return
        if data.log_start_offset > self.position:
            raise Violation(
                "C", f"{self.name} at {self.position} is served from {data.log_start_offset} on"
            )
        for position, header in iter_headers(data.records):
            if header.last_offset < self.position:
                continue
            raw = bytes(data.records[position : position + header.size])
            batch, _ = self.ghost.identify(header, raw)
            lossy = self.ghost.is_lossy
            if self.ghost.committed_at(header.base_offset) != batch and not lossy:
                raise Violation("I6", f"{self.name} reads {header}, which is not committed")
            self.position = header.last_offset + 1
            self.cluster.sometimes["read"] += 1
        self.timer(1 + self.rng.random() * 20, self._wander)

    def _wander(self) -> None:
        self.position = self.rng.randint(0, self.ghost.committed_end)
        self.timer(self.rng.random() * 500, self._poll)
        self._ask_for_an_offset()
        self._ask_for_an_end()

    def _out_of_range(self, data: PartitionData) -> None:
        """Only what is deleted, or not there yet at a new leader, is out of range."""
        self.cluster.sometimes["reader out of range"] += 1
        start = data.log_start_offset
        if start <= self.position <= data.high_watermark:
            raise Violation(
                "C",
                f"{self.name} at {self.position} is out of range of "
                f"[{start}, {data.high_watermark}]",
            )
        if start > self.position:
            self.position = start

    def _ask_for_an_offset(self) -> None:
        asked = self.rng.choice((*TIMES, self.cluster.wall_ms() - self.rng.randint(0, 8_000)))
        query = OffsetQuery(self.topic_partition, asked, self._known_epoch())
        self._ask_leader("serve_list_offsets", (query,))

    def _ask_for_an_end(self) -> None:
        newest = self.ghost.newest_epoch
        query = ReplicaEpochQuery(
            self.topic_id,
            self.topic_partition.partition,
            self._known_epoch(),
            LeaderEpoch(self.rng.randint(0, max(newest, 0))),
        )
        self._ask_leader("serve_epoch_ends", EpochEndQuery(BrokerId(-1), (query,)))

    def _ask_leader(self, handler: str, value: object) -> None:
        """The answer is checked where it is given."""
        rpc = self.rpc
        if rpc is None:
            return
        process = self.cluster.server(rpc)

        def serve(actor: Any, value: object, answer: Any) -> None:
            getattr(actor.clients, handler)(value, answer)

        unary(self.cluster.net, self, lambda: process, serve, value, lambda _answer: None, ASK_MS)
