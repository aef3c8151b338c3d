"""The logs of a directory that may lack records: remembered on disk until the controller knows.

Each is written down with the offset that it must reach to count as whole again. A log that failed
over a read is whole when, opened with every CRC checked, it still reaches the end that it had: the
fault was the disk's, and has passed. After a failed write or sync nothing that can be read proves
anything: the kernel may have dropped pages that it could not write, and show them until they are
evicted. Such a log never counts as whole (`NEVER`).
"""

from __future__ import annotations

from typing import Final

from pylog.model import Offset, TopicPartition
from pylog_broker.storage.checkpoints.checkpoints import read_offsets, write_offsets
from pylog_broker.storage.directories.partition_directories import DAMAGED_LOGS
from pylog_broker.storage.files import Files

NEVER: Final = Offset(2**63 - 1)
"""An end that no log reaches."""


class Damage:
    """The file `damaged-log-end-checkpoint` of a directory; missing while all logs are whole."""

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self._path = f"{directory}/{DAMAGED_LOGS}"
        self._needed = read_offsets(files, self._path)
        self._saved: dict[TopicPartition, Offset] | None = dict(self._needed)
        self.is_unreadable = not self._needed and files.exists(self._path)
        """Its words are lost: any log may be damaged."""
        if self.is_unreadable:
            self._saved = None

    def __contains__(self, topic_partition: TopicPartition) -> bool:
        return topic_partition in self._needed

    def names(self) -> list[TopicPartition]:
        """The logs that may lack records."""
        return sorted(self._needed)

    def needed_end(self, topic_partition: TopicPartition) -> Offset | None:
        """The end that the log must reach to be whole; None when nothing is known against it."""
        return self._needed.get(topic_partition)

    def note(self, topic_partition: TopicPartition, needed_end: Offset) -> None:
        """The log may lack records unless it reaches that end. `save` makes it durable."""
        known = self._needed.get(topic_partition, needed_end)
        self._needed[topic_partition] = max(known, needed_end)

    def settle(self, topic_partition: TopicPartition) -> None:
        """The log is whole, or the controller knows, or it is gone. `save` makes it durable."""
        self._needed.pop(topic_partition, None)

    def save(self) -> None:
        """Write what has changed. OSError when the disk refuses; a later call tries again."""
        if self._needed == self._saved:
            return
        self._saved = None
        if self._needed:
            write_offsets(self._files, self._path, self._needed)
        else:
            self._files.unlink(self._path)
        self._saved = dict(self._needed)
