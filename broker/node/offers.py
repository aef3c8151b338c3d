"""The brokers that this host could be, by the directories that it has: the contents of a claim.

A broker with several log directories is offered by each that is there, so it is found again while a
disk of it is missing. When any of them is locked, the broker runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from posixpath import normpath

from pylog.errors import InvalidConfig
from pylog.model import BrokerId
from pylog_broker.log_dirs import directories_of, roots_of
from pylog_broker.metadata.messages import BrokerDirectory
from pylog_broker.storage.directories.directory import (
    FoundDirectory,
    find_broker_directories,
    inspect,
    names_in,
)
from pylog_broker.storage.directories.partition_directories import check_identity
from pylog_broker.storage.directories.roster import newest_roster
from pylog_broker.storage.errors import StorageStartError
from pylog_broker.storage.files import Files
from pylog_broker.storage.manager.opening import is_of_the_disk


def find_directories(
    files: Files, root: str, log_dirs: Sequence[str]
) -> tuple[BrokerDirectory, ...]:
    """The broker directories of this host, by what `log.dirs` says, or below the data root.

    StartPutOff when this process is short of something for a moment: a directory that is not
    offered is taken for gone, and the process for a new broker.
    """
    found = _found(files, root, log_dirs)
    running = {each.meta.broker_id for each in found if each.locked}
    return tuple(replace(_offer(each), locked=each.meta.broker_id in running) for each in found)


def _found(files: Files, root: str, log_dirs: Sequence[str]) -> list[FoundDirectory]:
    if not log_dirs:
        return find_broker_directories(files, root)
    found = []
    for entry in log_dirs:
        if entry.startswith("/"):
            found += _below(files, normpath(entry))
    relative = [entry for entry in log_dirs if not entry.startswith("/")]
    for name in names_in(files, root) if relative else ():
        if name.startswith("broker-"):
            paths = (normpath(f"{root}/{name}/{entry}") for entry in relative)
            found += [each for path in paths if (each := inspect(files, path)) is not None]
    return found


def _below(files: Files, place: str) -> list[FoundDirectory]:
    """The directories below an entry; none where its disk does not answer, for others may."""
    try:
        return find_broker_directories(files, place)
    except OSError:
        return []


def _offer(found: FoundDirectory) -> BrokerDirectory:
    meta = found.meta
    return BrokerDirectory(
        meta.broker_id, meta.directory_id, meta.cluster_id, meta.boot_id, meta.clean, found.locked
    )


def refuse_left_out(files: Files, root: str, log_dirs: Sequence[str]) -> None:
    """InvalidConfig when a broker's directory below the data root is not among `log.dirs`, or has
    siblings that would not be used any more: their logs would be given up without a word.
    """
    for found in find_broker_directories(files, root):
        if not log_dirs:
            _refuse_siblings(files, root, found)
            continue
        if found.path not in directories_of(root, int(found.meta.broker_id), log_dirs):
            raise InvalidConfig(
                f"log.dirs={','.join(log_dirs)} leaves out {found.path}, which holds the logs of "
                f"broker {found.meta.broker_id}: add {root} to it, or move that directory away"
            )


def _refuse_siblings(files: Files, root: str, found: FoundDirectory) -> None:
    siblings = sorted(newest_roster(files, [found.path]).ids.keys() - {found.path})
    if siblings:
        raise InvalidConfig(
            f"log.dirs is empty, but broker {found.meta.broker_id} has logs in {siblings[0]} "
            f"beside {found.path}: set it as it was, or to {root} to give all others up"
        )


def check_own(files: Files, root: str, log_dirs: Sequence[str], only: int | None) -> None:
    """StorageStartError for a directory of this broker (None: of any) that can be no broker's, or
    is another one's by its name. A disk that does not answer is left to the opening.
    """
    for place in roots_of(root, log_dirs):
        for name in _names(files, place):
            number = name.removeprefix("broker-")
            if name == number or not (number.isascii() and number.isdigit()):
                continue
            if only in (None, int(number)):
                for path in directories_of(root, int(number), log_dirs):
                    _check(files, path, BrokerId(int(number)))


def _check(files: Files, path: str, broker_id: BrokerId) -> None:
    try:
        if files.exists(path):
            check_identity(files, path, broker_id)
    except (OSError, StorageStartError) as error:
        if not is_of_the_disk(error):
            raise


def _names(files: Files, place: str) -> list[str]:
    try:
        return files.listdir(place) if files.exists(place) else []
    except OSError:
        return []
