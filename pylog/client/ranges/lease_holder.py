"""Read leases of one plan of reads: taken at the brokers that have its partitions, and renewed.

The leader of a partition holds the range, and so do its followers in sync, so that the next leader
has the records as well. Leases end by time when nobody renews them. Reads do not depend on them: a
lease that cannot be had is told of, and nothing more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final, NamedTuple

from pylog import errors
from pylog.client.background import LoopThread, logger
from pylog.client.cluster.cluster import Cluster
from pylog.client.cluster.wire import error_of
from pylog.clock import Clock
from pylog.model import TopicPartition
from pylog.rpc import apis
from pylog.rpc.v1 import log_pb2

RENEWALS: Final = 3
"""So many in the time that a lease lasts: one that fails is made up for."""
RETRY_S: Final = 0.5
"""After a renewal that failed; doubled each time. A new leader does not know the lease yet."""
RENEWAL_S_MAX: Final = 10.0
HOLDERS_MAX: Final = 1_000
"""Holders of which a process remembers the last renewal; of one that it forgets it renews anew."""


class HeldRange(NamedTuple):
    """`start <= offset < end` of a partition, to be held. An empty `topic_id` stands for whichever
    topic has the name.
    """

    topic: str
    topic_id: str
    partition: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Leased:
    """The outcome of a call to all brokers. Leases last `timeout_ms`, 0: there are none. `refused`
    says why some ranges are not held; `failed`, why some brokers could not be asked, which may
    change.
    """

    timeout_ms: int
    refused: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


class LeaseHolder:
    """The leases of one holder. `renewed` has the time of the last renewal by each holder of this
    process. One thread at a time; it belongs to a range reader.
    """

    def __init__(
        self,
        thread: LoopThread,
        cluster: Cluster,
        clock: Clock,
        holder: str,
        renewed: dict[str, int],
    ) -> None:
        self._thread = thread
        self._cluster = cluster
        self._clock = clock
        self._holder = holder
        self._renewed = renewed
        self._held_at: set[int] = set()
        self._keeping: Future[None] | None = None

    def take(self, ranges: Sequence[HeldRange], wait_ms: int) -> Leased:
        """Hold these ranges and no others, after one call to each broker that has one of them, or
        has had. Brokers that have not answered after `wait_ms` have failed.
        """
        self.close()
        return self._thread.run(self._take(ranges, wait_ms / 1000))

    async def _take(self, ranges: Sequence[HeldRange], wait_s: float) -> Leased:
        leased = await self._call(ranges, wait_s, renew=False, also=self._held_at)
        if leased.failed:
            self._renewed.pop(self._holder, None)  # so that `keep` tries again at once
        else:
            self._note_renewed()
        return leased

    def _note_renewed(self) -> None:
        if len(self._renewed) >= HOLDERS_MAX:
            self._renewed.clear()
        self._renewed[self._holder] = self._clock.monotonic_ms()

    def keep(
        self,
        ranges: Sequence[HeldRange],
        timeout_ms: int,
        told: Callable[[str], None],
        *,
        everywhere: bool = False,
        age_ms: int | None = None,
    ) -> None:
        """Renew the leases, and take them where they are not, in the background until `close`.
        `everywhere`: at each broker, because the holder has other ranges, which others read.
        `age_ms`: so long ago another process has taken them. `told` hears on the loop's thread why
        a range is not held, each reason once.
        """
        self.close()
        if age_ms is not None and self._holder not in self._renewed:
            self._renewed[self._holder] = self._clock.monotonic_ms() - age_ms
        self._keeping = self._thread.start(self._keep(ranges, timeout_ms, told, everywhere))

    async def _keep(
        self,
        ranges: Sequence[HeldRange],
        timeout_ms: int,
        told: Callable[[str], None],
        everywhere: bool,
    ) -> None:
        interval_s = timeout_ms / 1000 / RENEWALS
        wait_s, failures = interval_s, 0
        reasons: set[str] = set()
        while True:
            last_ms = self._renewed.get(self._holder)
            if failures or last_ms is not None:
                since_s = 0.0 if failures or last_ms is None else self._since_s(last_ms)
                await asyncio.sleep(max(0.0, wait_s - since_s))
            try:
                also = None if everywhere else self._held_at
                wait_for_s = min(interval_s, RENEWAL_S_MAX)
                leased = await self._call(ranges, wait_for_s, renew=True, also=also)
            except errors.PylogError as error:
                if isinstance(error, errors.ClientClosed):
                    return
                leased = Leased(0, failed=(str(error),))
            for reason in leased.refused:
                if reason not in reasons:
                    reasons.add(reason)
                    told(reason)
            if leased.failed:
                logger.debug("read leases could not be renewed: %s", leased.failed[0])
                failures += 1
                wait_s = min(interval_s, RETRY_S * 2 ** min(failures - 1, 10))
            else:
                failures, wait_s = 0, interval_s
                self._note_renewed()

    def _since_s(self, last_ms: int) -> float:
        return (self._clock.monotonic_ms() - last_ms) / 1000

    def let_go(self, wait_ms: int = 0) -> None:
        """Give the leases back: now, where there is time to wait, or soon."""
        self.close()
        giving = self._let_go(max(wait_ms, 1_000) / 1000)
        if wait_ms:
            self._thread.run(giving)
        else:
            self._thread.start(giving)

    async def _let_go(self, wait_s: float) -> None:
        try:
            await self._call((), wait_s, renew=False, also=self._held_at)
        except errors.PylogError as error:
            logger.debug("read leases end by time: %s", error)

    def close(self) -> None:
        """Renew no more; the leases stay until their time is over."""
        if self._keeping is not None:
            self._keeping.cancel()
            self._keeping = None

    # ---- calls ----------------------------------------------------------------------------------

    async def _call(
        self, ranges: Sequence[HeldRange], wait_s: float, *, renew: bool, also: set[int] | None
    ) -> Leased:
        """One call to each broker that has some of the ranges, and to `also`, None: all."""
        cluster = self._cluster
        unknown = {each.topic for each in ranges if each.topic not in cluster.metadata.topics}
        if unknown or not cluster.metadata.version:
            try:
                async with asyncio.timeout(wait_s):
                    await cluster.refresh(*unknown)
            except TimeoutError:
                return Leased(0, failed=(str(cluster.unreachable(round(wait_s * 1000))),))
        requests, leaderless = self._requests(ranges, renew)
        live = cluster.metadata.brokers.keys()
        for broker in live if also is None else also & live:
            if broker not in requests:
                requests[broker] = log_pb2.LeaseReadsRequest(holder=self._holder, renew=renew)
        if not renew:
            self._held_at = {broker for broker, each in requests.items() if each.topics}
            self._held_at |= {broker for broker, each in requests.items() if each.followed}
        elif ranges:
            self._held_at |= requests.keys()
        answers = await asyncio.gather(
            *(self._ask(broker, request, wait_s) for broker, request in requests.items())
        )
        if leaderless:
            cluster.refresh_soon(*{at.topic for at in leaderless})
        return self._outcome(answers, leaderless)

    async def _ask(
        self, broker: int, request: log_pb2.LeaseReadsRequest, wait_s: float
    ) -> log_pb2.LeaseReadsResponse | errors.PylogError:
        server = self._cluster.broker(broker)
        assert server is not None  # only live brokers are asked
        try:
            return await server.call(apis.LEASE_READS, request, wait_s)
        except errors.PylogError as error:
            self._cluster.refresh_soon()
            return error

    def _outcome(
        self,
        answers: Iterable[log_pb2.LeaseReadsResponse | errors.PylogError],
        leaderless: Sequence[TopicPartition],
    ) -> Leased:
        failed = [f"{at} has no live leader at the moment" for at in leaderless]
        refused: dict[str, list[str]] = {}
        times: list[int] = []
        for answer in answers:
            if isinstance(answer, errors.PylogError):
                failed.append(f"{answer.name}: {answer}")
                continue
            if answer.timeout_ms:
                times.append(answer.timeout_ms)
            for item in answer.refused:
                error = error_of(item.error, f"{item.topic}-{item.partition}")
                assert error is not None
                if error.refreshes_metadata:
                    self._cluster.refresh_soon(item.topic)
                    failed.append(f"{error.name}: {error}")
                else:
                    refused.setdefault(error.name, []).append(f"{error.name}: {error}")
        reasons = tuple(
            told[0] if len(told) == 1 else f"{told[0]} (and so for {len(told) - 1} more)"
            for told in refused.values()
        )
        return Leased(min(times, default=0), reasons, tuple(failed))

    def _requests(
        self, ranges: Sequence[HeldRange], renew: bool
    ) -> tuple[dict[int, log_pb2.LeaseReadsRequest], list[TopicPartition]]:
        """The ranges by the brokers that are to hold them; and those of which nobody is known to be
        the leader.
        """
        columns: dict[tuple[int, bool, str, str], _Columns] = {}
        leaderless: list[TopicPartition] = []
        metadata = self._cluster.metadata
        for topic, topic_id, partition, start, end in ranges:
            leader = metadata.leader(topic, partition)
            if leader is None:
                leaderless.append(TopicPartition(topic, partition))
                continue
            in_sync = metadata.topics[topic].partitions[partition].isr
            for broker in {leader.broker, *in_sync} & metadata.brokers.keys():
                key = (broker, broker != leader.broker, topic, topic_id)
                found = columns.get(key)
                if found is None:
                    found = columns[key] = _Columns()
                found.add(partition, start, end, leader.epoch)
        return self._by_broker(columns, renew), leaderless

    def _by_broker(
        self, columns: Mapping[tuple[int, bool, str, str], _Columns], renew: bool
    ) -> dict[int, log_pb2.LeaseReadsRequest]:
        requests: dict[int, log_pb2.LeaseReadsRequest] = {}
        for (broker, follows, topic, topic_id), found in columns.items():
            request = requests.get(broker)
            if request is None:
                request = requests[broker] = log_pb2.LeaseReadsRequest(
                    holder=self._holder, renew=renew
                )
            (request.followed if follows else request.topics).add(
                topic=topic,
                topic_id=topic_id,
                partitions=found.partitions,
                start_offsets=found.starts,
                end_offsets=found.ends,
                current_leader_epochs=found.epochs,
            )
        return requests


class _Columns:
    """Ranges of one topic at one broker."""

    __slots__ = ("ends", "epochs", "partitions", "starts")

    def __init__(self) -> None:
        self.partitions: list[int] = []
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.epochs: list[int] = []

    def add(self, partition: int, start: int, end: int, epoch: int) -> None:
        self.partitions.append(partition)
        self.starts.append(start)
        self.ends.append(end)
        self.epochs.append(epoch)
