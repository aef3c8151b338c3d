"""The statements of log directories about replicas that are not in them any more: their log starts.

Somebody moved such a replica by hand to another disk of the broker while that was stopped. Log
starts stand beside the replicas, in one file for each directory, as in Kafka; there, records that
were deleted are back after such a move. Of high watermark and recovery point nothing is taken over:
without them the log is read and its followers are asked, which is always safe.
"""

from __future__ import annotations

from collections.abc import Iterable

from pylog.model import Offset, TopicPartition
from pylog_broker.storage.checkpoints.checkpoints import LOG_START_CHECKPOINT, read_offsets
from pylog_broker.storage.directories.directory import read_meta
from pylog_broker.storage.directories.roster import Roster
from pylog_broker.storage.errors import StartPutOff, StorageStartError
from pylog_broker.storage.files import Files, is_of_the_moment


def starts_left_behind(
    files: Files, paths: Iterable[str], roster: Roster
) -> dict[TopicPartition, Offset]:
    """The log starts of replicas that are not where they were, the largest of each. StartPutOff.

    A directory that was away in the last life does not count: a topic of the same name may have
    been made since. Nor does one that the broker did not have then, if it had several.
    """
    starts: dict[TopicPartition, Offset] = {}
    for path in roster.ids or paths:
        if path in roster.doubtful or not _is_still(files, path, roster.ids.get(path)):
            continue
        try:
            for name, offset in read_offsets(files, f"{path}/{LOG_START_CHECKPOINT}").items():
                if files.stat(f"{path}/{name}") is None:
                    starts[name] = max(offset, starts.get(name, offset))
        except OSError as error:
            if is_of_the_moment(error):
                raise StartPutOff(f"{path} cannot be looked at now: {error}") from error
            continue  # opening it will tell
    return starts


def _is_still(files: Files, path: str, directory_id: str | None) -> bool:
    try:
        meta = read_meta(files, path)
    except (OSError, StorageStartError) as error:
        if is_of_the_moment(error):
            raise StartPutOff(f"{path} cannot be looked at now: {error}") from error
        return False
    return meta is not None and directory_id in (None, meta.directory_id)
