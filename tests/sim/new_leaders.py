"""Leaders that die when somebody was just told where their log ends, and what their successors say.

A high watermark moves when followers fetch, and they hear of that with what they fetch next. So one
that leads next may know less than its predecessor told, until its own followers have fetched.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pylog import errors
from pylog.model import LATEST_TIMESTAMP, BrokerId, TopicPartition
from pylog_broker.metadata.records import PartitionRecord
from pylog_broker.replication.offset_messages import OffsetAnswer, OffsetQuery

if TYPE_CHECKING:
    from tests.sim.broker_node import BrokerNode
    from tests.sim.nemesis import Nemesis

FETCHES_MS_MAX = 40
APART_MS = (400, 2_000)
LEADS_WITHIN_MS = 3_000
AGAIN_MS = 3


class ToldEnd:
    """A leader tells the latest offset and dies, before its followers have heard of it.

    They do not hear each other either for a while, and the next leader is asked until it
    answers.
    """

    def __init__(self, nemesis: Nemesis) -> None:
        self._nemesis = nemesis
        self._cluster = nemesis.cluster
        self._rng = nemesis.rng
        self._partition: PartitionRecord
        self._leader: BrokerNode
        self._left = 0

    def strike(self) -> None:
        """Have the followers of a leader hear no more of it; what they have asked still comes."""
        led = [p for p in self._cluster.image.partitions() if p.leader >= 0 and len(p.isr) > 1]
        if not led:
            return
        self._partition = self._rng.choice(led)
        self._leader = self._cluster.owners[self._partition.leader]
        name, others = self._leader.machine.name, self._others()
        mend = self._cut([(name, other) for other in others])
        process = self._leader.process

        def die() -> None:
            mend()
            if self._leader.process is process:
                self._leader.kill(self._nemesis.away_ms())
            self._part()

        def told(answer: OffsetAnswer) -> None:
            self._nemesis.later(1, die if answer.failure is None else mend)

        def ask() -> None:
            if not self._ask(self._partition.leader, told):
                mend()

        self._nemesis.later(self._rng.randint(1, FETCHES_MS_MAX), ask)

    def _others(self) -> list[str]:
        nodes = self._cluster.brokers.values()
        return [node.machine.name for node in nodes if node is not self._leader]

    def _cut(self, pairs: list[tuple[str, str]]) -> Callable[[], None]:
        net = self._cluster.net
        for pair in pairs:
            net.cut(*pair)

        def mend() -> None:
            for pair in pairs:
                net.uncut(*pair)

        return mend

    def _ask(self, broker: BrokerId, heard: Callable[[OffsetAnswer], None]) -> bool:
        """A client on that broker's own machine asks; whether there is anybody to ask."""
        process = self._cluster.process(broker)
        topic = self._cluster.image.topics_by_id.get(self._partition.topic_id)
        if process is None or process.core is None or process.is_closing or topic is None:
            return False
        name = TopicPartition(topic.name, self._partition.partition)
        query = OffsetQuery(name, LATEST_TIMESTAMP)

        def answer(answers: object) -> None:
            assert isinstance(answers, tuple)
            heard(answers[0])

        process.hear(process.clients.serve_list_offsets, (query,), answer)
        return True

    def _part(self) -> None:
        others = self._others()
        mend = self._cut([(one, other) for one in others for other in others if one != other])
        self._nemesis.later(self._rng.randint(*APART_MS), mend)
        self._left = LEADS_WITHIN_MS // AGAIN_MS
        self._ask_the_next()

    def _ask_the_next(self) -> None:
        """Until it answers. An offset below the one that was told is seen where it is given."""
        self._left -= 1
        again = self._ask_the_next

        def told(answer: OffsetAnswer) -> None:
            if answer.failure is not None:
                if answer.failure.code == errors.OffsetNotAvailable.code:
                    self._cluster.sometimes["new leader does not know the end yet"] += 1
                self._nemesis.later(AGAIN_MS, again)

        if self._nemesis.stopped or not self._left:
            return
        partition = self._partition
        now = self._cluster.image.partition(partition.topic_id, partition.partition)
        is_next = now is not None and now.leader_epoch > partition.leader_epoch
        if now is None or not is_next or not self._ask(now.leader, told):
            self._nemesis.later(AGAIN_MS, again)
