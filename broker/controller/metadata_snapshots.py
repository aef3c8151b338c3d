"""Snapshots of the metadata: their files, and the task that writes one beside the log.

    D/controller/<end>-<epoch>.metadata-snapshot     everything below the offset `end`

    bytes   what
    8       magic and version
    8       number of records
    rest    record batches, offsets from 0 on

Earlier versions gave the same files the suffix of Apache Kafka's snapshots, `.checkpoint`, whose
form is another; they are still read.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from pylog.errors import CorruptMessage
from pylog.model import NO_TIMESTAMP, Offset
from pylog_broker.controller.metadata_batches import decode_batches, encode_plain
from pylog_broker.metadata.image import MetadataImage
from pylog_broker.metadata.records import MetadataRecord
from pylog_broker.storage.files import Files

SNAPSHOT_SUFFIX: Final = ".metadata-snapshot"
EARLIER_SUFFIX: Final = ".checkpoint"

_HEADER: Final = Struct(">8sq")
_MAGIC: Final = b"PLOGMD\x00\x01"
_BATCH_RECORDS: Final = 1_000


class SnapshotTask:
    """Writes what an image says: `run()` on any thread, then `MetadataLog.on_snapshot`.

    Made where the image changes, so that it stands still meanwhile; from then on the image may go
    on, and the log may grow.
    """

    def __init__(self, files: Files, directory: str, image: MetadataImage) -> None:
        self._files = files
        self._records = image.records()
        self.cluster_id = image.cluster_id
        self.end_offset = Offset(image.offset + 1)
        """Everything below it is in the snapshot."""
        name = f"{self.end_offset:020d}-{image.controller_epoch:010d}{SNAPSHOT_SUFFIX}"
        self.path = f"{directory}/{name}"
        self.error: Exception | None = None

    def run(self) -> None:
        """Never raises; `error` tells."""
        try:
            self._files.write_atomic(self.path, _encode(self._records))
        except Exception as error:  # noqa: BLE001  the top of a thread; `on_snapshot` raises it
            self.error = error


def snapshots_in(files: Files, directory: str) -> list[str]:
    """The names of the snapshots' files, oldest first. Half-written ones have other names."""
    return sorted(
        name
        for name in files.listdir(directory)
        if name.endswith((SNAPSHOT_SUFFIX, EARLIER_SUFFIX))
        and name[:20].isdigit()
        and name[20:21] == "-"
    )


def end_of(snapshot: str) -> Offset:
    """The offset behind what a snapshot stands for, by its file's name."""
    return Offset(int(snapshot[:20]))


def read_snapshot(raw: bytes) -> list[MetadataRecord]:
    """The records in a snapshot's file; CorruptMessage, InvalidRecord when it is damaged."""
    if len(raw) < _HEADER.size or not raw.startswith(_MAGIC):
        raise CorruptMessage("it does not begin as a snapshot does")
    _, count = _HEADER.unpack_from(raw)
    records: list[MetadataRecord] = []
    for batch in decode_batches(raw[_HEADER.size :]):
        records.extend(batch.records)
    if len(records) != count:
        raise CorruptMessage(f"it holds {len(records)} of {count} records")
    return records


def _encode(records: tuple[MetadataRecord, ...]) -> bytes:
    parts = [_HEADER.pack(_MAGIC, len(records))]
    parts += (
        encode_plain(records[first : first + _BATCH_RECORDS], NO_TIMESTAMP, first)
        for first in range(0, len(records), _BATCH_RECORDS)
    )
    return b"".join(parts)
