"""`pylog bench`: how fast a cluster takes and gives records, and how long one is under way.

Every run is bounded by a count and by a time. A run measures this process, its connection and the
cluster together, on one thread: for figures beside bare limits see `bench/` in the repository.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import secrets
import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from time import perf_counter, perf_counter_ns
from typing import TYPE_CHECKING, Any, Final, Literal

import click

from pylog import errors
from pylog.cli.context import (
    Seconds,
    Settings,
    client_settings,
    complete_topics,
    print_json,
    print_table,
    with_settings,
)
from pylog.cli.producer_options import ACKS, COMPRESSION
from pylog.cli.progress import Advance, progress
from pylog.clock import SYSTEM_CLOCK
from pylog.model import NewTopic, TopicPartition

if TYPE_CHECKING:
    from pylog.client.consumer.consumer import Consumer
    from pylog.client.producer.producer import Producer

SAMPLES_MAX: Final = 10_000
"""Latencies of so many records are taken, evenly spread: taking all would slow them down."""
CHUNK: Final = 64
"""So many records between two looks at the clock."""
ARROW_ROWS: Final = 20_000
STAMP_BYTES: Final = 20
IDLE_SECONDS_MAX: Final = 5.0

TOPIC = click.argument("topic", required=False, shell_complete=complete_topics)
RECORDS = click.option("--records", type=click.IntRange(1, 10**10), default=100_000,
                       show_default=True, help="Stop after so many ...")  # fmt: skip
SECONDS = click.option("--seconds", type=Seconds(min=0.1), default=60.0, show_default=True,
                       help="... or after this time.")  # fmt: skip
SIZE = click.option("--record-size", "size", type=click.IntRange(0, 16 << 20), default=100,
                    show_default=True, help="Bytes of each value (random ones).")  # fmt: skip
PARTITIONS = click.option("--partitions", type=click.IntRange(1), default=1, show_default=True,
                          help="Of the topic that is made when none is named.")  # fmt: skip
REPLICATION = click.option("--replication-factor", "factor", type=int, default=-1,
                           help="Of that topic. Default: the cluster's.")  # fmt: skip
CONFIG = click.option(
    "--config", "configs", metavar="KEY=VALUE", multiple=True, help="A setting of the client."
)


@click.group()
def bench() -> None:
    """Measure producing, consuming, and the way between.

    Without a topic a new one is made and deleted at the end.
    """


@bench.command()
@TOPIC
@RECORDS
@SECONDS
@SIZE
@click.option("--rate", type=Seconds(min=0.1), metavar="N",
              help="Records a second. Default: as fast as it goes.")  # fmt: skip
@click.option("--arrow", is_flag=True, help="Send Arrow record batches of 20,000 rows.")
@ACKS
@COMPRESSION
@PARTITIONS
@REPLICATION
@CONFIG
@with_settings
def produce(
    settings: Settings,
    topic: str | None,
    records: int,
    seconds: float,
    size: int,
    rate: float | None,
    arrow: bool,
    acks: Literal["all", "1", "0"],
    compression: Literal["none", "gzip", "snappy", "lz4", "zstd"],
    partitions: int,
    factor: int,
    configs: tuple[str, ...],
) -> None:
    """Records a second that are acknowledged, and how long an acknowledgement takes.

    \b
    pylog bench produce --records 1000000 --record-size 100
    pylog bench produce flights --rate 1000 --seconds 10 --json
    """
    from pylog.client.producer.producer import Producer

    if arrow and rate is not None:
        raise click.UsageError("--arrow and --rate exclude each other")
    given = client_settings(configs, ("acks", "compression_type", "bootstrap_servers"))
    values = [os.urandom(size) for _ in range(min(records, 1_000))]
    with (
        _topic(settings, topic, partitions, factor) as name,
        Producer(**settings.client(), acks=acks, compression_type=compression, **given) as producer,
        progress("producing", records, unit="records", hidden=settings.as_json) as advance,
    ):
        producer.send(name, values[0]).result(settings.api_timeout_s)
        latencies: list[float] = []
        faults: list[errors.PylogError] = []
        began = perf_counter()
        until = began + seconds
        if arrow:
            sent = _send_arrow(producer, name, values, records, until, latencies, advance)
        else:
            pace = None if rate is None else (began, rate)
            sent = _send(producer, name, values, records, until, pace, (latencies, faults), advance)
        producer.flush()
        took = perf_counter() - began
    if faults:
        raise faults[0]
    _tell(settings, "produce", name, sent, sent * size, took, latencies)


def _send(
    producer: Producer,
    topic: str,
    values: Sequence[bytes],
    records: int,
    until: float,
    pace: tuple[float, float] | None,
    outcomes: tuple[list[float], list[errors.PylogError]],
    advance: Advance,
) -> int:
    latencies, faults = outcomes
    every = max(1, records // SAMPLES_MAX) if pace is None else 1
    chunk = CHUNK if pace is None else 1

    def stamped(begun: float) -> Callable[[Any, errors.PylogError | None], None]:
        def hear(_metadata: Any, error: errors.PylogError | None) -> None:
            latencies.append((perf_counter() - begun) * 1000)
            if error is not None:
                faults.append(error)

        return hear

    sent = due = 0
    cycle = itertools.cycle(values)
    while sent < records and perf_counter() < until and not faults:
        if pace is not None:
            began, rate = pace
            wait = began + sent / rate - perf_counter()
            if wait > 0:
                SYSTEM_CLOCK.sleep(wait)
        done = min(chunk, records - sent)
        plain = done
        if sent >= due:  # the first of this chunk is a sample
            due = sent + every
            plain -= 1
            producer.send(topic, next(cycle), on_delivery=stamped(perf_counter()))
        for value in islice(cycle, plain):
            producer.send(topic, value)
        sent += done
        advance(done)
    return sent


def _send_arrow(
    producer: Producer,
    topic: str,
    values: Sequence[bytes],
    records: int,
    until: float,
    latencies: list[float],
    advance: Advance,
) -> int:
    """A latency here is that of a whole chunk of rows."""
    import pyarrow as pa

    rows = min(records, ARROW_ROWS)
    repeated = [values[n % len(values)] for n in range(rows)]
    data = pa.record_batch({"value": pa.array(repeated, pa.binary())})
    futures = []

    def stamp(begun: float, _done: object) -> None:
        latencies.append((perf_counter() - begun) * 1000)

    sent = 0
    while sent < records and perf_counter() < until:
        part = data if records - sent >= rows else data.slice(0, records - sent)
        begun = perf_counter()
        future = producer.send_arrow(topic, part)
        future.add_done_callback(functools.partial(stamp, begun))
        futures.append(future)
        sent += part.num_rows
        advance(part.num_rows)
    for future in futures:
        future.result()
    return sent


@bench.command()
@TOPIC
@RECORDS
@SECONDS
@click.option("--arrow", is_flag=True, help="Poll Arrow record batches.")
@SIZE
@PARTITIONS
@REPLICATION
@CONFIG
@with_settings
def consume(
    settings: Settings,
    topic: str | None,
    records: int,
    seconds: float,
    arrow: bool,
    size: int,
    partitions: int,
    factor: int,
    configs: tuple[str, ...],
) -> None:
    """Records a second that come out of a topic, from its beginning.

    Without a topic a new one is filled first, with --records of --record-size.

    \b
    pylog bench consume flights --records 1000000 --arrow
    """
    from pylog.client.consumer.consumer import Consumer
    from pylog.client.producer.producer import Producer

    given = client_settings(configs, ("bootstrap_servers",))
    with _topic(settings, topic, partitions, factor) as name:
        if topic is None:
            values = [os.urandom(size) for _ in range(min(records, 1_000))]
            until = perf_counter() + seconds
            with Producer(**settings.client()) as producer:
                _send_arrow(producer, name, values, records, until, [], lambda _count: None)
        with (
            Consumer(**settings.client(), **given) as consumer,
            progress("consuming", records, unit="records", hidden=settings.as_json) as advance,
        ):
            there = _at_the_beginning(consumer, name)
            wanted = min(records, there)
            began = perf_counter()
            read, bytes_read = _read(consumer, wanted, began + seconds, advance, arrow=arrow)
            took = perf_counter() - began
    if not read:
        raise errors.InvalidRequest(f"topic {name} has no records; produce some first")
    _tell(settings, "consume", name, read, bytes_read, took, [])


def _at_the_beginning(consumer: Consumer, topic: str) -> int:
    """The number of records there are at most, with the consumer at the beginning of the topic."""
    partitions = [TopicPartition(topic, n) for n in consumer.partitions_for(topic)]
    first, ends = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)
    consumer.assign(partitions)
    consumer.seek_to_beginning()
    return sum(ends[tp] - first[tp] for tp in partitions)


def _read(
    consumer: Consumer, wanted: int, until: float, advance: Advance, *, arrow: bool
) -> tuple[int, int]:
    read = bytes_read = 0
    last = perf_counter()
    while read < wanted and (now := perf_counter()) < until:
        if arrow:
            batch = consumer.poll_arrow(0.5)
            count = batch.num_rows
            bytes_read += _value_bytes(batch)
        else:
            records = consumer.poll(0.5)
            count = len(records)
            for record in records:
                if record.value is not None:
                    bytes_read += len(record.value)
        if count:
            last = now
        elif now - last > IDLE_SECONDS_MAX:
            break  # what is left is no records: control batches, or compacted away
        read += count
        advance(count)
    return read, bytes_read


def _value_bytes(batch: Any) -> int:
    import pyarrow.compute as pc

    return pc.sum(pc.binary_length(batch.column("value"))).as_py() or 0


@bench.command(name="end-to-end")
@TOPIC
@click.option("--records", type=click.IntRange(1, 10**7), default=5_000, show_default=True,
              help="Stop after so many ...")  # fmt: skip
@SECONDS
@SIZE
@click.option("--rate", type=Seconds(min=0.1), metavar="N", default=1_000.0,
              show_default=True, help="Records a second.")  # fmt: skip
@ACKS
@PARTITIONS
@REPLICATION
@with_settings
def end_to_end(
    settings: Settings,
    topic: str | None,
    records: int,
    seconds: float,
    size: int,
    rate: float,
    acks: Literal["all", "1", "0"],
    partitions: int,
    factor: int,
) -> None:
    """Measure the time from `send` to a consumer's hands, at a steady rate, linger 0.

    \b
    pylog bench end-to-end --rate 1000 --records 10000
    """
    from pylog.client.consumer.consumer import Consumer
    from pylog.client.producer.producer import Producer

    latencies: list[float] = []
    run = secrets.token_hex(4).encode()  # tells our records from older ones of the topic
    pad = b" " * max(0, size - len(run) - STAMP_BYTES)
    with (
        _topic(settings, topic, partitions, factor) as name,
        Producer(**settings.client(), acks=acks, linger_ms=0) as producer,
        Consumer(**settings.client(), fetch_max_wait_ms=500) as consumer,
        progress("under way", records, unit="records", hidden=settings.as_json) as advance,
    ):
        everything = [TopicPartition(name, n) for n in consumer.partitions_for(name)]
        consumer.assign(everything)
        consumer.seek_to_end()
        for tp in everything:
            consumer.position(tp)
        producer.send(name, b"warm").result(settings.api_timeout_s)
        began = perf_counter()
        until = began + seconds
        sender = threading.Thread(
            target=_stamp_and_send,
            args=(producer, name, records, rate, until, run, pad),
            daemon=True,
        )
        sender.start()
        while len(latencies) < records and perf_counter() < until:
            got = len(latencies)
            for record in consumer.poll(0.5):
                value = record.value or b""
                if value.startswith(run):
                    stamp = int(value[len(run) : len(run) + STAMP_BYTES])
                    latencies.append((perf_counter_ns() - stamp) / 1e6)
            advance(len(latencies) - got)
        took = perf_counter() - began
        sender.join(settings.api_timeout_s)
    if not latencies:
        raise errors.RequestTimedOut(f"topic {name}: no record came back within {seconds:g} s")
    _tell(settings, "end-to-end", name, len(latencies), len(latencies) * size, took, latencies)


def _stamp_and_send(
    producer: Producer,
    topic: str,
    records: int,
    rate: float,
    until: float,
    run: bytes,
    pad: bytes,
) -> None:
    began = perf_counter()
    for number in range(records):
        wait = began + number / rate - perf_counter()
        if wait > 0:
            SYSTEM_CLOCK.sleep(wait)
        if perf_counter() >= until:
            return
        with contextlib.suppress(errors.PylogError):
            producer.send(topic, b"%b%020d%b" % (run, perf_counter_ns(), pad))


@contextlib.contextmanager
def _topic(settings: Settings, topic: str | None, partitions: int, factor: int) -> Iterator[str]:
    """The topic that was named, or a new one for the time of the run."""
    if topic is not None:
        yield topic
        return
    name = f"pylog-bench-{secrets.token_hex(4)}"
    with settings.admin() as admin:
        admin.create_topics(NewTopic(name, partitions, factor))
        try:
            yield name
        finally:
            admin.delete_topics(name)


def percentile(ordered: Sequence[float], share: float) -> float:
    """The smallest of the sorted values that at least `share` (0 to 1) of them do not exceed."""
    assert ordered
    return ordered[min(len(ordered) - 1, max(0, -(-int(share * 1e6) * len(ordered) // 10**6) - 1))]


def _tell(
    settings: Settings,
    what: str,
    topic: str,
    records: int,
    size: int,
    took: float,
    latencies: list[float],
) -> None:
    figures: dict[str, Any] = {
        "bench": what,
        "topic": topic,
        "records": records,
        "bytes": size,
        "seconds": round(took, 6),
        "records_per_s": round(records / took, 1),
        "mb_per_s": round(size / took / 1e6, 3),
    }
    if latencies:
        ordered = sorted(latencies)
        figures["latency_ms"] = {
            "samples": len(ordered),
            "mean": round(sum(ordered) / len(ordered), 3),
            **{
                name: round(percentile(ordered, share), 3)
                for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("p999", 0.999))
            },
            "max": round(ordered[-1], 3),
        }
    if settings.as_json:
        print_json(figures)
        return
    rows: list[tuple[str, object]] = [
        ("records", f"{records:,}"),
        ("seconds", f"{took:.3f}"),
        ("records/s", f"{records / took:,.0f}"),
        ("MB/s", f"{size / took / 1e6:,.2f}"),
    ]
    for name, value in figures.get("latency_ms", {}).items():
        rows.append((f"latency {name}" + (", ms" if name != "samples" else ""), value))
    print_table((what, topic), rows)
