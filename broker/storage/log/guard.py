"""The effect of an I/O error on a log: no room and errors of the moment pass, anything else ends
it.

Work that a passing error has interrupted is either undone, or finished before the log is used
again: `FaultGuard.leave_unfinished`.
"""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from pylog.errors import KafkaStorageError
from pylog_broker.storage.errors import CorruptSegment, DiskFull, InvalidOffset, ShortOfResources
from pylog_broker.storage.files import NO_ROOM, OF_THE_MOMENT, SyncFailed
from pylog_broker.storage.segments.scan import BadBatch

DISK_FAILED: Final = frozenset(
    {
        errno.EIO, errno.EROFS, errno.ENXIO, errno.ENODEV, errno.ESTALE, errno.EUCLEAN,
        errno.ENOTCONN, errno.EREMOTEIO, errno.EACCES, errno.EPERM,
    }
)  # fmt: skip
"""Errors that speak of the disk or its file system, not of the one file: the files next to it
will meet them too.
"""


class FaultGuard:
    """Turns OSErrors into errors that clients know, and remembers the one that ended the log."""

    def __init__(
        self,
        name: str,
        directory: str,
        on_failure: Callable[[], None],
        on_no_room: Callable[[], None],
        errors: Counter[str] | None = None,
    ) -> None:
        """`errors` counts the errors of the disk by kind."""
        self.failure: KafkaStorageError | None = None
        self.failed_reading = False
        """The failure was met over reading: it casts no doubt on what was written before."""
        self.failed_disk = False
        """The failure is the disk's (`DISK_FAILED`), not damage in this one log."""
        self.closed = False
        self.is_barred = False
        """`check` has something to do or to say."""
        self._unfinished: list[Callable[[], None]] = []
        self._name = name
        self._directory = directory
        self._on_failure = on_failure
        self._on_no_room = on_no_room
        self._errors: Counter[str] = Counter() if errors is None else errors

    def check(self) -> None:
        """Raises the error that took the log offline, if one did, and one for a closed log. Work
        that was left unfinished is done now; KafkaStorageError when that fails again.
        """
        self.check_works()
        self.finish()
        self.is_barred = False

    def finish(self) -> None:
        """Do what was left unfinished. KafkaStorageError."""
        while self._unfinished:  # the last one first: an earlier one may take away its file
            with self.io("finishing what was interrupted"):
                self._unfinished[-1]()
            self._unfinished.pop()

    def check_works(self) -> None:
        """The same, without finishing anything: for what only looks, or runs elsewhere."""
        if self.failure is not None:
            raise self.failure
        if self.closed:
            raise KafkaStorageError(f"{self._name} is closed here")

    def leave_unfinished(self, work: Callable[[], None]) -> None:
        """The state in memory is ahead of the files: `work` brings those up, again if it was
        interrupted. Until it has, the log answers nothing and takes nothing. OSError.
        """
        self._unfinished.append(work)
        self.is_barred = True

    def finished(self, work: Callable[[], None]) -> None:
        """That was done."""
        self._unfinished.remove(work)
        self.is_barred = self.closed or self.failure is not None or bool(self._unfinished)

    def close(self) -> None:
        """The log is closed."""
        self.closed = self.is_barred = True

    @contextmanager
    def io(self, doing: str, *, reads: bool = False) -> Iterator[None]:
        """Around everything that touches files; `reads`: it changes nothing."""
        try:
            yield
        except OSError as error:
            raise self.fault(error, doing, reads=reads) from error
        except BadBatch as error:
            damage = CorruptSegment(
                f"{self._directory} is damaged at position {error.position}: {error.reason}"
            )
            raise self.fail(damage, reads=reads) from error
        except InvalidOffset as error:
            damage = CorruptSegment(f"an index in {self._directory} makes no sense: {error}")
            raise self.fail(damage, reads=reads) from error
        except CorruptSegment as error:
            raise self.fail(error, reads=reads) from None

    def fault(self, error: OSError, doing: str, *, reads: bool = False) -> KafkaStorageError:
        """The error to raise for an OSError."""
        what = f"{doing} of {self._name}"
        if self.failure is not None:
            return self.failure
        passes = not isinstance(error, SyncFailed)
        if error.errno in NO_ROOM and passes:
            self._errors["no_room"] += 1
            self._on_no_room()
            return DiskFull(
                f"{what}: no room on the disk of {self._directory} ({error.strerror}); "
                "free some space"
            )
        if error.errno in OF_THE_MOMENT and passes:
            self._errors["of_the_moment"] += 1
            return ShortOfResources(f"{what} in {self._directory}: {error}; try again later")
        self._errors["failed"] += 1
        self.failed_disk = error.errno in DISK_FAILED
        return self.fail(
            KafkaStorageError(
                f"{what} in {self._directory} failed: {error}; this replica is offline until the "
                "broker starts again"
            ),
            reads=reads,
        )

    def fail(self, error: KafkaStorageError, *, reads: bool = False) -> KafkaStorageError:
        """The log is offline for good, because of `error`."""
        if self.failure is None:
            self.failure = error
            self.is_barred = True
            self.failed_reading = reads
            self._on_failure()
        return self.failure
