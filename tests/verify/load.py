"""A verifiable load: what was acknowledged, when, and whether the log still holds it.

Every record carries its producer's name, its sequence number and a CRC. `VerifiableProducer` keeps
sending while others break things; `check` then reads the whole topic and compares.
"""

from __future__ import annotations

import itertools
import threading
import zlib
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pylog import Consumer, Producer, RecordMetadata, TopicPartition
from pylog.clock import SYSTEM_CLOCK
from pylog.errors import BufferExhausted, PylogError


def encode(producer: str, sequence: int, size: int = 100) -> bytes:
    """`size` bytes: name, sequence and CRC of both, padded."""
    body = f"{producer}|{sequence}"
    return f"{body}|{zlib.crc32(body.encode()):08x}|".encode().ljust(size, b".")


def decode(value: bytes) -> tuple[str, int]:
    """The name and sequence of a record; AssertionError when it is not as it was sent."""
    producer, sequence, crc, _ = value.decode().split("|")
    assert int(crc, 16) == zlib.crc32(f"{producer}|{sequence}".encode()), value
    return producer, int(sequence)


@dataclass(frozen=True, slots=True)
class Ack:
    """An acknowledged record, when its acknowledgement arrived, and how long that took."""

    sequence: int
    partition: int
    offset: int
    at_ms: int
    took_ms: int = 0


class VerifiableProducer:
    """Sends `rate` records a second round-robin over the partitions, acks=all, until closed."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        partitions: int,
        *,
        name: str = "p0",
        rate: int = 500,
        request_timeout_ms: int = 5_000,
    ) -> None:
        self.topic, self.partitions, self.name, self._rate = topic, partitions, name, rate
        self.acks: list[Ack] = []
        self.failed: dict[int, str] = {}
        self.sent = 0
        self._producer = Producer(
            bootstrap_servers=bootstrap,
            acks="all",
            linger_ms=0,
            delivery_timeout_ms=120_000,
            request_timeout_ms=request_timeout_ms,
            max_block_ms=60_000,
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"load-{name}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        started = SYSTEM_CLOCK.monotonic_ms()
        while not self._stop.wait(0.005):
            elapsed = SYSTEM_CLOCK.monotonic_ms() - started
            # After a pause it catches up by a second at most: a gap does not end in a burst.
            due = min(self._rate * elapsed // 1000, self.sent + self._rate)
            if due == self.sent + self._rate:
                started = SYSTEM_CLOCK.monotonic_ms() - due * 1000 // self._rate
            while self.sent < due:
                self._send(self.sent)
                self.sent += 1

    def _send(self, sequence: int) -> None:
        partition, sent_ms = sequence % self.partitions, SYSTEM_CLOCK.monotonic_ms()

        def done(metadata: RecordMetadata | None, error: PylogError | None) -> None:
            if metadata is not None:
                now = SYSTEM_CLOCK.monotonic_ms()
                self.acks.append(
                    Ack(sequence, metadata.partition, metadata.offset, now, now - sent_ms)
                )
            else:
                self.failed[sequence] = repr(error)

        try:
            self._producer.send(
                self.topic, encode(self.name, sequence), partition=partition, on_delivery=done
            )
        except BufferExhausted as error:
            self.failed[sequence] = repr(error)

    def close(self) -> None:
        """Stop sending and wait for what is under way."""
        self.stop()
        self._producer.flush(150)
        self._producer.close(5)

    def stop(self) -> None:
        """Send no more."""
        self._stop.set()
        self._thread.join()


@dataclass(slots=True)
class Verdict:
    """The log's contents against the promises."""

    acknowledged: int = 0
    lost: list[Ack] = field(default_factory=list)
    duplicated: list[int] = field(default_factory=list)
    out_of_order: list[int] = field(default_factory=list)
    unknown: int = 0
    longest_gap_ms: int = 0

    @property
    def unknown_share(self) -> float:
        """The part of all sends of which nothing is known."""
        return self.unknown / max(1, self.unknown + self.acknowledged)

    def __str__(self) -> str:
        return (
            f"acknowledged {self.acknowledged:,}, lost {len(self.lost)}, "
            f"duplicated {len(self.duplicated)}, out of order {len(self.out_of_order)}, "
            f"unknown {self.unknown} ({self.unknown_share:.1%}), "
            f"longest gap {self.longest_gap_ms / 1000:.1f} s"
        )


def read_all(bootstrap: str, topic: str, partitions: int) -> dict[int, list[tuple[int, bytes]]]:
    """Every record of the topic: (offset, value) by partition, in the order of the log."""
    found: dict[int, list[tuple[int, bytes]]] = defaultdict(list)
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        assigned = [TopicPartition(topic, n) for n in range(partitions)]
        consumer.assign(assigned)
        consumer.seek_to_beginning()
        ends = consumer.end_offsets(assigned)
        deadline = SYSTEM_CLOCK.monotonic_ms() + 120_000
        while any(consumer.position(p) < ends[p] for p in assigned):
            assert SYSTEM_CLOCK.monotonic_ms() < deadline, "the topic cannot be read to its end"
            for record in consumer.poll(1.0):
                found[record.partition].append((record.offset, record.value))
    return found


class Load(Protocol):
    """A producer's knowledge of the numbered records that it sent."""

    @property
    def name(self) -> str: ...
    @property
    def topic(self) -> str: ...
    @property
    def partitions(self) -> int: ...
    @property
    def acks(self) -> Sequence[Ack]: ...
    @property
    def sent(self) -> int: ...


def check(load: Load, bootstrap: str) -> Verdict:
    """Read the topic and judge what was acknowledged until now: lost, duplicated, out of order,
    unknown.
    """
    acks, sent = list(load.acks), load.sent
    verdict = Verdict(acknowledged=len(acks))
    stored = read_all(bootstrap, load.topic, load.partitions)
    at: dict[tuple[int, int], int] = {}
    times: Counter[int] = Counter()
    for partition, records in stored.items():
        last = -1
        for offset, value in records:
            producer, sequence = decode(value)
            assert producer == load.name
            at[partition, offset] = sequence
            times[sequence] += 1
            if sequence <= last:
                verdict.out_of_order.append(sequence)
            last = max(last, sequence)
    verdict.duplicated = [sequence for sequence, count in times.items() if count > 1]
    verdict.lost = [a for a in acks if at.get((a.partition, a.offset)) != a.sequence]
    verdict.unknown = sent - len(acks)
    moments = sorted(a.at_ms for a in acks)
    gaps = (later - earlier for earlier, later in itertools.pairwise(moments))
    verdict.longest_gap_ms = max(gaps, default=0)
    return verdict


def wrongs(verdict: Verdict) -> list[str]:
    """The promises that a verdict shows broken."""
    parts = (
        ("lost", verdict.lost),
        ("duplicated", verdict.duplicated),
        ("out of order", verdict.out_of_order),
    )
    return [f"{len(found)} {what}: {found[:5]}" for what, found in parts if found]


def gap_around(
    load: VerifiableProducer, partitions: list[int], at_ms: int, window_ms: int = 60_000
) -> int | None:
    """The longest time that one of `partitions` went without an acknowledgement, in milliseconds,
    of the pauses that ended after `at_ms` and began before `at_ms + window_ms`. None: there was
    no acknowledgement after `at_ms` yet.
    """
    longest = []
    for partition in partitions:
        moments = sorted(a.at_ms for a in list(load.acks) if a.partition == partition)
        pauses = [
            later - max(earlier, at_ms)
            for earlier, later in itertools.pairwise(moments)
            if later > at_ms and earlier < at_ms + window_ms
        ]
        if not pauses:
            return None
        longest.append(max(pauses))
    return max(longest, default=None)
