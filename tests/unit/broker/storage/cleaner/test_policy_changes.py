"""B-S30: cleanup policies change, topics are deleted and made anew, while the cleaner is at work.

One thread plays the broker's loop, others run the cleaner's passes and remove files, on a real disk
as in a broker. The records that each topic must hold are known throughout. A sample runs with the
unit tests, 1,000 changes with `make storage-model` (STORAGE_POLICY_CHANGES).
"""

from __future__ import annotations

import os
import random
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from pylog.model import BrokerId, LeaderEpoch, Offset, TopicId, TopicPartition
from pylog.records.builder import encode_batch
from pylog.records.reader import iter_records
from pylog_broker.config import BrokerConfig, TopicConfig
from pylog_broker.storage.cleaner.clean_task import CleanTask
from pylog_broker.storage.files import OsFiles
from pylog_broker.storage.log.log import Log
from pylog_broker.storage.manager.manager import LogManager
from tests.fakes.logs import WALL_MS, read_all

CHANGES = int(os.environ.get("STORAGE_POLICY_CHANGES", "100"))
POLICIES = (("compact",), ("delete",), ("compact", "delete"))
PARTITIONS = [TopicPartition(f"topic-{n}", 0) for n in range(3)]


@dataclass(slots=True)
class Topic:
    """The records that were written to a topic in its present life."""

    log: Log
    written: dict[int, tuple[bytes, bytes]] = field(default_factory=dict)


def opened(root: Path) -> LogManager:
    return LogManager.open(
        OsFiles(),
        str(root),
        cluster_id="c",
        broker_id=BrokerId(1),
        boot_id="b",
        new_directory_id="d",
        wall_ms=WALL_MS,
        config=BrokerConfig(log_initial_task_delay_ms=0, log_retention_check_interval_ms=1),
    )


class Broker:
    """The loop's part."""

    def __init__(self, root: Path, rng: random.Random) -> None:
        self.rng = rng
        self.lives = 0
        self.now_ms = 0
        self.passes = 0
        self.pool = ThreadPoolExecutor(3)
        self.running: tuple[CleanTask, Future[None]] | None = None
        self.manager = opened(root)
        self.topics = {key: self.new(key) for key in PARTITIONS}

    def settings(self, policy: tuple[str, ...]) -> TopicConfig:
        return TopicConfig(
            cleanup_policy=policy,
            segment_bytes=self.rng.choice([600, 3000]),
            index_interval_bytes=200,
            min_cleanable_dirty_ratio=0.0,
            retention_ms=-1,
            retention_bytes=self.rng.choice([-1, 20_000]),
            file_delete_delay_ms=0,
            delete_retention_ms=0,
        )

    def new(self, key: TopicPartition) -> Topic:
        self.lives += 1
        topic_id = TopicId(f"{self.lives:021d}A")
        config = self.settings(self.rng.choice(POLICIES))
        return Topic(self.manager.create(key, topic_id, config, wall_ms=WALL_MS))

    def change(self) -> None:
        key = self.rng.choice(PARTITIONS)
        topic = self.topics[key]
        what = self.rng.random()
        if what < 0.15:
            gone = self.manager.delete(key)
            assert gone is not None
            self.pool.submit(self.manager.remove_directory, gone)
            self.topics[key] = self.new(key)
        elif what < 0.25:
            offset = self.rng.randint(topic.log.log_start_offset, topic.log.log_end_offset)
            topic.log.advance_log_start(Offset(offset))
        else:
            topic.log.config = self.settings(self.rng.choice(POLICIES))

    def append(self) -> None:
        for topic in self.topics.values():
            keys: list[bytes | None] = [b"%d" % self.rng.randrange(30) for _ in range(6)]
            values: list[bytes | None] = [b"%d" % self.rng.randrange(10**9) for _ in range(6)]
            batch = encode_batch(values, keys=keys, timestamps=WALL_MS)
            info = topic.log.append_as_leader(batch, leader_epoch=LeaderEpoch(0), wall_ms=WALL_MS)
            for number, pair in enumerate(zip(keys, values, strict=True)):
                assert pair[0] is not None
                assert pair[1] is not None
                topic.written[info.base_offset + number] = (pair[0], pair[1])

    def maintain(self) -> None:
        self.now_ms += 10
        marks = {key: topic.log.log_end_offset for key, topic in self.topics.items()}
        self.manager.maintain(self.now_ms, WALL_MS, marks)
        removal = self.manager.removal_task(self.now_ms)
        if removal is not None:
            self.pool.submit(removal.run)
        if self.running is not None and self.running[1].done():
            task, ran = self.running
            ran.result()
            more = self.manager.cleaner.on_ran(task)
            self.running = (task, self.pool.submit(task.run)) if more else None
        if self.running is None:
            next_task = self.manager.cleaner.next_task(WALL_MS, marks)
            if next_task is not None:
                self.passes += 1
                self.running = (next_task, self.pool.submit(next_task.run))


def check(topics: Mapping[TopicPartition, Topic]) -> None:
    """Nothing that was not written, and the last of each key behind the log's start."""
    for key, topic in topics.items():
        log, start = topic.log, topic.log.log_start_offset
        assert log.failure is None
        found = {
            record.offset: (record.key, record.value)
            for record in iter_records(read_all(log), key.topic, 0, from_offset=start)
        }
        assert found.items() <= topic.written.items()
        newest = {pair[0]: offset for offset, pair in topic.written.items()}
        for offset in newest.values():
            assert offset < start or offset in found, (key, offset)


def test_policies_change_while_the_cleaner_is_at_work(tmp_path: Path) -> None:
    broker = Broker(tmp_path, random.Random(30))
    with broker.pool:
        for number in range(CHANGES):
            broker.change()
            broker.append()
            broker.maintain()
            if number % 50 == 0:
                check(broker.topics)
    check(broker.topics)
    assert broker.passes > CHANGES // 10
    assert not broker.manager.cleaner.uncleanable
    ends = {k: (t.log.log_start_offset, t.log.log_end_offset) for k, t in broker.topics.items()}
    broker.manager.close(clean=True)
    manager = opened(tmp_path)
    again = {log.topic_partition: log for log in manager.logs}
    assert {k: (log.log_start_offset, log.log_end_offset) for k, log in again.items()} == ends
    check({key: Topic(again[key], topic.written) for key, topic in broker.topics.items()})
    manager.close(clean=True)
