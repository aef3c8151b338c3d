"""Storage's own errors: those that stop a start, and those of one log.

Two trees. `StorageStartError`: no retry cures it, somebody must change something first.
`KafkaStorageError` (code 56) and its children: one log failed; clients refresh and go elsewhere.
Below it `PassingStorageError`: the log has not failed, and the same may work later.
Beside them `DamagedBatch`: one batch is lost here, and the log around it is not.
"""

from __future__ import annotations

from pylog.errors import (
    BrokerNotAvailable,
    CorruptMessage,
    InconsistentClusterId,
    InvalidConfig,
    KafkaStorageError,
    PylogError,
    RetriableError,
)


class StorageStartError(PylogError):
    """A broker or controller directory cannot be used; the message says what to change. To the
    caller that asked for the start it is a setting that is not legal.
    """

    code = InvalidConfig.code


class DirectoryUnwritable(StorageStartError):
    """The directory, or a file that must be replaced in it, cannot be written."""


class ForeignDirectory(StorageStartError):
    """The directory belongs to another cluster."""

    code = InconsistentClusterId.code


class OtherBrokersDirectory(StorageStartError):
    """The directory belongs to another broker of this cluster."""


class MetaPropertiesInvalid(StorageStartError):
    """`meta.properties` cannot be read, or is missing beside existing partitions."""


class DirectoryLocked(RetriableError):
    """Another process holds the directory's lock. It may still be flushing: try again soon."""

    code = BrokerNotAvailable.code


class StartPutOff(RetriableError):
    """The process or its machine is short of something, open files or memory: try again soon."""

    code = BrokerNotAvailable.code


class PassingStorageError(KafkaStorageError):
    """The log works, and its replica stays: the operation did not happen, ask again later."""


class DiskFull(PassingStorageError):
    """The disk is full. Nothing of the batch was kept; the log works again when space returns."""


class ShortOfResources(PassingStorageError):
    """The process or its machine is short of something, open files or memory. Nothing of the batch
    was kept.
    """


class CorruptSegment(KafkaStorageError):
    """Bytes in the middle of a log are damaged or missing. This replica is offline; nothing was
    cut.
    """


class DamagedBatch(CorruptMessage):
    """The asked offset lies in a batch that has rotted. Batches before and behind it can be read,
    from `next_offset` on; the log goes on.
    """

    next_offset: int


class InvalidOffset(PylogError):
    """An offset, position or base that an index or a log cannot take at this place."""


class IndexOffsetOverflow(PylogError):
    """An offset is too far from its segment's base for the index's 4 bytes."""
