"""Opening a broker's log directories at its start, each by a step that may run on any thread.

A mistake of whoever set them up (another broker's directory, no permission, a copy) ends the start,
by an error that names the directory. A disk that is missing or does not work leaves its directory
offline, as long as one other works.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from pylog.errors import KafkaStorageError
from pylog_broker.config import BrokerConfig
from pylog_broker.storage.directories.directory import (
    LOCK_FILE,
    META_PROPERTIES,
    MetaProperties,
    read_meta,
)
from pylog_broker.storage.directories.left_behind import starts_left_behind
from pylog_broker.storage.directories.roster import ROSTER, Roster, newest_roster, write_roster
from pylog_broker.storage.errors import (
    DirectoryLocked,
    DirectoryUnwritable,
    MetaPropertiesInvalid,
    StartPutOff,
    StorageStartError,
)
from pylog_broker.storage.files import NO_ROOM, Files, is_of_the_moment
from pylog_broker.storage.manager.log_directories import (
    LogDirectories,
    OfflineDirectory,
    config_of_each,
)
from pylog_broker.storage.manager.manager import LogManager
from pylog_broker.storage.producers.producer_budget import ProducerBudget
from pylog_broker.storage.segments.open_segments import OpenSegments
from pylog_broker.storage.tail_cache import TailBudget

_MISTAKES: Final = frozenset({errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EEXIST, errno.ELOOP})
"""Errors of a start that the operator of the directory must mend; others are the disk's."""

logger = logging.getLogger(__name__)


class Opening:
    """One start. Run each of `steps`, at the same time if you like, then `finish`."""

    def __init__(
        self,
        files: Files,
        paths: Sequence[str],
        owner: MetaProperties,
        *,
        new_directory_id: Callable[[], str],
        wall_ms: int,
        config: BrokerConfig | None = None,
        mount_of: Callable[[str], str] = lambda path: "",
        open_segments_max: int = sys.maxsize,
    ) -> None:
        """`owner`: whose they are to be; its directory id counts for nothing. `mount_of(path)`: the
        `MetaProperties.mount_id` of a directory. `open_segments_max`: how many full segments all
        logs together keep open for readers.

        Raises DirectoryLocked when one of them is in use, and StartPutOff: try again.
        """
        self._files = files
        self._paths = tuple(paths)
        self._owner = owner
        self._wall_ms = wall_ms
        self._mount_of = mount_of
        self._config = config or BrokerConfig()
        self._tail_budget = TailBudget(self._config.log_tail_cache_max_bytes)
        self._readers = OpenSegments(open_segments_max)
        self._producer_budget = ProducerBudget()
        self._opened: dict[str, LogManager] = {}
        self._faults: dict[str, Exception] = {}
        self._roster = newest_roster(files, paths)
        for path in paths:
            self._look_for_lock(path)
        self._starts_left_behind = starts_left_behind(files, paths, self._roster)
        self.steps = [partial(self._open, path, new_directory_id()) for path in paths]
        """Each opens one directory, or notes why not. They raise nothing."""

    def _look_for_lock(self, path: str) -> None:
        """Before the first log is read: a predecessor that still flushes is the usual case."""
        lock = f"{path}/{LOCK_FILE}"
        try:
            if not self._files.exists(lock):
                return
            handle = self._files.try_lock(lock)
        except OSError:
            return  # opening it will tell
        if handle is None:
            raise DirectoryLocked(
                f"{path} is in use by another process; stop that one, or use another directory"
            )
        self._files.close(handle)

    def _open(self, path: str, new_directory_id: str) -> None:
        owner = self._owner
        try:
            self._refuse_missing(path)
            manager = LogManager.open(
                self._files,
                path,
                cluster_id=owner.cluster_id,
                broker_id=owner.broker_id,
                boot_id=owner.boot_id,
                new_directory_id=new_directory_id,
                wall_ms=self._wall_ms,
                config=config_of_each(self._config, len(self._paths)),
                tail_budget=self._tail_budget,
                readers=self._readers,
                producer_budget=self._producer_budget,
                mount_id=self._mount_of(path),
                was_offline=path in self._roster.doubtful,
                starts_left_behind=self._starts_left_behind,
            )
            if len(self._paths) > 1:
                _refuse_failing(manager)
            self._opened[path] = manager
        except Exception as error:  # noqa: BLE001 - raised by `finish`, on the caller's thread
            self._faults[path] = error

    def _refuse_missing(self, path: str) -> None:
        """Only a directory that was never there may be made."""
        known = self._roster.ids.get(path)
        if known is None or self._files.exists(f"{path}/{META_PROPERTIES}"):
            return
        raise _Missing(
            f"{path} is not there, but was at an earlier start (directory id {known}): mount its "
            "disk and start this broker again; to give it up, take it out of log.dirs"
        )

    def finish(self) -> LogDirectories:
        """The directories that were opened, and those that are offline.

        Raises StorageStartError, DirectoryLocked and StartPutOff; everything is closed then.
        """
        try:
            self._raise_mistakes()
            self._refuse_copies()
            directories = LogDirectories(
                [self._opened[path] for path in self._paths if path in self._opened],
                [
                    OfflineDirectory(path, self._id_of(path), str(fault))
                    for path, fault in self._faults.items()
                ],
                config=self._config,
            )
            if not directories.is_one or self._roster.ids:
                self._remember(directories)
                directories.remember = partial(self._remember, directories, self._roster.doubtful)
        except Exception:
            for manager in self._opened.values():
                with contextlib.suppress(OSError, KafkaStorageError):
                    manager.close(clean=True)
            raise
        directories.all_opened()
        for directory in directories.missing:
            logger.error("the log directory %s is offline: %s", directory.path, directory.reason)
        return directories

    def _raise_mistakes(self) -> None:
        faults = list(self._faults.values())
        for fault in faults:
            if not isinstance(fault, DirectoryLocked) and not is_of_the_disk(fault):
                raise fault
        for fault in faults:
            if isinstance(fault, DirectoryLocked):
                raise fault
        for path, fault in self._faults.items():
            if is_of_the_moment(fault):
                raise StartPutOff(f"{path} cannot be opened now: {fault}") from fault
        if not self._opened:
            raise faults[0]

    def _id_of(self, path: str) -> str:
        """Its id, as far as anybody knows: else it may be any that is looked for."""
        try:
            meta = read_meta(self._files, path)
        except (OSError, StorageStartError):
            meta = None
        return self._roster.ids.get(path, "") if meta is None else meta.directory_id

    def _refuse_copies(self) -> None:
        seen: dict[str, str] = {}
        for path, manager in self._opened.items():
            twin = seen.setdefault(manager.meta.directory_id, path)
            if twin != path:
                raise MetaPropertiesInvalid(
                    f"{twin} and {path} bear the same directory.id {manager.meta.directory_id}: "
                    "one is a copy of the other, or both are the same directory; take one out of "
                    "log.dirs"
                )

    def _remember(self, directories: LogDirectories, doubted: frozenset[str] = frozenset()) -> None:
        """`doubted` at the start: what had no room then may owe more than it can tell of itself."""
        ids = {manager.directory: manager.meta.directory_id for manager in directories.opened}
        ids |= {gone.path: gone.directory_id for gone in directories.missing if gone.directory_id}
        doubtful = {gone.path for gone in directories.missing}
        doubtful |= {each.directory for each in directories.opened if each.is_doubtful}
        self._roster = Roster(self._roster.generation + 1, ids, doubted | doubtful)
        for manager in directories.live:
            directories.guard(manager, partial(self._write, manager.directory, self._roster))

    def _write(self, directory: str, roster: Roster) -> None:
        try:
            write_roster(self._files, directory, roster)
        except OSError as error:
            if error.errno in NO_ROOM:
                logger.warning("no room for %s/%s: %s", directory, ROSTER, error)
                return  # its siblings remember
            if is_of_the_moment(error):
                raise StartPutOff(f"{directory}/{ROSTER} cannot be written now: {error}") from error
            raise KafkaStorageError(f"{directory}/{ROSTER} cannot be written: {error}") from error


def _refuse_failing(manager: LogManager) -> None:
    """A disk that fails under one of the logs will under the others: better none of them serves."""
    for error in manager.failed.values():
        if isinstance(error.__cause__, OSError) and is_of_the_disk(error):
            manager.close(clean=False)
            raise DirectoryUnwritable(str(error)) from error.__cause__


class _Missing(DirectoryUnwritable):
    """A directory that should be there is not."""


def is_of_the_disk(fault: Exception) -> bool:
    """Whether a fault of a start is the disk's, and no mistake of the directory's operator."""
    cause = fault if isinstance(fault, OSError) else fault.__cause__
    return isinstance(fault, _Missing) or (
        isinstance(cause, OSError) and cause.errno not in _MISTAKES
    )
