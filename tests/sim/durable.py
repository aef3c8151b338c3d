"""A log's claims about the disk are true: everything below its recovery point is synced, names
too."""

from __future__ import annotations

from contextlib import suppress

from pylog.errors import CorruptMessage
from pylog.records.batch import iter_headers
from pylog_broker.storage.log.log import Log
from tests.sim.disk import LOG_SUFFIX, Directory, Disk, Inode
from tests.sim.violation import Violation


def check_recovery_point(name: str, log: Log, disk: Disk) -> None:
    """After a sync of the log has been settled on the broker `name`."""
    point = log.recovery_point
    if point > log.log_end_offset:
        raise Violation("I15", f"{name}: {log} has the recovery point {point}")
    directory = disk.find(log.directory)
    assert isinstance(directory, Directory)
    for file, inode in sorted(directory.entries.items()):
        if not file.endswith(LOG_SUFFIX) or int(file.removesuffix(LOG_SUFFIX)) >= point:
            continue
        assert isinstance(inode, Inode)
        size = _size_below(inode, point)
        if not size:
            continue  # nothing is lost with it: a roll that was given up may have left it
        if directory.durable.get(file) is not inode or inode.synced[:size] != inode.data[:size]:
            raise Violation(
                "I15",
                f"{name}: {log} has the recovery point {point}, and {file} is not synced up to "
                f"there, position {size} of {len(inode.data)}",
            )


def _size_below(inode: Inode, offset: int) -> int:
    """The bytes of the batches that begin below it."""
    end = 0
    data = bytes(inode.data)
    stop = len(data.rstrip(b"\0"))  # a preallocated file goes on with zeros
    with suppress(CorruptMessage):  # it has rotted, which is another check's business
        for position, header in iter_headers(data[:stop] + bytes(1)):
            if header.base_offset >= offset:
                break
            end = position + header.size
    return min(end, len(data))
