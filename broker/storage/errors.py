"""Storage's own errors: those that stop a start, and those that take one log offline.

Two trees. `StorageStartError`: no retry cures it, somebody must change something first.
`KafkaStorageError` (code 56) and its children: one log failed; clients refresh and go elsewhere.
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
    """A broker or controller directory cannot be used; the message says what to change. To whoever
    asked for the start it is a setting that is not legal.
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


class DiskFull(KafkaStorageError):
    """The disk is full. Nothing of the batch was kept; the log works again when space returns."""


class CorruptSegment(KafkaStorageError):
    """Bytes in the middle of a log are damaged or missing. This replica is offline; nothing was
    cut.
    """


class DamagedBatch(CorruptMessage):
    """The asked offset lies in a batch that has rotted. What is before and behind it can be read,
    from `next_offset` on; the log goes on.
    """

    next_offset: int


class InvalidOffset(PylogError):
    """An offset, position or base that an index or a log cannot take at this place."""


class IndexOffsetOverflow(PylogError):
    """An offset is too far from its segment's base for the index's 4 bytes."""
