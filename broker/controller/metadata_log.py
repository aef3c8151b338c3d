"""The metadata log on disk: the shell's side of the controller.

    D/controller/.lock                       one controller at a time (flock)
    D/controller/meta.properties             cluster id, boot id, and how far all is synced for sure
    D/controller/__cluster_metadata-0/       the log, as any partition's
    D/controller/<offset>-<epoch>.metadata-snapshot    everything below the offset

One `AppendRecords` is a record batch, or several (`metadata_batches`): a crash keeps it whole or
not at all. An error that does not pass is the end of the process: what the controller decided can
then no longer become durable. (No asyncio and no clock here; the shell calls `flush` where it
likes, in a thread or not.) A snapshot is written beside all that, on a thread of its own
(`metadata_snapshots`); only its end is a step of the log.

Opening gives the newest whole snapshot and what the log says after it. A snapshot with a fault is
passed over for the next older one; the log is kept back to there. When no way leads from what is
on disk to a whole image, the start is refused: an empty cluster must never be put over data.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import suppress
from typing import Final, Self

from pylog.config import INT_MAX
from pylog.errors import PylogError
from pylog.model import ZERO_TOPIC_ID, LeaderEpoch, Offset, TopicPartition
from pylog_broker.config import TopicConfig
from pylog_broker.controller.effects import MetadataAppend, MetadataMachine, machine_of
from pylog_broker.controller.metadata_batches import WholeAppends, decode_batches, encode_append
from pylog_broker.controller.metadata_snapshots import (
    SnapshotTask,
    end_of,
    read_snapshot,
    snapshots_in,
)
from pylog_broker.metadata.image import MetadataImage
from pylog_broker.metadata.records import MetadataRecord
from pylog_broker.replicated.state_machine import LogSlice
from pylog_broker.storage.checkpoints.leader_epochs import EpochEndOffset
from pylog_broker.storage.errors import (
    DamagedBatch,
    DirectoryLocked,
    MetaPropertiesInvalid,
    PassingStorageError,
    StorageStartError,
)
from pylog_broker.storage.files import Files
from pylog_broker.storage.log.environment import TAIL_BYTES_MAX, Environment
from pylog_broker.storage.log.log import Log
from pylog_broker.storage.log.validator import INTERNAL
from pylog_broker.storage.recovery.recovery import LastStop
from pylog_broker.storage.tail_cache import TailBudget

METADATA_PARTITION: Final = TopicPartition("__cluster_metadata", 0)
SNAPSHOTS_KEPT: Final = 2
"""One more than is needed, should the newest be damaged; the log is kept back to the older."""

_LOCK: Final = ".lock"
_META: Final = "meta.properties"
_READ_BYTES: Final = 4 * 1024 * 1024

_CONFIG: Final = TopicConfig(
    max_message_bytes=INT_MAX, segment_bytes=64 * 1024 * 1024, segment_ms=2**62
)

logger = logging.getLogger(__name__)


class MetadataLost(StorageStartError):
    """The files cannot be put together to a whole metadata image; the message says why."""


class MetadataLog:
    """Owns the directory `D/controller`. Methods are called in order, from one thread at a time.

    `machine` has loaded what was recovered; it is handed to the controller, which goes on with it.
    """

    def __init__(self, files: Files, directory: str, lock: int, boot_id: str, wall_ms: int) -> None:
        """Not for callers: use `open`."""
        self._files = files
        self._directory = directory
        self._lock = lock
        self._boot_id = boot_id
        self._wall_ms = wall_ms
        self._meta: dict[str, str] = {}
        self._log: Log
        self.machine: MetadataMachine

    @classmethod
    def open(cls, files: Files, directory: str, *, boot_id: str = "", wall_ms: int = 0) -> Self:
        """Locks the directory (a new one is made) and recovers the image.

        `boot_id` tells whether the machine lost its memory since the last start; empty: unknown.
        Raises DirectoryLocked (retriable: another controller runs, or is just ending),
        MetaPropertiesInvalid, MetadataLost, CorruptSegment, KafkaStorageError, OSError.
        """
        if not files.exists(directory):
            files.mkdir(directory)
            # Else the name could go with a loss of power, and all that was synced below it.
            files.fsync_dir(directory.rpartition("/")[0] or "/")
        lock = files.try_lock(f"{directory}/{_LOCK}")
        if lock is None:
            raise DirectoryLocked(
                f"{directory} is locked: another controller of this cluster runs on it; stop that "
                "one, or give this one another data directory"
            )
        log = cls(files, directory, lock, boot_id, wall_ms)
        try:
            log._recover()
        except BaseException:
            files.close(lock)
            raise
        return log

    @property
    def image(self) -> MetadataImage:
        """The image as recovered, with all that was committed since."""
        return self.machine.committed

    @property
    def end_offset(self) -> Offset:
        """The offset of the next record to be appended."""
        return self._log.log_end_offset

    # ---- while the controller runs --------------------------------------------------------------

    def append(self, effect: MetadataAppend, *, epoch: LeaderEpoch, wall_ms: int) -> None:
        """Writes the records, all or none; durable after the next `flush`. `epoch` is the one under
        which its caller leads, `wall_ms` the time of the append.

        Raises KafkaStorageError, DiskFull among them: the process must end.
        """
        assert effect.first_offset == self._log.log_end_offset, "the log and the controller differ"
        self._wall_ms = wall_ms
        try:
            for batch in encode_append(effect.records, wall_ms):
                self._log.append_as_leader(
                    batch, leader_epoch=epoch, wall_ms=wall_ms, origin=INTERNAL
                )
        except PassingStorageError:
            if self._log.log_end_offset > effect.first_offset:  # the first parts of it are in
                with suppress(PassingStorageError):  # then the next use of the log finishes it
                    self._log.truncate_to(effect.first_offset)
            raise

    def slices(
        self, from_offset: Offset, *, bytes_max: int = _READ_BYTES
    ) -> Iterator[LogSlice[MetadataRecord]]:
        """The records of the log from an offset on, at which an append begins, to its end as it is
        now: in pieces of about so many bytes, or of one append. Control records are left out, and
        appends that were never finished.

        Raises CorruptSegment, KafkaStorageError, UnsupportedVersion.
        """
        end = self._log.log_end_offset
        whole = WholeAppends()
        while from_offset < end:
            try:
                read = self._log.read(from_offset, bytes_max, upper_bound=end)
            except DamagedBatch as error:
                raise self._log.give_up_damaged() from error
            appends = map(whole.add, decode_batches(bytes(read.records)))
            found = tuple(append for append in appends if append is not None)
            from_offset = Offset(read.next_offset)
            begun_at = whole.begun_at
            yield LogSlice(found, from_offset if begun_at is None else begun_at)

    def flush(self) -> Offset:
        """Makes everything appended durable; the last offset of it, for `on_committed`."""
        self._log.flush()
        return Offset(self._log.log_end_offset - 1)

    def end_for_epoch(self, epoch: LeaderEpoch) -> EpochEndOffset:
        """The largest epoch at or below `epoch` that wrote here, and where its records end: beyond
        that, a log that holds `epoch` and this one differ. (-1, -1) when `epoch` is newer than all
        that is here.
        """
        return self._log.epochs.end_offset_for(epoch, self._log.log_end_offset)

    def truncate_to(self, offset: Offset) -> Offset:
        """Removes what lies from `offset` on, and the whole batch that reaches beyond it; the new
        end. Records that a snapshot stands for are committed and must not go. `image` is still
        what was recovered: a machine that has seen what goes resigns, and another one is loaded.

        Raises KafkaStorageError; after a PassingStorageError the log is cut all the same.
        """
        newest = max(map(end_of, self._snapshots()), default=Offset(0))
        assert offset >= newest, f"a snapshot stands for everything below {newest}"
        return self._log.truncate_to(offset)

    def snapshot_task(self, image: MetadataImage) -> SnapshotTask:
        """Writes `image`, which must be committed, as it is now: `run` it on any thread, then
        `on_snapshot`. Not a call of the log: it may come while another one runs.
        """
        return SnapshotTask(self._files, self._directory, image)

    def on_snapshot(self, task: SnapshotTask) -> None:
        """A snapshot is written: drops what no start needs any more. The log keeps everything
        behind the older of the kept snapshots, and with it all that was appended meanwhile.

        Raises what went wrong over writing it, OSError and KafkaStorageError; after an OSError or a
        PassingStorageError the controller may go on without it.
        """
        if task.error is not None:
            raise task.error
        assert task.end_offset <= self._log.log_end_offset
        self._write_meta(task.cluster_id)
        self._log.roll(self._wall_ms)
        names = self._snapshots()
        kept = names[-SNAPSHOTS_KEPT:]
        for old in names[:-SNAPSHOTS_KEPT]:
            self._files.unlink(f"{self._directory}/{old}")
        if len(kept) == SNAPSHOTS_KEPT:
            # In this order a crash in between only leaves more than is needed.
            self._log.advance_log_start(end_of(kept[0]))
            for segment in self._log.delete_old_segments():
                self._files.unlink(segment)

    def remember_cluster(self, cluster_id: str) -> None:
        """Notes the cluster's id beside the log, so that a lost log is noticed. After the first
        commit; a repeat costs nothing.
        """
        if cluster_id != self._meta.get("cluster.id"):
            self._write_meta(cluster_id)

    def close(self) -> None:
        """Gives the directory back."""
        try:
            self._log.close(clean=self._log.failure is None)
        finally:
            self._files.close(self._lock)

    # ---- recovery ------------------------------------------------------------------------------

    def _recover(self) -> None:
        self._meta = self._read_meta()
        snapshots = self._snapshots()
        path = f"{self._directory}/{METADATA_PARTITION}"
        if not self._files.exists(path) and (snapshots or self._meta.get("cluster.id")):
            raise MetadataLost(
                f"{path} is missing, but {self._directory} belongs to cluster "
                f"{self._meta.get('cluster.id', '(unknown)')}; put it back, or start a new cluster "
                "in another data directory"
            )
        synced = int(self._meta.get("synced.offset", "0"))
        same_boot = bool(self._boot_id) and self._boot_id == self._meta.get("boot.id")
        self._log = Log.open(
            self._files,
            path,
            METADATA_PARTITION,
            ZERO_TOPIC_ID,
            _CONFIG,
            wall_ms=self._wall_ms,
            last_stop=LastStop(recovery_point=synced, memory_survived=same_boot),
            environment=Environment(
                TailBudget(TAIL_BYTES_MAX), recovery_point_lowered=self._lower_synced
            ),
        )
        if self._log.damage:  # what follows from the lost records, too, would be wrong
            raise self._log.give_up_damaged()
        if self._log.log_end_offset < synced:
            raise MetadataLost(
                f"the metadata log in {path} ends at {self._log.log_end_offset}, but everything "
                f"below {synced} was synced to disk: the disk has lost it; restore the directory "
                "from a copy"
            )
        self._log.flush()
        self.machine = machine = machine_of(self._from_snapshot(snapshots))
        for read in self.slices(machine.next_offset):
            machine.load(read)
            # an only voter has committed what is in its log
            machine.commit(Offset(machine.next_offset - 1))
        expected = self._meta.get("cluster.id", "")
        if expected and self.image.cluster_id != expected:
            raise MetadataLost(
                f"{self._directory} belongs to cluster {expected}, but its log is of "
                f"{self.image.cluster_id or 'no cluster: it is empty'}; put the log back, or start "
                "a new cluster in another data directory"
            )
        if self.image.cluster_id:
            self._write_meta(self.image.cluster_id)

    def _from_snapshot(self, names: list[str]) -> MetadataImage:
        """The newest whole snapshot that the log goes on from; empty when the log has it all."""
        start, end = self._log.log_start_offset, self._log.log_end_offset
        for name in reversed(names):
            at = end_of(name)
            path = f"{self._directory}/{name}"
            try:
                records = read_snapshot(self._files.read_all(path))
            except PylogError as error:
                logger.warning("the snapshot %s is damaged (%s): trying an older one", path, error)
                continue
            if start <= at <= end:
                return MetadataImage.from_records(records, Offset(at - 1))
            logger.warning(
                "the snapshot %s ends at %d, the log holds [%d, %d): trying an older one",
                path, at, start, end,
            )  # fmt: skip
        newest = end_of(names[-1]) if names else Offset(0)
        if start > 0 or newest > end:
            raise MetadataLost(
                f"the metadata log in {self._directory} holds the offsets [{start}, {end}), and no "
                f"whole snapshot among {names or 'none'} leads there; restore the directory from a "
                "copy"
            )
        return MetadataImage()

    def _snapshots(self) -> list[str]:
        return snapshots_in(self._files, self._directory)

    def _read_meta(self) -> dict[str, str]:
        path = f"{self._directory}/{_META}"
        if not self._files.exists(path):
            return {}
        text = self._files.read_all(path).decode("utf-8", "replace")
        lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
        values = dict(line.split("=", 1) for line in lines if "=" in line)
        if (
            values.get("version") != "1"
            or not values.get("cluster.id")
            or not values.get("synced.offset", "0").isdecimal()
        ):
            raise MetaPropertiesInvalid(
                f"{path} is damaged or of another version: it needs the lines version=1, "
                "cluster.id=... and synced.offset=<number>; restore it, or delete it if the log "
                "beside it is whole"
            )
        return values

    def _lower_synced(self, offset: int) -> None:
        """Before records are cut that were synced: a start must not miss them."""
        if offset < int(self._meta.get("synced.offset", "0")):
            self._store_meta({**self._meta, "synced.offset": str(offset)})

    def _write_meta(self, cluster_id: str) -> None:
        self._store_meta(
            {
                "version": "1",
                "cluster.id": cluster_id,
                "boot.id": self._boot_id,
                "synced.offset": str(self._log.recovery_point),
            }
        )

    def _store_meta(self, values: dict[str, str]) -> None:
        self._meta = values
        text = "".join(f"{key}={value}\n" for key, value in self._meta.items())
        self._files.write_atomic(f"{self._directory}/{_META}", text.encode())
