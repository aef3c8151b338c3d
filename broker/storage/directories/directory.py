"""The identity of a log directory: its owner, how it was left, which process has it open.

`meta.properties` is Kafka's, with keys of pylog's own (`boot.id`, `mount.id`, `clean`,
`log.intact`).
"""

from __future__ import annotations

import errno
import logging
from dataclasses import dataclass
from typing import Final

from pylog.model import BrokerId
from pylog_broker.storage.errors import (
    DirectoryLocked,
    DirectoryUnwritable,
    ForeignDirectory,
    MetaPropertiesInvalid,
    OtherBrokersDirectory,
    StartPutOff,
)
from pylog_broker.storage.files import Files, is_of_the_moment

META_PROPERTIES: Final = "meta.properties"
LOCK_FILE: Final = ".lock"

_META_VERSION: Final = 1

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class MetaProperties:
    """The owner of a directory, and how it was left.

    `mount_id` tells one mount of its file system from the next, empty where the machine does not:
    what was not synced need not have survived in between, also on the same boot.
    `intact` False: records that were on this disk may be gone (a loss of power, an I/O error), and
    the controller has not been told yet. It stays until `LogManager.registered`, and where memory
    was lost the file names the boot and the mount of the life before for as long.
    """

    cluster_id: str
    broker_id: BrokerId
    directory_id: str
    boot_id: str
    clean: bool = False
    intact: bool = True
    mount_id: str = ""

    def shares_memory_with(self, earlier: MetaProperties) -> bool:
        """Whether what an earlier life wrote is there, synced or not."""
        mounts = {self.mount_id, earlier.mount_id} - {""}
        return self.boot_id == earlier.boot_id and len(mounts) < 2


@dataclass(frozen=True, slots=True)
class FoundDirectory:
    """A directory as somebody who does not own it sees it."""

    path: str
    meta: MetaProperties
    locked: bool


def read_meta(files: Files, directory: str) -> MetaProperties | None:
    """The directory's identity, None when it has none; MetaPropertiesInvalid when unreadable."""
    path = f"{directory}/{META_PROPERTIES}"
    try:
        text = files.read_all(path).decode("utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise MetaPropertiesInvalid(f"{path} cannot be read: {error}") from error
    values = {}
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            name, _, value = line.partition("=")
            values[name.strip()] = value.strip()
    if values.get("version") != str(_META_VERSION):
        raise MetaPropertiesInvalid(
            f"{path} has version {values.get('version')!r}; this release knows {_META_VERSION}. "
            "Use the release that wrote it, or another data directory"
        )
    try:
        return MetaProperties(
            cluster_id=values["cluster.id"],
            broker_id=BrokerId(int(values["node.id"])),
            directory_id=values["directory.id"],
            boot_id=values.get("boot.id", ""),
            clean=values.get("clean") == "true",
            intact=values.get("log.intact", "true") == "true",
            mount_id=values.get("mount.id", ""),
        )
    except (KeyError, ValueError) as error:
        raise MetaPropertiesInvalid(
            f"{path} lacks a usable {error}; restore it from a backup, or move the directory away"
        ) from error


def write_meta(files: Files, directory: str, meta: MetaProperties) -> None:
    """Replace the directory's identity, durably."""
    lines = [
        f"version={_META_VERSION}",
        f"cluster.id={meta.cluster_id}",
        f"node.id={meta.broker_id}",
        f"directory.id={meta.directory_id}",
        f"boot.id={meta.boot_id}",
        f"clean={str(meta.clean).lower()}",
        f"log.intact={str(meta.intact).lower()}",
    ]
    if meta.mount_id:
        lines.append(f"mount.id={meta.mount_id}")
    text = "\n".join(lines) + "\n"
    files.write_atomic(f"{directory}/{META_PROPERTIES}", text.encode("utf-8"))


def lock_directory(files: Files, directory: str) -> int:
    """Own the directory until the handle is closed or the process ends.

    Makes the directory. Raises DirectoryLocked (try again, up to 10 s: the old owner may still be
    flushing) and DirectoryUnwritable.
    """
    try:
        if not files.exists(directory):
            files.mkdir(directory)
            files.fsync_dir(directory.rpartition("/")[0] or "/")
        handle = files.try_lock(f"{directory}/{LOCK_FILE}")
    except OSError as error:
        raise unwritable(directory, error) from error
    if handle is None:
        raise DirectoryLocked(
            f"{directory} is in use by another process; stop that one, or use another directory"
        )
    return handle


def unwritable(directory: str, error: OSError) -> DirectoryUnwritable:
    """The start error for an OSError of a directory's own files."""
    cure = "give it to the user that runs the broker, or use another directory"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        cure = "its disk is full: free some space"
    elif error.errno == errno.EROFS:
        cure = "its file system is mounted read-only"
    return DirectoryUnwritable(f"{directory} cannot be written ({error}); {cure}")


def inspect(files: Files, directory: str) -> FoundDirectory | None:
    """The state of a directory that this process does not own; None without identity.

    Takes the lock for a moment to see whether somebody has it. StartPutOff.
    """
    try:
        meta = read_meta(files, directory)
        if meta is None:
            return None
        handle = files.try_lock(f"{directory}/{LOCK_FILE}")
    except (MetaPropertiesInvalid, OSError) as error:
        if is_of_the_moment(error):
            raise StartPutOff(f"{directory} cannot be looked at now: {error}") from error
        logger.warning("ignoring the directory %s: %s", directory, error)
        return None
    if handle is not None:
        files.close(handle)
    return FoundDirectory(directory, meta, handle is None)


def names_in(files: Files, place: str) -> list[str]:
    """The names in a directory, none when it is not there. StartPutOff, and OSError when its
    disk does not answer.
    """
    try:
        return files.listdir(place) if files.exists(place) else []
    except OSError as error:
        if is_of_the_moment(error):
            raise StartPutOff(f"{place} cannot be looked at now: {error}") from error
        raise


def find_broker_directories(files: Files, root: str) -> list[FoundDirectory]:
    """The broker directories (`broker-<n>`) below a data root, in the order of their names.
    StartPutOff, OSError.
    """
    names = (name for name in names_in(files, root) if name[:7] == "broker-")
    found = (inspect(files, f"{root}/{name}") for name in names)
    return [directory for directory in found if directory is not None]


def check_owner(directory: str, meta: MetaProperties, cluster_id: str, broker_id: BrokerId) -> None:
    """ForeignDirectory, OtherBrokersDirectory when the directory is not this broker's."""
    if meta.cluster_id != cluster_id:
        raise ForeignDirectory(
            f"{directory} belongs to cluster {meta.cluster_id}, not {cluster_id}; use another "
            "directory, or connect to that cluster"
        )
    if meta.broker_id != broker_id:
        raise OtherBrokersDirectory(
            f"{directory} belongs to broker {meta.broker_id}, not {broker_id}; use that broker's "
            "id, or another directory"
        )
