"""Claiming a log directory at a start: its lock, whose it is, and how its logs were left.

Here: what must be settled before any log may be opened. Not here: the files themselves
(`directory`, `clean_marker`), and opening the logs (`LogManager`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Self

from pylog.model import Offset
from pylog_broker.storage.directories.clean_marker import (
    CleanMarker,
    ClosedLog,
    take_clean_marker,
    unchanged,
)
from pylog_broker.storage.directories.directory import (
    MetaProperties,
    check_owner,
    lock_directory,
    read_meta,
    unwritable,
    write_meta,
)
from pylog_broker.storage.directories.partition_directories import refuse_orphans
from pylog_broker.storage.files import PASSES, Files
from pylog_broker.storage.recovery.recovery import LastStop


@contextmanager
def locked_while_opening(files: Files, directory: str) -> Iterator[int]:
    """The lock of `directory`, given back when what is done within fails.

    Raises DirectoryLocked, and DirectoryUnwritable for an OSError of the body.
    """
    lock = lock_directory(files, directory)
    try:
        yield lock
    except OSError as error:
        files.close(lock)
        raise unwritable(directory, error) from error
    except BaseException:
        files.close(lock)
        raise


@dataclass(frozen=True, slots=True)
class ClaimedDirectory:
    """The identity of a claimed directory. `marker`: the logs that a clean stop closed, None
    without one. `memory_survived`: neither the machine nor the disk has begun anew since, so that
    nothing written was lost. `is_written` False: the disk has no room to say so. The words on it
    are then those of an earlier life, so that the next one trusts it no more than this one may.
    """

    path: str
    meta: MetaProperties
    marker: CleanMarker | None
    memory_survived: bool
    is_written: bool

    @classmethod
    def claim(
        cls, files: Files, directory: str, claimant: MetaProperties, *, was_offline: bool = False
    ) -> Self:
        """Make a locked directory the claimant's; its directory id is taken if it is new.
        `was_offline`: its disk had failed, or was not there, when it was heard of last.

        Raises StorageStartError when it is another's or makes no sense, and OSError.
        """
        known = found = read_meta(files, directory)
        if found is None:
            refuse_orphans(files, directory)
            found = claimant
        check_owner(directory, found, claimant.cluster_id, claimant.broker_id)
        marker = take_clean_marker(files, directory)
        survived = claimant.shares_memory_with(found) and not was_offline
        intact = found.intact and (marker is not None or survived)
        meta = replace(
            found,
            boot_id=claimant.boot_id,
            mount_id=claimant.mount_id,
            clean=False,
            intact=intact,
        )
        # Lost records are truncated as the logs are opened. Until all are, and somebody was told,
        # the file names the life before: should this one end half-way, the next one must not take
        # what is missing for damage.
        told = meta
        if not (survived or intact):
            told = replace(meta, boot_id=found.boot_id, mount_id=found.mount_id)
        is_written = told == known or _write(files, directory, told, is_new=known is None)
        return cls(directory, meta, marker, survived, is_written)

    def last_stop(
        self,
        files: Files,
        name: str,
        recovery_point: Offset,
        *,
        is_suspect: bool,
        is_cleaned: bool,
    ) -> LastStop:
        """The state in which the log in the partition directory `name` was left. `is_suspect`: it
        was damaged before, so every CRC of it must be checked. `is_cleaned`: by a cleaner's
        checkpoint; Kafka leaves no other mark.
        """
        found = self._last_stop(files, name, recovery_point, is_suspect)
        return replace(found, cleaned=is_cleaned)

    def _last_stop(
        self, files: Files, name: str, recovery_point: Offset, is_suspect: bool
    ) -> LastStop:
        if is_suspect:
            return LastStop(recovery_point, 0, self.memory_survived)
        if self.marker is None:
            return LastStop(recovery_point, recovery_point, self.memory_survived)
        closed = self.marker.logs.get(name, ClosedLog({}, {}))
        same_logs, all_same = unchanged(files, f"{self.path}/{name}", closed)
        if not same_logs:
            return LastStop(recovery_point, 0, self.memory_survived, in_order=self.marker.by_kafka)
        return LastStop.clean(closed.facts if all_same else None)


def _write(files: Files, directory: str, meta: MetaProperties, *, is_new: bool) -> bool:
    """Whether it could be done. OSError when that does not pass, and for a new directory."""
    try:
        write_meta(files, directory, meta)
    except OSError as error:
        if is_new or error.errno not in PASSES:
            raise
        return False
    return True
