"""One shard of the group coordinator over a log in memory: everything is committed at once, or when
the test says so. Time is virtual, records pass through their bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from typing import Any

from pylog.model import LeaderEpoch, Offset
from pylog_broker.coordinator.expiry import BY_WALL_CLOCK
from pylog_broker.coordinator.groups.codec import GroupCodec
from pylog_broker.coordinator.groups.config import GroupConfig
from pylog_broker.coordinator.groups.consumer.topics import SubscribedTopic
from pylog_broker.coordinator.groups.coordinator import GroupCoordinator
from pylog_broker.coordinator.groups.group import GroupType
from pylog_broker.coordinator.runtime.decision import (
    Decision,
    Producer,
    Record,
    Reply,
    RequestId,
    TransactionEnd,
)
from pylog_broker.coordinator.runtime.runtime import (
    CoordinatorRuntime,
    Defect,
    RuntimeEffect,
    ShardLoaded,
)
from pylog_broker.coordinator.runtime.shard import Append, ReadLog
from pylog_broker.replicated.state_machine import AppendRecords, LogSlice

TOPIC = "__consumer_offsets"
WALL_MS = 1_700_000_000_000


class ShardTopics(dict[str, SubscribedTopic]):
    """The broker's topics, by name."""

    def topic(self, name: str) -> SubscribedTopic | None:
        return self.get(name)

    def names(self) -> Collection[str]:
        return self.keys()


class GroupShard:
    """Requests are numbered from 1; `replies` has the answers that came."""

    def __init__(self, config: GroupConfig | None = None) -> None:
        self.config = config or GroupConfig()
        self.topics = ShardTopics()
        self.lost: Counter[GroupType] = Counter()
        self.expiry = BY_WALL_CLOCK
        """Of the next coordinator."""
        self.log: list[tuple[bytes, bytes | None]] = []
        self.apart: dict[int, tuple[Producer | None, TransactionEnd | None]] = {}
        """By offset: in whose transaction a record was written, or the marker that it is."""
        self.replies: dict[RequestId, Any] = {}
        self.now_ms = 0
        self.commits = True
        """Whether what is appended is committed at once."""
        self._codec = GroupCodec()
        self._asked = 0
        self._epoch = LeaderEpoch(0)
        self.start()

    # ---- the broker ------------------------------------------------------------------------------

    def start(self) -> None:
        """Another broker leads, which knows the log only. Callers that waited are never
        answered.
        """
        self._epoch = LeaderEpoch(self._epoch + 1)
        self._runtime = CoordinatorRuntime[GroupCoordinator](
            TOPIC,
            lambda partition: GroupCoordinator(self.config, self.topics, self.lost, self.expiry),
            self._codec,
            now_ms=self.now_ms,
        )
        self._perform(self._runtime.on_leadership_began(self.now_ms, 0, self._epoch))
        self.commit()

    @property
    def coordinator(self) -> GroupCoordinator:
        """The coordinator of the shard."""
        return self._runtime.coordinators()[0]

    @property
    def wall_ms(self) -> int:
        """Its wall clock."""
        return WALL_MS + self.now_ms

    def commit(self) -> None:
        """All that was appended is committed."""
        self._perform(self._runtime.on_high_watermark(0, Offset(len(self.log))))

    def advance(self, ms: int) -> None:
        """Time passes, timer by timer."""
        end_ms = self.now_ms + ms
        while (due := self._runtime.next_deadline_ms) is not None and due <= end_ms:
            self.now_ms = max(self.now_ms, due)
            self._perform(self._runtime.on_time(self.now_ms, self.wall_ms))
            self._perform(self._runtime.flush())
        self.now_ms = end_ms

    # ---- clients ---------------------------------------------------------------------------------

    def ask(self, operation: Callable[[GroupCoordinator, RequestId], Decision]) -> RequestId:
        """Sends a request; its number."""
        self._asked += 1
        number = self._asked
        self._perform(
            self._runtime.run(self.now_ms, 0, number, lambda shard: operation(shard, number))
        )
        self._perform(self._runtime.flush())
        return number

    def answer(self, operation: Callable[[GroupCoordinator, RequestId], Decision]) -> Any:
        """Sends a request that is answered at once; the answer."""
        return self.replies[self.ask(operation)]

    def tell(self, operation: Callable[[GroupCoordinator], Decision]) -> None:
        """News that nobody waits for."""
        self._perform(self._runtime.tell(self.now_ms, operation))
        self._perform(self._runtime.flush())

    # ---- effects ---------------------------------------------------------------------------------

    def _perform(self, effects: list[RuntimeEffect]) -> None:
        for effect in effects:
            match effect:
                case Append(_, _, first_offset, records, producer, end):
                    assert first_offset == len(self.log)
                    for offset in range(first_offset, first_offset + len(records)):
                        if producer is not None or end is not None:
                            self.apart[offset] = producer, end
                    self.log.extend(records)
                    if self.commits:
                        self.commit()
                case Reply(request_id, response):
                    assert request_id not in self.replies, "answered twice"
                    self.replies[request_id] = response
                case ReadLog(_, epoch, offset):
                    self._perform(self._read(epoch, offset))
                case Defect(_, error):
                    raise error
                case _:
                    assert isinstance(effect, ShardLoaded), effect

    def _read(self, epoch: LeaderEpoch, offset: Offset) -> list[RuntimeEffect]:
        records = []
        for at, (key, value) in enumerate(self.log[offset:], offset):
            producer, end = self.apart.get(at, (None, None))
            if end is not None:
                records.append(Record(end, None))
                continue
            record = self._codec.decode(key, value)
            assert record is not None
            if producer is not None:
                record = record._replace(producer_id=producer.producer_id)
            records.append(record)
        appends = (AppendRecords(offset, tuple(records)),) if records else ()
        end = Offset(len(self.log))
        read = LogSlice(appends, end)
        return self._runtime.on_read(self.now_ms, self.wall_ms, 0, epoch, read, end)
