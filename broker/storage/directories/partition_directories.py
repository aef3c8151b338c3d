"""The partition directories inside a log directory: names, topic ids, and what is none of ours."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass, field
from typing import Final

from pylog.model import BrokerId, TopicId, TopicPartition, topic_name_fault
from pylog_broker.storage.checkpoints.checkpoints import (
    CLEANER_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
)
from pylog_broker.storage.directories.clean_marker import CLEAN_MARKER
from pylog_broker.storage.directories.directory import (
    LOCK_FILE,
    META_PROPERTIES,
    check_owner,
    read_meta,
)
from pylog_broker.storage.directories.roster import ROSTER
from pylog_broker.storage.errors import CorruptSegment, MetaPropertiesInvalid
from pylog_broker.storage.files import NO_ROOM, Files, is_of_the_moment
from pylog_broker.storage.recovery.survey import PARTITION_METADATA
from pylog_broker.storage.segments.segment import CUT_SUFFIX

DELETE_SUFFIX: Final = "-delete"
CONTROLLER_EPOCH: Final = "controller-epoch"
"""The broker's own note of the highest controller epoch it has seen."""

DAMAGED_LOGS: Final = "damaged-log-end-checkpoint"
"""See `damage.py`."""

CLOCK_CHECKPOINT: Final = "clock-checkpoint"
"""See `clock_checkpoint.py`."""

_FILE_NAME_MAX: Final = 255
_PARTITION_DIRECTORY: Final = re.compile(r"(.+)-(0|[1-9][0-9]{0,9})")
_KNOWN: Final = frozenset(
    {
        META_PROPERTIES,
        LOCK_FILE,
        CLEAN_MARKER,
        CONTROLLER_EPOCH,
        DAMAGED_LOGS,
        ROSTER,
        HIGH_WATERMARK_CHECKPOINT,
        RECOVERY_POINT_CHECKPOINT,
        LOG_START_CHECKPOINT,
        CLEANER_CHECKPOINT,
        CLOCK_CHECKPOINT,
    }
)

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class FoundPartitions:
    """Partition directories; links in their place, which are refused; directories to remove."""

    partitions: list[TopicPartition] = field(default_factory=list)
    links: list[TopicPartition] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)


def find_partitions(files: Files, directory: str) -> FoundPartitions:
    """The entries of a log directory. Temporary files go; foreign things are warned of once."""
    found = FoundPartitions()
    foreign = []
    for name in files.listdir(directory):
        path = f"{directory}/{name}"
        status = files.stat(path)
        kind = status.kind if status else "other"
        topic_partition = parse_partition_directory(name)
        if kind == "directory" and name.endswith(DELETE_SUFFIX):
            found.deleted.append(path)
        elif name.endswith(".tmp") and kind == "file":
            files.unlink(path)
        elif topic_partition is not None and kind == "directory":
            found.partitions.append(topic_partition)
        elif topic_partition is not None and kind == "symlink":
            found.links.append(topic_partition)
        elif name not in _KNOWN and not name.endswith(CUT_SUFFIX):
            foreign.append(name)
    if foreign:
        logger.warning("%s holds what is not pylog's, ignored: %s", directory, foreign[:10])
    return found


def parse_partition_directory(name: str) -> TopicPartition | None:
    """The partition whose directory has that name, None when it is no partition's."""
    match = _PARTITION_DIRECTORY.fullmatch(name)
    if match is None or topic_name_fault(match[1]) is not None:
        return None
    return TopicPartition(match[1], int(match[2]))


def check_identity(files: Files, directory: str, broker_id: BrokerId) -> None:
    """StorageStartError when a directory can be no broker's, or is another one's by its name."""
    meta = read_meta(files, directory)
    if meta is None:
        refuse_orphans(files, directory)
    else:
        check_owner(directory, meta, meta.cluster_id, broker_id)


def refuse_orphans(files: Files, directory: str) -> None:
    """MetaPropertiesInvalid when a directory without identity holds partitions."""
    partitions = [name for name in files.listdir(directory) if parse_partition_directory(name)]
    if partitions:
        raise MetaPropertiesInvalid(
            f"{directory} holds {len(partitions)} partitions ({partitions[0]}, ...) but no "
            f"{META_PROPERTIES}; restore that file, or use another directory"
        )


def rename_away(
    files: Files, directory: str, topic_partition: TopicPartition, topic_id: str
) -> str:
    """Free the name of a partition's directory; where it is now, to be removed later. OSError.

    A longer name can need room, removing files does not: where there is none, all of it goes at
    once, the topic id last. A start in between finds a replica that the metadata have not.
    """
    path = f"{directory}/{topic_partition}"
    target = f"{directory}/{free_deleted_name(files, directory, topic_partition, topic_id)}"
    try:
        files.rename(path, target)
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        remove_tree(files, path)
    return target


def free_deleted_name(
    files: Files, directory: str, topic_partition: TopicPartition, topic_id: str
) -> str:
    """A name for a deleted partition's directory that is not taken.

    It fits a file name also for the longest topic: then the topic is cropped.
    """
    attempt = 0
    while True:
        more = f".{attempt}" if attempt else ""
        suffix = f"-{topic_partition.partition}.{topic_id}{more}{DELETE_SUFFIX}"
        name = topic_partition.topic[: _FILE_NAME_MAX - len(suffix)] + suffix
        if not files.exists(f"{directory}/{name}"):
            return name
        attempt += 1


def write_topic_id(files: Files, path: str, topic_id: TopicId) -> None:
    """Kafka's `partition.metadata`, durably."""
    text = f"version: 0\ntopic_id: {topic_id}\n"
    files.write_atomic(f"{path}/{PARTITION_METADATA}", text.encode("ascii"))


def read_topic_id(files: Files, path: str) -> TopicId | None:
    """The topic id of a partition directory; None when the directory was never finished.

    CorruptSegment when it holds records but no id. OSError of the moment.
    """
    try:
        text = files.read_all(f"{path}/{PARTITION_METADATA}").decode("ascii")
    except FileNotFoundError:
        text = ""
    except (OSError, UnicodeDecodeError) as error:
        if is_of_the_moment(error):
            raise
        raise CorruptSegment(f"{path}/{PARTITION_METADATA} cannot be read: {error}") from error
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name == "topic_id" and value.strip():
            return TopicId(value.strip())
    for name in files.listdir(path):
        status = files.stat(f"{path}/{name}")
        if name.endswith(".log") and status is not None and status.size:
            raise CorruptSegment(
                f"{path} holds records but no {PARTITION_METADATA} with a topic_id; restore "
                "that file, or move the directory away"
            )
    return None


def remove_tree(files: Files, path: str) -> None:
    """Remove a directory with all in it. A link is removed itself; what it points to stays."""
    status = files.stat(path)
    if status is None:
        return
    if status.kind != "directory":
        files.unlink(path)
        return
    for name in files.listdir(path):
        remove_tree(files, f"{path}/{name}")
    files.rmdir(path)
