"""The cores that transcripts talk to: a command is a method, its words are the arguments.

A command gives effects, which are written below it. `key=value` are named arguments.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pylog import errors
from pylog.client.cluster.metadata import (
    Address,
    BrokerInfo,
    ClusterMetadata,
    ClusterSnapshot,
    PartitionInfo,
    TopicInfo,
)
from pylog.client.fetching.consumer_core import ConsumerCore
from pylog.client.fetching.fetch_events import Fetched, Listed, ListOffsets
from pylog.client.fetching.fetch_state import FetcherSettings
from pylog.client.fetching.subscription import Subscription
from pylog.client.fetching.user_events import (
    Assign,
    Pause,
    Resume,
    Seek,
    SeekTo,
    StartFetching,
    Subscribe,
    UserEvent,
)
from pylog.client.sending.producer_batch import Batch
from pylog.client.sending.send_events import Ack
from pylog.client.sending.send_settings import SenderSettings
from pylog.model import (
    BrokerEpoch,
    BrokerId,
    LeaderEpoch,
    Offset,
    PartitionEpoch,
    TopicPartition,
)
from pylog.records.builder import encode_batch
from pylog_broker.replication.isr import LeaderState
from tests.fakes import sender_world
from tests.fakes.controller_shell import ControllerShell, Incarnation
from tests.fakes.short_text import short_text
from tests.transcripts.member_world import MemberWorld

ERRORS = {errors.error_name(kind): kind for code, kind in errors.ERRORS_BY_CODE.items() if code}


def partition(text: str) -> TopicPartition:
    topic, _, number = text.rpartition("-")
    return TopicPartition(topic, int(number))


def numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split(",") if number)


class ProducerWorld:
    """A sender; brokers 1 to 3, topic t. Its id is 7."""

    def __init__(self, leaders: str = "1,2,1", **settings: str) -> None:
        given: dict[str, Any] = {name: int(value) for name, value in settings.items()}
        self._world = sender_world.World(leaders=numbers(leaders), settings=SenderSettings(**given))

    def add(self, where: str = "t-0", records: str = "1") -> list[object]:
        self._world.add(partition(where), int(records))
        return []

    def poll(self, after_ms: str = "0") -> list[object]:
        return [*self._world.poll(int(after_ms))]

    def answer(self, broker: str, correlation: str, code: str = "ok", **more: str) -> list[object]:
        number = 0 if code == "ok" else ERRORS[code].code
        words = "" if code == "ok" else "refused"
        given: dict[str, Any] = {name: int(value) for name, value in more.items()}
        if code == "ok":
            given.setdefault("base_offset", 0)
        ack = Ack(number, words, **given)
        return [*self._world.acks(int(broker), int(correlation), ack)]

    def disconnected(self, broker: str) -> list[object]:
        world = self._world
        return [*world.sender.on_disconnected(world.now_ms, int(broker), "reset")]

    def id(self, number: str) -> list[object]:
        world = self._world
        return [*world.sender.on_producer_id(world.now_ms, int(number), 0)]

    def metadata(self, leaders: str, epoch: str = "0", topic_id: str = "id") -> list[object]:
        world = self._world
        world.lead(*numbers(leaders), epoch=int(epoch), topic_id=topic_id)
        return [*world.sender.on_metadata(world.now_ms)]

    def states(self) -> list[object]:
        """The states of the batches that are not resolved."""
        return [_state(batch) for batch in self._world.accumulator.incomplete]


def _state(batch: Batch) -> str:
    known = [name for name in ("maybe_stored", "overtaken") if getattr(batch, name)]
    return " ".join([short_text(batch), batch.state.name, *known])


class ConsumerWorld:
    """A consumer's core; brokers 1 to 3, topic t."""

    def __init__(self, leaders: str = "1,2,1", reset: str = "earliest") -> None:
        self._now_ms = 1_000
        self._metadata = ClusterMetadata()
        self._lead(leaders)
        settings = FetcherSettings(auto_offset_reset=reset, max_partition_fetch_bytes=1_000)
        self._core = ConsumerCore(settings, self._metadata, lambda: 0.5, lambda: 1_000_000)
        self._listing: ListOffsets | None = None

    def _lead(self, leaders: str, epoch: int = 0, topic_id: str = "id") -> None:
        brokers = tuple(BrokerInfo(b, Address("h", b)) for b in (1, 2, 3))
        partitions = tuple(PartitionInfo(leader, epoch) for leader in numbers(leaders))
        topic = TopicInfo("t", topic_id, False, partitions)
        self._metadata.update(ClusterSnapshot("c", 1, brokers, None, (topic,)))

    def _after(self, effects: Iterable[object]) -> list[object]:
        return self._noted([*effects, *self._core.poll(self._now_ms).requests])

    def _noted(self, requests: list[object]) -> list[object]:
        for request in requests:
            if isinstance(request, ListOffsets):
                self._listing = request
        return requests

    def _user(self, event: UserEvent) -> list[object]:
        effects = self._core.on_user(self._now_ms, event)
        event.answer.result()
        return self._after(effects)

    def assign(self, *partitions: str) -> list[object]:
        return self._user(Assign(tuple(map(partition, partitions))))

    def subscribe(self, *topics: str) -> list[object]:
        return self._user(Subscribe(Subscription(topics)))

    def start_fetching(self) -> list[object]:
        return self._user(StartFetching())

    def seek(self, where: str, offset: str) -> list[object]:
        return self._user(Seek(partition(where), int(offset)))

    def seek_to(self, where: str, timestamp: str) -> list[object]:
        return self._user(SeekTo((partition(where),), int(timestamp)))

    def pause(self, where: str) -> list[object]:
        return self._user(Pause((partition(where),)))

    def resume(self, where: str) -> list[object]:
        return self._user(Resume((partition(where),)))

    def poll(self, after_ms: str = "0") -> list[object]:
        self._now_ms += int(after_ms)
        return self._after(())

    def fetched(
        self,
        broker: str,
        correlation: str,
        where: str,
        records: str = "",
        code: str = "",
        stands: str = "",
        **more: str,
    ) -> list[object]:
        """`records`: first offset, how many, epoch."""
        batches = b""
        if records:
            first, count, epoch = numbers(records)
            batches = encode_batch([b"x"] * count, base_offset=first, leader_epoch=epoch)
        number = ERRORS[code].code if code else 0
        given: dict[str, Any] = {name: int(value) for name, value in more.items()}
        answer = Fetched(partition(where), number, code and "refused", batches=batches, **given)
        polled = self._core.on_fetched(
            self._now_ms, int(broker), int(correlation), [answer], bool(stands)
        )
        return self._noted([*polled.requests])

    def fetch_failed(self, broker: str, lane: str = "0") -> list[object]:
        failed = self._core.fetcher.on_fetch_failed(self._now_ms, int(broker), int(lane))
        return self._after(failed)

    def listed(self, offset: str, code: str = "") -> list[object]:
        """The answer to the last look-up, the same for each partition."""
        request = self._listing
        assert request is not None
        number = ERRORS[code].code if code else 0
        answers = [
            Listed(tp, generation, number, code and "refused", int(offset))
            for tp, _, _, generation in request.items
        ]
        return self._after(self._core.on_listed(self._now_ms, request, answers))

    def metadata(self, leaders: str, epoch: str = "0", topic_id: str = "id") -> list[object]:
        self._lead(leaders, int(epoch), topic_id)
        return self._after(self._core.on_metadata(self._now_ms))

    def read(self, where: str) -> list[object]:
        """The user takes what is buffered."""
        found = self._core.positions.partitions[partition(where)]
        while found.buffer:
            found.position = self._core.positions.take(found).next_offset
        return self._after(())

    def states(self) -> list[object]:
        return [
            f"{tp} {found.state.name} position={found.position} fetch_offset={found.fetch_offset}"
            + (f" error={found.error.name}" if found.error is not None else "")
            for tp, found in self._core.positions.partitions.items()
        ]


class LeaderWorld:
    """The leader of a partition with replicas 1 to 3: broker 1, whose log ends at 10."""

    def __init__(self, isr: str = "1,2,3", min_isr: str = "1", high_watermark: str = "5") -> None:
        self._now_ms = 0
        self._state = LeaderState(
            me=BrokerId(1),
            replicas=tuple(map(BrokerId, (1, 2, 3))),
            isr=tuple(map(BrokerId, numbers(isr))),
            leader_epoch=LeaderEpoch(3),
            partition_epoch=PartitionEpoch(7),
            epoch_start_offset=Offset(5),
            log_end_offset=Offset(10),
            high_watermark=Offset(int(high_watermark)),
            min_isr=int(min_isr),
            lag_time_max_ms=30_000,
            eligible={BrokerId(b): BrokerEpoch(10 * b) for b in (1, 2, 3)},
            now_ms=0,
        )

    def fetch(self, follower: str, offset: str) -> list[object]:
        broker = BrokerId(int(follower))
        epoch = BrokerEpoch(10 * broker)
        return [
            *self._state.on_follower_fetch(
                self._now_ms, broker, epoch, Offset(int(offset)), Offset(0)
            )
        ]

    def append(self, end: str) -> list[object]:
        return [*self._state.on_append(self._now_ms, Offset(int(end)))]

    def lag_check(self, after_ms: str) -> list[object]:
        self._now_ms += int(after_ms)
        return [*self._state.on_lag_check(self._now_ms)]

    def accepted(self, isr: str, partition_epoch: str) -> list[object]:
        members = tuple(map(BrokerId, numbers(isr)))
        epoch = PartitionEpoch(int(partition_epoch))
        return [*self._state.on_proposal_accepted(self._now_ms, members, epoch)]

    def refused(self, code: str) -> list[object]:
        return [*self._state.on_proposal_refused(self._now_ms, ERRORS[code].code)]

    def state(self) -> list[object]:
        state = self._state
        return [f"isr={[*state.isr]} high_watermark={state.high_watermark}"]


class ControllerWorld:
    """A controller that commits at once, and one partition. Its records come out."""

    def __init__(self, brokers: str = "1,2,3", **config: str) -> None:
        self._shell = ControllerShell()
        self._lives: dict[int, Incarnation] = {}
        self._count: dict[int, int] = {}
        for broker in numbers(brokers):
            self._join(broker)
        given = {name.replace("_", "."): value for name, value in config.items()}
        self._shell.create(replication=len(self._lives), config=given)
        self._told = len(self._shell.log)

    def _join(self, broker: int, **changes: object) -> None:
        self._count[broker] = self._count.get(broker, 0) + 1
        self._lives[broker] = self._shell.join(broker, self._count[broker], **changes)

    def _news(self) -> list[object]:
        records, self._told = self._shell.log[self._told :], len(self._shell.log)
        return [f"{type(record).__name__}" for record in records] + self.partition()

    def partition(self) -> list[object]:
        known = self._shell.partition()
        words = f"leader={known.leader} leader_epoch={known.leader_epoch} isr={[*known.isr]}"
        return [f"{words} elr={[*known.eligible_leader_replicas]}"]

    def lose(self, broker: str) -> list[object]:
        self._shell.lose(self._lives[int(broker)])
        return self._news()

    def join(self, broker: str, intact: str = "1") -> list[object]:
        self._join(int(broker), log_intact=bool(int(intact)))
        return self._news()

    def alter(self, isr: str) -> list[object]:
        answer = self._shell.alter([*numbers(isr)])
        return [*answer.partitions, *self._news()]


WORLDS = {
    "producer": ProducerWorld,
    "consumer": ConsumerWorld,
    "leader": LeaderWorld,
    "controller": ControllerWorld,
    "member": MemberWorld,
}
