"""AlterPartition requests on their way to the controller, and one that comes once more, late."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pylog.model import BrokerId
from pylog_broker.metadata.messages import AlterPartition
from pylog_broker.metadata.records import PartitionRecord
from tests.sim.net import Deliver, Net

if TYPE_CHECKING:
    from tests.sim.broker_node import BrokerNode
    from tests.sim.nemesis import Nemesis

LEAVES_WITHIN_MS = 4_000
JOINS_WITHIN_MS = 4_000
FENCED_WITHIN_MS = 900
UNFENCED_WITHIN_MS = 4_000


class Alterations:
    """The way of ISR changes to the controller: as of all calls, unless a test holds them back."""

    def __init__(self, net: Net) -> None:
        self._net = net
        self.hold: Callable[[AlterPartition, Deliver], bool] | None = None
        """Whether it takes that request; then it delivers it, as often as it likes."""

    def post(self, request: AlterPartition, source: str, target: str, deliver: Deliver) -> None:
        """Take one request from its leader to the controller."""
        if self.hold is None or not self.hold(request, deliver):
            self._net.call(source, target, deliver)


class OutlivedRefusal:
    """A request is refused for a reason that passes, and a copy of it comes when it has passed.

    A follower that could not reach its leader is about to join the ISR again. The request is held
    until the controller has fenced the follower, is refused, and comes again as soon as the
    follower is live. A fence of a follower that is not in the ISR leaves the partition epoch as it
    is, so the copy still fits, unless the leader has seen to that. Meanwhile the follower hears
    nothing from its leader.
    """

    def __init__(self, nemesis: Nemesis) -> None:
        self._nemesis = nemesis
        self._cluster = nemesis.cluster
        self._rng = nemesis.rng
        self._leader = BrokerId(-1)
        self._is_refused = False
        self._holds_what_follows = False
        self._first: Deliver | None = None
        self._newest: Deliver | None = None
        self._following: list[Deliver] = []

    def strike(self) -> None:
        """Have a follower leave an ISR, or wait for one that is about to join."""
        if self._cluster.alterations.hold is not None:
            return
        self._cluster.alterations.hold = self._take
        self._nemesis.later(LEAVES_WITHIN_MS + JOINS_WITHIN_MS, self._give_up)
        found = [p for p in self._cluster.image.partitions() if p.leader >= 0 and len(p.isr) > 1]
        if found:
            self._cut_off(self._rng.choice(found))

    def _cut_off(self, partition: PartitionRecord) -> None:
        cluster = self._cluster
        follower = self._rng.choice([b for b in partition.isr if b != partition.leader])
        leader, other = cluster.owners[partition.leader], cluster.owners[follower]
        pair = (leader.machine.name, other.machine.name)
        cluster.net.cut(*pair)

        def has_left() -> bool:
            now = cluster.image.partition(partition.topic_id, partition.partition)
            return now is None or follower not in now.isr

        def mend() -> None:
            cluster.net.uncut(*pair)

        self._nemesis.when(has_left, mend, LEAVES_WITHIN_MS, mend)

    def _give_up(self) -> None:
        if self._first is None:
            self._end()

    def _end(self) -> None:
        self._cluster.alterations.hold = None
        for deliver in self._following:
            deliver()

    def _take(self, request: AlterPartition, deliver: Deliver) -> bool:
        if self._first is None:
            follower = None if self._nemesis.stopped else self._joining(request)
            if follower is not None:
                self._leader = request.broker_id
                self._first = self._newest = deliver
                self._fence(follower)
            return follower is not None
        if request.broker_id != self._leader:
            return False
        if self._is_refused and self._holds_what_follows:
            self._following.append(deliver)
            return True
        if not self._is_refused:
            self._newest = deliver  # sent again, since nobody has answered
        return not self._is_refused

    def _joining(self, request: AlterPartition) -> BrokerNode | None:
        cluster = self._cluster
        for wish in request.partitions:
            record = cluster.image.partition(wish.topic_id, wish.partition)
            if record is None or record.partition_epoch != wish.partition_epoch:
                continue
            topic = cluster.image.topics_by_id[wish.topic_id].name
            if len(record.isr) < cluster.min_isr_of(cluster.image, topic):
                continue  # nothing is committed until it has joined
            for state in wish.isr:
                if state.broker_id not in record.isr and state.broker_id != request.broker_id:
                    return cluster.owners.get(state.broker_id)
        return None

    def _fence(self, follower: BrokerNode) -> None:
        cluster, name = self._cluster, follower.machine.name
        cluster.scheduler.note("held", f"{name} is to join an ISR")
        cluster.net.reset_between(name, "ctl")  # while the controller can hear of it
        pairs = ((name, "ctl"), ("ctl", name))
        for pair in pairs:
            cluster.net.cut(*pair)

        def mend() -> None:
            for pair in pairs:
                cluster.net.uncut(*pair)

        def fenced() -> None:
            self._refuse(follower, mend)

        def missed() -> None:
            mend()
            self._newest_comes()
            self._end()

        self._nemesis.when(lambda: self._is_fenced(follower), fenced, FENCED_WITHIN_MS, missed)

    def _is_fenced(self, follower: BrokerNode) -> bool:
        registration = self._cluster.image.brokers.get(follower.broker_id)
        return registration is not None and registration.fenced

    def _newest_comes(self) -> None:
        assert self._newest is not None
        self._newest()

    def _refuse(self, follower: BrokerNode, mend: Callable[[], None]) -> None:
        leader = self._cluster.owners.get(self._leader)
        assert leader is not None
        self._is_refused = True
        self._holds_what_follows = self._rng.random() < 0.3
        pair = (leader.machine.name, follower.machine.name)
        self._cluster.net.cut(*pair)
        self._newest_comes()
        self._nemesis.later(self._rng.randint(50, 800), mend)

        def mend_and_end() -> None:
            self._nemesis.later(self._rng.randint(0, 500), lambda: self._cluster.net.uncut(*pair))
            self._end()

        def live_again() -> None:
            assert self._first is not None
            self._cluster.sometimes["refused ISR change comes again"] += 1
            self._first()
            mend_and_end()

        self._nemesis.when(
            lambda: not self._is_fenced(follower), live_again, UNFENCED_WITHIN_MS, mend_and_end
        )
