"""Log starts that have moved: one write, beside the loop, and what waits for it."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from pylog import errors
from pylog.model import BrokerId, Offset, TopicPartition
from pylog_broker.config import TopicConfig
from pylog_broker.replication.effects import DeleteRecordsDone, ReplicaFailed, WriteLogStarts
from pylog_broker.replication.offset_messages import DeleteRecords
from tests.fakes.broker_group import T0, TOPIC_ID, WALL_MS, BrokerGroup

ONE, TWO = BrokerId(1), BrokerId(2)
PARTITIONS = 3


def started(tmp_path: Path, brokers: int = 1) -> BrokerGroup:
    group = BrokerGroup(tmp_path, brokers)
    group.create_topic(tuple(range(1, brokers + 1)), partitions=PARTITIONS)
    group.run()
    for partition in range(PARTITIONS):
        for _ in range(4):
            group.produce(1, b"v", name=TopicPartition("t", partition))
    group.advance(10)
    return group


def delete(group: BrokerGroup, *partitions: int, offset: int = 3) -> object:
    wanted = tuple((TopicPartition("t", number), Offset(offset)) for number in partitions)
    return group.send(1, DeleteRecords(wanted, 5_000))


def low(group: BrokerGroup, token: object) -> list[tuple[int, int]]:
    done = group.answers[token]
    assert isinstance(done, DeleteRecordsDone)
    return [
        (mark.failure.code if mark.failure else 0, mark.low_watermark) for mark in done.watermarks
    ]


def next_write(group: BrokerGroup) -> WriteLogStarts:
    """Let the one step of a write that waits run."""
    [(broker, effect)] = group.waiting_start_writes
    group.waiting_start_writes.clear()
    group.write_starts(broker, effect)
    group.run()
    return effect


def starts_after_a_crash(group: BrokerGroup) -> list[int]:
    logs = group.logs[ONE]
    path = f"{logs.opened[0].directory}/log-start-offset-checkpoint"
    lines = Path(path).read_text().splitlines()[2:] if Path(path).exists() else []
    found = {int(line.split()[1]): int(line.split()[2]) for line in lines}
    return [found.get(number, 0) for number in range(PARTITIONS)]


def test_what_moved_in_a_step_is_one_write_and_its_answer_waits(tmp_path: Path) -> None:
    group = started(tmp_path)
    group.start_writes_wait = True
    token = delete(group, 0, 2)
    group.run()
    assert starts_after_a_crash(group) == [0, 0, 0]
    first = next_write(group)
    assert starts_after_a_crash(group) == [3, 0, 3]
    assert token not in group.answers, "the file's name may be lost with the power"
    assert next_write(group) is first
    assert low(group, token) == [(0, 3), (0, 3)]
    assert group.waiting_start_writes == []


def test_what_moves_while_a_write_runs_is_one_more_write(tmp_path: Path) -> None:
    group = started(tmp_path)
    group.start_writes_wait = True
    tokens = [delete(group, number) for number in range(PARTITIONS)]
    group.run()
    first = next_write(group)
    next_write(group)
    assert [token in group.answers for token in tokens] == [True, False, False]
    second = next_write(group)
    assert second is not first
    next_write(group)
    assert [low(group, token) for token in tokens] == [[(0, 3)]] * 3
    assert starts_after_a_crash(group) == [3, 3, 3]


def test_a_leader_does_not_hear_of_a_start_that_its_follower_would_forget(tmp_path: Path) -> None:
    group = started(tmp_path, 2)
    group.start_writes_wait = True
    token = delete(group, 0)
    group.advance(100)
    assert [broker for broker, _ in group.waiting_start_writes] == [ONE, TWO]
    (_, first), (_, second) = group.waiting_start_writes
    group.start_writes_wait = False
    group.write_starts(ONE, first)
    group.advance(2_000)
    assert token not in group.answers
    group.produce(1, b"others go on", name=TopicPartition("t", 1))
    group.advance(100)
    assert group.logs[TWO].by_id(TOPIC_ID, 1).log_end_offset == 5  # type: ignore[union-attr]
    group.write_starts(TWO, second)
    group.advance(100)
    assert low(group, token) == [(0, 3)]


def test_a_disk_that_refuses_the_write_takes_the_replicas_offline_that_waited(
    tmp_path: Path,
) -> None:
    group = started(tmp_path)
    files = group.files[ONE]
    opened = files.open

    def broken(path: str, *, create: bool = False) -> int:
        if "log-start" in path:
            raise OSError(errno.EIO, "Input/output error")
        return opened(path, create=create)

    files.open = broken  # type: ignore[method-assign]
    token = delete(group, 0)
    group.run()
    assert low(group, token) == [(errors.KafkaStorageError.code, -1)]
    failed = [effect for _, effect in group.other_effects if isinstance(effect, ReplicaFailed)]
    assert [effect.topic_partition for effect in failed] == [T0]


@pytest.mark.parametrize("from_checkpoint", [False, True])
def test_what_retention_gives_up_is_written_before_files_go(
    tmp_path: Path, from_checkpoint: bool
) -> None:
    group = started(tmp_path)
    logs = group.logs[ONE]
    log = logs.get(T0)
    assert log is not None
    log.roll(WALL_MS)
    log.config = TopicConfig(retention_bytes=0, file_delete_delay_ms=0)
    manager, core = logs.opened[0], group.managers[ONE]
    group.start_writes_wait = True
    for _ in range(2):
        group.now_ms += 30_000
        manager.maintain(group.now_ms, WALL_MS, core.high_watermarks())
        group._post(ONE, core.on_retained(group.now_ms))
        group.run()
    assert log.log_start_offset == 4
    if from_checkpoint:  # the periodic one comes in between, and leaves it alone
        task = manager.checkpoint_task(core.high_watermarks())
        task.run()
        manager.on_checkpointed(task)
        assert starts_after_a_crash(group)[0] == 0
    assert manager.removal_task(group.now_ms) is None
    next_write(group)
    next_write(group)
    assert starts_after_a_crash(group) == [4, 0, 0]
    manager.maintain(group.now_ms, WALL_MS, core.high_watermarks())
    removal = manager.removal_task(group.now_ms)
    assert removal is not None
    assert [path for path in removal.paths if "00000.log" in path]
