"""The metadata log on disk: what a restart finds, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pylog.model import ControllerEpoch, LeaderEpoch, Offset
from pylog.records.batch import BatchHeader, iter_headers
from pylog.records.builder import ControlType, encode_control_batch
from pylog_broker.controller import metadata_batches
from pylog_broker.controller.effects import AppendRecords, Effect
from pylog_broker.controller.metadata_log import METADATA_PARTITION, MetadataLog, MetadataLost
from pylog_broker.controller.settings import ControllerSettings
from pylog_broker.metadata.image import MetadataImage
from pylog_broker.metadata.records import (
    ClusterRecord,
    ConfigRecord,
    ConfigResourceType,
    ControllerEpochRecord,
    MetadataRecord,
)
from pylog_broker.replicated.state_machine import ReplicatedStateMachine
from pylog_broker.storage.errors import (
    CorruptSegment,
    DirectoryLocked,
    DiskFull,
    MetaPropertiesInvalid,
)
from pylog_broker.storage.files import OsFiles
from pylog_broker.storage.log.validator import INTERNAL
from tests.fakes.controller_shell import ControllerShell
from tests.fakes.memory_files import MemoryFiles


class DurableShell(ControllerShell):
    """A controller on a directory: appends go to disk before they are committed."""

    def __init__(self, directory: Path, boot_id: str = "boot") -> None:
        self.metadata = MetadataLog.open(OsFiles(), str(directory), boot_id=boot_id)
        super().__init__(
            self.metadata.image,
            settings=ControllerSettings(expected_brokers=3),
            next_offset=self.metadata.end_offset,
        )
        self.metadata.remember_cluster(self.controller.image.cluster_id)

    def perform(self, effects: list[Effect]) -> list[Effect]:
        for effect in effects:
            if isinstance(effect, AppendRecords):
                self.metadata.append(effect, epoch=self.epoch(), wall_ms=self.now_ms)
                assert self.metadata.flush() == effect.last_offset
        return super().perform(effects)

    def epoch(self) -> LeaderEpoch:
        return LeaderEpoch(self.controller.controller_epoch)

    def snapshot(self) -> Path:
        task = self.metadata.snapshot_task(self.controller.image)
        task.run()
        self.metadata.on_snapshot(task)
        return Path(task.path)


def busy(directory: Path) -> DurableShell:
    """A cluster with something in its metadata."""
    shell = DurableShell(directory)
    for number in (1, 2, 3):
        shell.join(number)
    shell.create("a", partitions=5, config={"retention.ms": "5"})
    return shell


def reopened(directory: Path, boot_id: str = "boot") -> MetadataImage:
    log = MetadataLog.open(OsFiles(), str(directory), boot_id=boot_id)
    log.close()
    return log.image


def segments(directory: Path) -> list[Path]:
    return sorted((directory / str(METADATA_PARTITION)).glob("*.log"))


def copied(image: MetadataImage) -> MetadataImage:
    return MetadataImage.from_records(image.records(), image.offset)


def loaded(
    log: MetadataLog, bytes_max: int
) -> ReplicatedStateMachine[MetadataImage, MetadataRecord, Effect]:
    """A machine that has read the log in slices."""
    machine = ReplicatedStateMachine[MetadataImage, MetadataRecord, Effect](
        MetadataImage(), MetadataImage()
    )
    for read in log.slices(Offset(0), bytes_max=bytes_max):
        machine.load(read)
    return machine


def damage(path: Path, position: int) -> None:
    raw = bytearray(path.read_bytes())
    raw[position] ^= 0x10
    path.write_bytes(raw)


def test_a_new_directory_is_an_empty_image(tmp_path: Path) -> None:
    assert reopened(tmp_path / "controller") == MetadataImage()


@pytest.mark.parametrize("boot_id", ["boot", "another", ""])
def test_a_restart_finds_everything(tmp_path: Path, boot_id: str) -> None:
    shell = busy(tmp_path)
    shell.metadata.close()
    assert reopened(tmp_path, boot_id) == shell.controller.image


def test_without_a_close_too(tmp_path: Path) -> None:
    shell = busy(tmp_path)
    image = shell.controller.image
    copy = tmp_path / "copy"
    _copy(tmp_path, copy)
    assert reopened(copy) == image


def _copy(source: Path, target: Path) -> None:
    """Copy what a kill leaves: the files as they are, without the lock."""
    for path in sorted(source.rglob("*")):
        if path.is_file() and target not in path.parents:
            to = target / path.relative_to(source)
            to.parent.mkdir(parents=True, exist_ok=True)
            to.write_bytes(path.read_bytes())


def test_a_second_controller_is_refused(tmp_path: Path) -> None:
    # Q-P12
    shell = busy(tmp_path)
    with pytest.raises(DirectoryLocked, match="another controller"):
        reopened(tmp_path)
    shell.metadata.close()
    assert reopened(tmp_path).cluster_id


def test_each_start_raises_the_controller_epoch(tmp_path: Path) -> None:
    for epoch in (1, 2, 3):
        shell = DurableShell(tmp_path)
        assert shell.controller.controller_epoch == epoch
        shell.metadata.close()


def test_a_torn_last_append_is_cut_whole(tmp_path: Path) -> None:
    shell = busy(tmp_path)
    before = copied(shell.controller.image)
    shell.create("b", partitions=50)
    shell.metadata.close()
    (path,) = segments(tmp_path)
    path.write_bytes(path.read_bytes()[:-3])
    meta = tmp_path / "meta.properties"  # the sync of the clean close is not what we test
    meta.write_text(meta.read_text().split("synced.offset")[0] + "synced.offset=0\n")
    assert reopened(tmp_path) == before


def headers(directory: Path) -> list[BatchHeader]:
    return [header for path in segments(directory) for _, header in iter_headers(path.read_bytes())]


def test_each_batch_carries_the_epoch_and_the_time_of_its_append(tmp_path: Path) -> None:
    shell = DurableShell(tmp_path)
    shell.now_ms = 2_000
    shell.join(1)
    shell.metadata.close()
    shell = DurableShell(tmp_path)
    shell.metadata.close()
    found = [
        (header.partition_leader_epoch, header.base_timestamp, header.max_timestamp)
        for header in headers(tmp_path)
    ]
    # Its first batch, too, which raises the epoch.
    assert found == [(1, 1_000, 1_000), (1, 2_000, 2_000), (1, 2_000, 2_000), (2, 1_000, 1_000)]


# ---- offsets that are not metadata's ------------------------------------------------------------


def add_control_record(log: MetadataLog) -> None:
    marker = encode_control_batch(
        ControlType.COMMIT, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp_ms=5
    )
    log._log.append_as_leader(marker, leader_epoch=LeaderEpoch(1), wall_ms=5, origin=INTERNAL)


def test_control_records_take_offsets_and_say_nothing(tmp_path: Path) -> None:
    shell = busy(tmp_path)
    image = shell.controller.image
    for _ in range(2):
        add_control_record(shell.metadata)
    assert shell.metadata.flush() == image.offset + 2
    shell.metadata.close()
    assert reopened(tmp_path) == image

    again = DurableShell(tmp_path)
    again.create("b", replication=1, assignment={0: [1]})
    assert again.log[0] == ControllerEpochRecord(ControllerEpoch(2))
    assert again.first_offset == image.offset + 3
    again.metadata.close()
    assert reopened(tmp_path) == again.controller.image


def test_a_snapshot_before_control_records(tmp_path: Path) -> None:
    shell = busy(tmp_path)
    add_control_record(shell.metadata)
    shell.snapshot()
    shell.metadata.close()
    assert reopened(tmp_path) == shell.controller.image


@pytest.mark.parametrize("bytes_max", [1, 500, 1_000_000])
def test_the_log_is_read_in_slices(tmp_path: Path, bytes_max: int) -> None:
    shell = busy(tmp_path)
    add_control_record(shell.metadata)
    shell.metadata.close()
    shell = DurableShell(tmp_path)
    shell.create("b", replication=1, assignment={0: [1]})
    machine = loaded(shell.metadata, bytes_max)
    slices = list(shell.metadata.slices(Offset(0), bytes_max=bytes_max))
    assert machine.decided == shell.controller.image
    assert machine.next_offset == shell.metadata.end_offset
    assert (len(slices) == 1) == (bytes_max > 100_000)
    assert list(shell.metadata.slices(shell.metadata.end_offset)) == []


# ---- appends above the bound of a batch -------------------------------------------------------


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata_batches, "BATCH_RECORDS_MAX", 3)


@pytest.mark.usefixtures("small_batches")
def test_a_large_append_lies_in_several_batches_and_is_found_whole(tmp_path: Path) -> None:
    shell = busy(tmp_path)
    assert max(header.record_count for header in headers(tmp_path)) == 3
    for bytes_max in (1, 200):  # its parts come in several slices
        machine = loaded(shell.metadata, bytes_max)
        assert machine.decided == shell.controller.image
    shell.metadata.close()
    assert reopened(tmp_path) == shell.controller.image


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("parts", [1, 2])
def test_an_append_that_a_crash_cut_short_is_not_there(tmp_path: Path, parts: int) -> None:
    shell = busy(tmp_path)
    before = copied(shell.controller.image)
    end = shell.metadata.end_offset
    records = tuple(
        ConfigRecord(ConfigResourceType.TOPIC, "a", f"name-{number}", "5") for number in range(9)
    )
    for batch in metadata_batches.encode_append(records, 7)[:parts]:
        shell.metadata._log.append_as_leader(
            batch, leader_epoch=LeaderEpoch(1), wall_ms=7, origin=INTERNAL
        )
    assert shell.metadata.flush() == end + 3 * parts - 1
    assert [read.next_offset for read in shell.metadata.slices(end)] == [end]
    shell.metadata.close()
    assert reopened(tmp_path) == before

    again = DurableShell(tmp_path)  # goes on behind it
    again.create("b", replication=1, partitions=5, assignment={n: [1] for n in range(5)})
    assert again.first_offset == end + 3 * parts
    again.metadata.close()
    assert reopened(tmp_path) == again.controller.image
    assert "name-0" not in again.controller.image.topic_configs("a")


@pytest.mark.usefixtures("small_batches")
def test_an_append_that_finds_no_room_half_way_is_taken_back() -> None:
    files = MemoryFiles()
    log = MetadataLog.open(files, "/controller")
    records = tuple(
        ConfigRecord(ConfigResourceType.TOPIC, "a", f"name-{number}", "5") for number in range(9)
    )
    append = AppendRecords(Offset(0), records)
    files.capacity = files._used() + 250  # one part, and some of the second
    with pytest.raises(DiskFull):
        log.append(append, epoch=LeaderEpoch(1), wall_ms=5)
    assert log.end_offset == 0
    files.capacity = None
    log.append(append, epoch=LeaderEpoch(1), wall_ms=5)
    assert log.flush() == 8
    assert [read.appends for read in log.slices(Offset(0))] == [(append,)]


def test_the_bounds_of_a_batch() -> None:
    record = ConfigRecord(ConfigResourceType.TOPIC, "a", "name", "x" * 1_000)
    small = ConfigRecord(ConfigResourceType.TOPIC, "a", "name", "x")
    huge = ConfigRecord(ConfigResourceType.TOPIC, "a", "name", "x" * 2_000_000)
    for records in ([small] * 25_000, [record] * 3_000, [small, huge, small], [huge], [small]):
        batches = metadata_batches.encode_append(records, 5)
        found = list(metadata_batches.decode_batches(b"".join(batches)))
        assert [each for batch in found for each in batch.records] == records
        for batch in found:
            assert batch.header.record_count <= 10_000
            assert batch.header.size < 1_100_000 or batch.header.record_count == 1
        assert [batch.part for batch in found] == [
            (number, len(found)) for number in range(1, len(found) + 1)
        ]


# ---- truncation, and where epochs end ---------------------------------------------------------


def test_a_log_tells_where_an_epoch_ends_and_is_truncated_there(tmp_path: Path) -> None:
    log = MetadataLog.open(OsFiles(), str(tmp_path / "controller"))
    records = (ClusterRecord("c"), ControllerEpochRecord(ControllerEpoch(2)))
    for offset, epoch, said in ((0, 2, records), (2, 2, records[1:]), (3, 5, records[1:])):
        log.append(AppendRecords(Offset(offset), said), epoch=LeaderEpoch(epoch), wall_ms=7)
    log.flush()
    log.remember_cluster("c")
    assert [log.end_for_epoch(LeaderEpoch(epoch)) for epoch in (1, 2, 4, 5, 6)] == [
        (1, 0), (2, 3), (2, 3), (5, 4), (-1, -1),
    ]  # fmt: skip
    assert log.truncate_to(Offset(3)) == 3
    assert log.end_for_epoch(LeaderEpoch(5)) == (-1, -1)
    assert log.truncate_to(Offset(1)) == 0, "a batch goes as a whole"
    log.append(AppendRecords(Offset(0), records), epoch=LeaderEpoch(7), wall_ms=8)
    log.close()
    # Records that were synced before the truncation are not missed.
    assert reopened(tmp_path / "controller").offset == 1
    assert "synced.offset=2" in (tmp_path / "controller" / "meta.properties").read_text()


def test_what_a_snapshot_stands_for_is_not_truncated(tmp_path: Path) -> None:
    shell = busy(tmp_path)
    shell.snapshot()
    with pytest.raises(AssertionError, match="a snapshot stands for everything below"):
        shell.metadata.truncate_to(shell.controller.image.offset)


# ---- snapshots ---------------------------------------------------------------------------------


def test_a_snapshot_and_the_log_after_it(tmp_path: Path) -> None:
    shell = busy(tmp_path)
    path = shell.snapshot()
    assert path.name == f"{shell.controller.image.offset + 1:020d}-0000000001.metadata-snapshot"
    shell.create("b")
    shell.metadata.close()
    assert reopened(tmp_path) == shell.controller.image


def test_old_snapshots_and_segments_go(tmp_path: Path) -> None:
    shell = busy(tmp_path)
    for name in "bcde":
        shell.create(name)
        shell.snapshot()
    assert len(list(tmp_path.glob("*.metadata-snapshot"))) == 2
    oldest = min(int(path.name[:20]) for path in tmp_path.glob("*.metadata-snapshot"))
    assert int(segments(tmp_path)[0].name[:20]) <= oldest
    assert len(segments(tmp_path)) == 2
    shell.create("f")
    shell.metadata.close()
    assert reopened(tmp_path) == shell.controller.image
    # and the shortened log goes on being written
    again = DurableShell(tmp_path)
    again.create("g", replication=1, assignment={0: [1]})
    again.metadata.close()
    assert reopened(tmp_path) == again.controller.image


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-10])


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _flip(path: Path) -> None:
    damage(path, path.stat().st_size // 2)


def _flip_count(path: Path) -> None:
    damage(path, 15)


@pytest.mark.parametrize("spoil", [_cut, _empty, _flip, _flip_count])
def test_a_damaged_snapshot_is_passed_over(tmp_path: Path, spoil: Callable[[Path], None]) -> None:
    # bad input 79
    shell = busy(tmp_path)
    shell.snapshot()
    shell.create("b")
    shell.snapshot()
    shell.create("c")
    newest = shell.snapshot()
    shell.metadata.close()
    spoil(newest)
    assert reopened(tmp_path) == shell.controller.image


def test_without_any_whole_snapshot_the_start_is_refused(tmp_path: Path) -> None:
    shell = busy(tmp_path)
    for name in "bcd":
        shell.create(name)
        shell.snapshot()
    shell.metadata.close()
    for path in tmp_path.glob("*.metadata-snapshot"):
        _flip(path)
    with pytest.raises(MetadataLost, match="no whole snapshot"):
        reopened(tmp_path)


def test_a_half_written_snapshot_is_no_snapshot(tmp_path: Path) -> None:
    shell = busy(tmp_path)
    path = shell.snapshot()
    shell.metadata.close()
    path.rename(path.with_suffix(".metadata-snapshot.tmp"))
    assert reopened(tmp_path) == shell.controller.image


# ---- never an empty cluster over data ----------------------------------------------------------


def test_a_missing_log_is_refused(tmp_path: Path) -> None:
    shell = busy(tmp_path)
    shell.metadata.close()
    (tmp_path / str(METADATA_PARTITION)).rename(tmp_path / "moved")
    with pytest.raises(MetadataLost, match="is missing"):
        reopened(tmp_path)


def test_an_emptied_log_is_refused(tmp_path: Path) -> None:
    shell = busy(tmp_path)
    shell.metadata.close()
    assert reopened(tmp_path)  # notes how far everything is synced
    (path,) = segments(tmp_path)
    path.write_bytes(b"")
    with pytest.raises(MetadataLost, match="the disk has lost it"):
        reopened(tmp_path)


def test_a_log_of_another_cluster_is_refused(tmp_path: Path) -> None:
    shell = busy(tmp_path)
    shell.metadata.close()
    meta = tmp_path / "meta.properties"
    cluster = shell.controller.image.cluster_id
    meta.write_text(meta.read_text().replace(cluster, "another"))
    with pytest.raises(MetadataLost, match="belongs to cluster another"):
        reopened(tmp_path)


@pytest.mark.parametrize("text", ["", "garbage", "version=2\ncluster.id=c\n", "version=1\n"])
def test_a_damaged_meta_properties_is_refused(tmp_path: Path, text: str) -> None:
    shell = busy(tmp_path)
    shell.metadata.close()
    (tmp_path / "meta.properties").write_text(text)
    with pytest.raises(MetaPropertiesInvalid, match=r"meta\.properties is damaged"):
        reopened(tmp_path)


def test_a_missing_meta_properties_is_written_anew(tmp_path: Path) -> None:
    shell = busy(tmp_path)
    shell.metadata.close()
    (tmp_path / "meta.properties").unlink()
    assert reopened(tmp_path) == shell.controller.image
    assert (tmp_path / "meta.properties").exists()


def test_rot_in_the_middle_is_not_cut_away(tmp_path: Path) -> None:
    shell = busy(tmp_path)
    shell.metadata.close()
    (path,) = segments(tmp_path)
    damage(path, 100)
    with pytest.raises(CorruptSegment):
        reopened(tmp_path)
    path_size = path.stat().st_size
    with pytest.raises(CorruptSegment):
        reopened(tmp_path)
    assert path.stat().st_size == path_size


def test_a_failed_start_gives_the_lock_back(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("garbage")
    for _ in range(2):
        with pytest.raises(MetaPropertiesInvalid):
            reopened(tmp_path)
