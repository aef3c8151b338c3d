"""A real Kafka broker on partitions that pylog wrote: it must find in them what pylog finds.

A fresh KRaft broker makes topics of the same names and is stopped; pylog's files take the place of
its own, but for `partition.metadata` (the topic's id). Then it starts, once after an orderly stop
and once as after a crash, so that it reads every batch. Kafka's own clients must find the same
records, for both isolation levels, bounds, time look-ups and producers as pylog's storage does;
its log must hold no complaint; and it must go on writing where pylog stopped.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pylog.clock import SYSTEM_CLOCK
from pylog.model import Offset, OffsetAndTimestamp, TimestampType, TopicPartition
from pylog.records.batch import iter_headers
from pylog.records.reader import iter_records
from pylog.records.record import Record
from pylog_broker.config import TopicConfig
from pylog_broker.storage.checkpoints.checkpoints import (
    CLEANER_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    encode_offsets,
    read_epochs,
    read_offsets,
)
from pylog_broker.storage.directories.clean_marker import CLEAN_MARKER
from pylog_broker.storage.files import OsFiles
from pylog_broker.storage.log.log import Log
from pylog_broker.storage.recovery.recovery import LastStop
from pylog_broker.storage.recovery.survey import PARTITION_METADATA
from pylog_broker.storage.segments.time_lookup import first_at_or_after
from tests.fakes.logs import WALL_MS, open_log, read_all
from tests.golden.make_kafka_logs import Broker

_ASK: Final = Path(__file__).parent / "AskKafka.java"
_STARTS_MAX: Final = 8
_PRODUCERS_EXPIRE_MS: Final = 86_400_000
"""Kafka's `producer.id.expiration.ms`, by the times of their records."""
_TIMES: Final = tuple(WALL_MS + step for step in range(-110_000, 120_000, 9_973))
_CHECKPOINTS: Final = (
    CLEANER_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
)
_HARMLESS: Final = re.compile(
    r"No meta.properties file|SLF4J|LeaderEndPoint|AutoTopicCreation|Resetting first dirty offset"
    r"|group\.coordinator|share\.coordinator|appears to be unset|deprecat"
    r"|Performing controller activation|close NetworkClient that has already been closed"
)
_COMPLAINT: Final = re.compile(r"\b(WARN|ERROR|FATAL)\b")


@dataclass(frozen=True, slots=True)
class Given:
    """A partition that pylog wrote: its directory, and where its log starts."""

    directory: Path
    settings: Mapping[str, str]
    log_start: int = 0


def given_by_broker(
    folder: Path, settings: Mapping[str, Mapping[str, str]]
) -> dict[TopicPartition, Given]:
    """The partitions of these topics in a broker's directory."""
    starts = read_offsets(OsFiles(), f"{folder}/{LOG_START_CHECKPOINT}")
    found = {}
    for path in sorted(folder.iterdir()):
        topic, _, number = path.name.rpartition("-")
        if path.is_dir() and topic in settings:
            key = TopicPartition(topic, int(number))
            found[key] = Given(path, settings[topic], starts.get(key, Offset(0)))
    return found


# ---- what pylog finds ---------------------------------------------------------------------------


def ours(key: TopicPartition, given: Given, scratch: Path) -> Iterator[str]:
    """The lines that `AskKafka read` should print of the partition."""
    copy = Path(shutil.copytree(given.directory, scratch / f"looked-at-{key}"))
    config = TopicConfig(cleanup_policy=(given.settings.get("cleanup.policy", "delete"),))
    log = open_log(
        OsFiles(),
        directory=str(copy),
        config=config,
        last_stop=LastStop.clean(),
        log_start_offset=given.log_start,
    )
    end, stable = log.log_end_offset, log.last_stable_offset(log.log_end_offset)
    head = f"{key.topic}\t{key.partition}"
    yield f"bounds\t{head}\t{log.log_start_offset}\t{end}\t{stable}"
    newest = _newest_as_kafka_finds_it(log)
    yield f"newest\t{head}\t" + ("-1\t-1" if newest is None else f"{newest[0]}\t{newest[1]}")
    for time in _TIMES:
        found = _as_kafka_looks_up(log, time)
        assert found is None or found == log.offset_for_timestamp(time)
        told = "-1\t-1" if found is None else f"{found[0]}\t{found[1]}"
        yield f"time\t{head}\t{time}\t{told}"
    for producer_id, entry in log.producers.unpacked().items():
        if entry.timestamp < SYSTEM_CLOCK.wall_ms() - _PRODUCERS_EXPIRE_MS:
            continue
        last = entry.batches[-1].last_sequence if entry.batches else -1
        yield (
            f"producer\t{head}\t{producer_id}\t{entry.epoch}\t{last}\t{entry.timestamp}"
            f"\t{entry.coordinator_epoch}\t{entry.transaction_start}"
        )
    for record, committed in _records(log, stable):
        for which in ("all", "committed") if committed else ("all",):
            yield f"record\t{head}\t{which}\t{_fields(record)}"
    yield f"position\t{head}\tall\t{end}"
    yield f"position\t{head}\tcommitted\t{stable}"
    log.close(clean=False)


def _newest_as_kafka_finds_it(log: Log) -> OffsetAndTimestamp | None:
    """Kafka looks into one batch only, the first one with the largest timestamp. When the cleaner
    has emptied it, Kafka answers that there is no record; pylog names the newest one there is.
    """
    newest, data = log.max_timestamp(), read_all(log)
    times = [
        record.timestamp_ms
        for record in iter_records(data, "t", 0)
        if record.offset >= log.log_start_offset
    ]
    assert (None if newest is None else newest.timestamp_ms) == max(times, default=None)
    headers = [header for _, header in iter_headers(data)]
    batch = max(headers, key=lambda header: header.max_timestamp, default=None)
    return None if batch is None or not batch.record_count else newest


def _as_kafka_looks_up(log: Log, time_ms: int) -> OffsetAndTimestamp | None:
    """Kafka looks into one segment only, the first one with a batch so late. When the cleaner has
    emptied that batch, or the log start is behind it, it answers that there is no such record;
    pylog goes on to the next segment.
    """
    start, end = log.log_start_offset, log.log_end_offset
    for segment in log.segments:
        if segment.max_timestamp >= time_ms and segment.end_offset > start:
            return first_at_or_after(OsFiles(), [segment], time_ms, start=start, end=end)
    return None


def _records(log: Log, stable: int) -> Iterator[tuple[Record, bool]]:
    """The records, and whether a read-committed reader sees them."""
    data = read_all(log)
    aborted = log.aborted_transactions(log.log_start_offset, log.log_end_offset)
    for position, header in iter_headers(data):
        hidden = header.base_offset >= stable or any(
            header.is_transactional
            and entry.producer_id == header.producer_id
            and entry.first_offset <= header.base_offset <= entry.last_offset
            for entry in aborted
        )
        for record in iter_records(data[position : position + header.size], "t", 0):
            if record.offset >= log.log_start_offset:
                yield record, not hidden


def _fields(record: Record) -> str:
    stamped = record.timestamp_type is TimestampType.LOG_APPEND_TIME
    kind = "LogAppendTime" if stamped else "CreateTime"
    headers = ",".join(f"{_hex(name.encode())}={_hex(value)}" for name, value in record.headers)
    return (
        f"{record.offset}\t{record.timestamp_ms}\t{kind}\t{_hex(record.key)}"
        f"\t{_hex(record.value)}\t{headers}"
    )


def _hex(data: bytes | None) -> str:
    return "-" if data is None else data.hex()


# ---- what Kafka finds ---------------------------------------------------------------------------


class KafkaOnOurs:
    """The broker, and pylog's partitions in it."""

    def __init__(
        self, classpath: str, scratch: Path, given: Mapping[TopicPartition, Given]
    ) -> None:
        scratch.mkdir()
        self._given = given
        self._classpath = classpath
        self._scratch = scratch
        self._broker = Broker(scratch, classpath)

    def check(self) -> list[str]:
        """Everything that differs, or that the broker complains of."""
        self._put_in()
        expected = [
            line for key, given in self._given.items() for line in ours(key, given, self._scratch)
        ]
        ends = {
            f"appended\t{fields[1]}\t{fields[2]}\t{fields[4]}"
            for fields in (line.split("\t") for line in expected)
            if fields[0] == "bounds"
        }
        prepared = self._scratch / "prepared"
        shutil.copytree(self._broker.data, prepared)
        found = []
        for way in ("after an orderly stop", "after a crash"):
            if way == "after a crash":
                shutil.rmtree(self._broker.data)
                shutil.copytree(prepared, self._broker.data)
                (self._broker.data / CLEAN_MARKER).unlink()
                self._write_checkpoint(RECOVERY_POINT_CHECKPOINT, {})
            said, complaints = self._ask_running(ends)
            differing = differences(expected, said)
            print(f"Kafka on pylog's partitions, {way}: {len(said)} lines, {len(differing)} differ")
            found += [f"{way}: {line}" for line in (*differing, *complaints)]
        return found

    def _put_in(self) -> None:
        topics = sorted({key.topic for key in self._given})
        arguments = []
        for topic in topics:
            keys = [key for key in self._given if key.topic == topic]
            kept = {
                name: value
                for name, value in self._given[keys[0]].settings.items()
                if name in ("cleanup.policy", "message.timestamp.type")
            }
            arguments += [topic, str(len(keys)), ",".join(f"{k}={v}" for k, v in kept.items())]
        with self._broker.running(cleaner=False):
            self._ask("create", *arguments)
        # A leader's epoch must not be below those in its log; each start raises it.
        wanted = max(map(self._epoch, (given.directory for given in self._given.values())))
        for _ in range(_STARTS_MAX):
            if min(self._epoch(self._broker.data / str(key)) for key in self._given) >= wanted:
                break
            with self._broker.running(cleaner=False):
                pass
        for key, given in self._given.items():
            target = self._broker.data / str(key)
            metadata = (target / PARTITION_METADATA).read_bytes()
            shutil.rmtree(target)
            shutil.copytree(given.directory, target)
            (target / PARTITION_METADATA).write_bytes(metadata)
        folders = {given.directory.parent for given in self._given.values()}
        for name in _CHECKPOINTS:
            self._write_checkpoint(
                name,
                {
                    key: offset
                    for folder in folders
                    for key, offset in read_offsets(OsFiles(), f"{folder}/{name}").items()
                    if key in self._given
                },
            )
        (self._scratch / "broker.log").unlink()

    @staticmethod
    def _epoch(directory: Path) -> int:
        entries = read_epochs(OsFiles(), f"{directory}/leader-epoch-checkpoint")
        return entries[-1].epoch if entries else -1

    def _write_checkpoint(self, name: str, offsets: Mapping[TopicPartition, Offset]) -> None:
        (self._broker.data / name).write_bytes(encode_offsets(offsets))

    def _ask_running(self, ends: set[str]) -> tuple[list[str], list[str]]:
        """The clients' view, and the complaints of the broker and about it."""
        log = self._scratch / "broker.log"
        log.unlink(missing_ok=True)
        topics = sorted({key.topic for key in self._given})
        with self._broker.running(cleaner=False):
            said = self._ask("read", ",".join(map(str, _TIMES)))
            complaints = self._offsets_by_tool(said)
            appended = set(self._ask("append", *topics))
        if appended != ends:
            complaints.append(f"appended at {sorted(appended ^ ends)}")
        complaints += [
            line
            for line in log.read_text(errors="replace").splitlines()
            if _COMPLAINT.search(line) and not _HARMLESS.search(line)
        ]
        return said, complaints

    def _offsets_by_tool(self, said: Sequence[str]) -> list[str]:
        """`kafka-get-offsets --time` says what the clients were told."""
        rows = [line.split("\t") for line in said]
        wanted = {
            "-2": {f"{r[1]}:{r[2]}:{r[3]}" for r in rows if r[0] == "bounds"},
            "-1": {f"{r[1]}:{r[2]}:{r[4]}" for r in rows if r[0] == "bounds"},
            str(_TIMES[11]): {
                f"{r[1]}:{r[2]}:{r[4]}"
                for r in rows
                if r[0] == "time" and r[3] == str(_TIMES[11]) and r[4] != "-1"
            },
        }
        found = []
        for time, expected in wanted.items():
            tool = "org.apache.kafka.tools.GetOffsetShell"
            server = f"127.0.0.1:{self._broker.port}"
            printed = self._java(tool, "--bootstrap-server", server, "--time", time)
            lines = {line for line in printed.splitlines() if re.fullmatch(r".+:\d+:\d+", line)}
            if lines != expected:
                found.append(f"kafka-get-offsets --time {time}: {sorted(lines ^ expected)[:10]}")
        return found

    def _ask(self, *arguments: str) -> list[str]:
        return self._java(str(_ASK), f"127.0.0.1:{self._broker.port}", *arguments).splitlines()

    def _java(self, *arguments: str) -> str:
        level = "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"
        command = ["java", "-Xmx512m", level, "-cp", self._classpath, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        if done.returncode:
            raise RuntimeError(f"{arguments[:3]}: {done.stdout[-2000:]} {done.stderr[-2000:]}")
        return done.stdout


def differences(expected: Sequence[str], said: Sequence[str]) -> list[str]:
    """Lines that only one of them has."""
    wanted, found = set(expected), set(said)
    return sorted(
        [f"pylog alone: {line}" for line in wanted - found]
        + [f"Kafka alone: {line}" for line in found - wanted]
    )
