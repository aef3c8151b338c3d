"""A machine's disk in memory: what is written, and what of it would survive a power loss.

A file is its current bytes and the bytes as of its last fsync; a directory is its current entries,
the durable ones, and the changes between the two in order. A killed process loses nothing. A power
loss keeps a random subset of the pages that were not synced, tears one of them, picks a length
between the old and the new, and keeps a random first part of each directory's pending changes.
`tests/sim/files.py` puts the product's `Files` on top.
"""

from __future__ import annotations

import errno
import random
from collections.abc import Callable, Iterator

PAGE = 512  # smaller than a real page: simulated segments are small
LOG_SUFFIX = ".log"
DATA_ROOT = "/data"
MOUNTS = (DATA_ROOT, "/disk1", "/disk2")
"""The mount points of a machine's disks; it has the first of them or more."""


class TornWrite(BaseException):
    """The process dies in the middle of a write; no handler of the product may catch it."""


class Inode:
    """One file's bytes."""

    __slots__ = ("appended_only", "changes", "data", "kept", "modified_ms", "synced", "version")

    def __init__(self) -> None:
        self.data = bytearray()
        self.version = 0  # another one with each change of the bytes
        self.kept: object = None  # for a reader, to see that it is as it was
        self.modified_ms = 0  # by the clock of its machine
        self.synced = bytearray()
        self.changes = 0
        self.appended_only = True  # since the last fsync: `synced` is a prefix of `data`

    @property
    def dirty(self) -> bool:
        """Whether a power loss could change it."""
        return not self.appended_only or len(self.data) != len(self.synced)

    def append(self, chunk: bytes | bytearray | memoryview) -> None:
        """Write at the end."""
        self.changes += 1
        self.version += 1
        self.data += chunk

    def write_at(self, chunk: bytes | bytearray | memoryview, position: int) -> None:
        """Write over what is there."""
        self.changes += 1
        self.version += 1
        self.appended_only = self.appended_only and position >= len(self.synced)
        self.data[position : position + len(chunk)] = chunk

    def truncate(self, size: int) -> None:
        """Cut, or grow with zeros."""
        self.changes += 1
        self.version += 1
        if size < len(self.data):
            del self.data[size:]
            self.appended_only = self.appended_only and size >= len(self.synced)
        else:
            self.data.extend(bytes(size - len(self.data)))

    def copy(self) -> Inode:
        """Another file with the same bytes and date, synced."""
        twin = Inode()
        twin.append(self.data)
        twin.fsync()
        twin.modified_ms, twin.changes = self.modified_ms, self.changes
        return twin

    def fsync(self) -> None:
        """Everything written so far survives from now on."""
        if self.appended_only:
            self.synced += self.data[len(self.synced) :]
        else:
            self.synced[:] = self.data
        self.appended_only = True

    def lose_power(self, rng: random.Random) -> None:
        """Keep what was synced, and of the rest a random subset of pages."""
        if not self.dirty:
            return
        low, high = sorted((len(self.synced), len(self.data)))
        self._keep_some(rng, rng.choice((low, high, rng.randint(low, high))))

    def drop_pages(self, rng: random.Random) -> None:
        """A sync failed: some pages that it should have written are as they were, or zeros."""
        self._keep_some(rng, len(self.data))

    def _keep_some(self, rng: random.Random, length: int) -> None:
        old, new = self.synced, self.data
        result = bytearray(old[:length]) + bytes(max(0, length - len(old)))
        pages = [
            page
            for page in range(0, length, PAGE)
            if old[page : page + PAGE] != new[page : page + PAGE]
        ]
        torn = rng.choice(pages) if pages and rng.random() < 0.5 else -1
        keep_share = rng.choice((0.1, 0.5, 0.9))
        for page in pages:
            end = min(page + PAGE, length)
            if page == torn:
                end = rng.randint(page, end)
            elif rng.random() >= keep_share:
                continue
            chunk = new[page:end]
            result[page : page + len(chunk)] = chunk
        self.version += 1
        self.data = result
        self.synced = bytearray(result)
        self.appended_only = True


class Directory:
    """Names and what they stand for."""

    __slots__ = ("durable", "entries", "pending", "version")

    def __init__(self) -> None:
        self.version = 0  # another one with each change of the names
        self.entries: dict[str, Inode | Directory] = {}
        self.durable: dict[str, Inode | Directory] = {}
        # each change sets or removes (None) several names at once
        self.pending: list[dict[str, Inode | Directory | None]] = []

    def change(self, names: dict[str, Inode | Directory | None]) -> None:
        """Set or remove names, atomically."""
        self.version += 1
        _apply(self.entries, names)
        self.pending.append(names)

    def fsync(self) -> None:
        """All changes so far survive from now on."""
        for names in self.pending:
            _apply(self.durable, names)
        self.pending.clear()

    def lose_power(self, rng: random.Random) -> None:
        """Keep a first part of the pending changes, here and below."""
        for names in self.pending[: rng.randint(0, len(self.pending))]:
            _apply(self.durable, names)
        self.pending.clear()
        self.version += 1
        self.entries = dict(self.durable)
        for _, node in sorted(self.entries.items()):
            node.lose_power(rng)


def _apply(
    entries: dict[str, Inode | Directory], names: dict[str, Inode | Directory | None]
) -> None:
    for name, node in names.items():
        if node is None:
            entries.pop(name, None)
        else:
            entries[name] = node


class Disk:
    """The tree of one machine. Paths are absolute, separated by '/'; errors are OSError's.

    A machine with several disks has one at each of `mounts`. The files of a disk that fails or is
    not mounted stay as they are; only processes do not get at them (`tests/sim/files.py`).
    """

    def __init__(self, boot: int = 1, mounts: tuple[str, ...] = (DATA_ROOT,)) -> None:
        self.root = Directory()
        self.boot = boot
        self.torn_write_rng: random.Random | None = None
        """Set: the next append writes a random part and raises TornWrite."""
        self.full = False
        self.full_in = -1  # after so many more appends it is; -1: not of itself
        self.torn_write_in = 0  # so many more appends come before one is torn
        self.full_mounts: set[str] = set()
        self.refusals = 0
        """The number of writes for which there was no room."""
        self.broken_mounts: set[str] = set()
        """Every access gives EIO."""
        self.absent_mounts: set[str] = set()
        """Not mounted: empty directories."""
        self.failing = ""
        """"append", "fsync" or "read": the next one of a partition's segment fails with EIO."""
        self.on_failure: Callable[[str, str], bool] = lambda act, directory: True
        """Hears of act and directory before the error is raised; False: not now."""
        self.short_share = 0.0
        """So many of the accesses fail for a reason of the moment: no descriptor, no memory."""
        self.short_rng = random.Random(0)
        self.short_once = False  # the next one ends it
        self.shortages = 0
        self.harmed: set[str] = set()
        """Directories of logs whose disk has said something bad, until they are removed."""
        self.wall_ms: Callable[[], int] = lambda: 0
        self.locked: set[str] = set()
        self.cuts: dict[str, int] = {}
        """The number of times that log files of a directory were cut, replaced or removed, by
        directory path: earlier reads there may be out of date."""
        self.mounts = mounts
        for mount in mounts:
            self.mkdir(mount)  # there before any process, as its owner made it
        self.root.fsync()

    # ---- look-up

    def find(self, path: str) -> Inode | Directory | None:
        """The file or directory at `path`, or None."""
        node: Inode | Directory = self.root
        for part in _parts(path):
            if not isinstance(node, Directory):
                return None
            found = node.entries.get(part)
            if found is None:
                return None
            node = found
        return node

    def file(self, path: str) -> Inode:
        """The file at `path`; FileNotFoundError, IsADirectoryError."""
        node = self.find(path)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        if isinstance(node, Directory):
            raise IsADirectoryError(errno.EISDIR, "is a directory", path)
        return node

    def directory(self, path: str) -> Directory:
        """The directory at `path`; FileNotFoundError, NotADirectoryError."""
        node = self.find(path)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, "no such directory", path)
        if isinstance(node, Inode):
            raise NotADirectoryError(errno.ENOTDIR, "not a directory", path)
        return node

    def walk(self, path: str = "/") -> Iterator[tuple[str, Inode]]:
        """All files below `path`, sorted."""
        node = self.find(path)
        if isinstance(node, Inode):
            yield path, node
        elif node is not None:
            for name in sorted(node.entries):
                yield from self.walk(f"{path.rstrip('/')}/{name}")

    def is_reachable(self, path: str) -> bool:
        """Whether processes see what is there."""
        return mount_of(path) not in self.broken_mounts | self.absent_mounts

    # ---- changes

    def create(self, path: str) -> Inode:
        """The file at `path`, made empty when it is not there."""
        node = self.find(path)
        if node is not None:
            return self.file(path)
        parent, name = split(path)
        inode = Inode()
        self.directory(parent).change({name: inode})
        return inode

    def mkdir(self, path: str) -> None:
        """The directory at `path` with its parents, made when it is not there."""
        if self.find(path) is not None:
            self.directory(path)
            return
        parent, name = split(path)
        if parent != "/":
            self.mkdir(parent)
        self.directory(parent).change({name: Directory()})

    def unlink(self, path: str) -> None:
        """Remove a file; a full disk has room again."""
        if self.file(path).data:
            self.full = False
            self.full_mounts.discard(mount_of(path))
        parent, name = split(path)
        self.directory(parent).change({name: None})
        self.note_cut(parent, name)

    def rmdir(self, path: str) -> None:
        """Remove an empty directory."""
        if self.directory(path).entries:
            raise OSError(errno.ENOTEMPTY, "directory not empty", path)
        parent, name = split(path)
        self.directory(parent).change({name: None})

    def rename(self, source: str, target: str) -> None:
        """Move a file over another, or a directory to a free name."""
        node = self.find(source)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", source)
        there = self.find(target)
        if isinstance(there, Directory) and there.entries:
            raise OSError(errno.ENOTEMPTY, "directory not empty", target)
        old_parent, old_name = split(source)
        new_parent, new_name = split(target)
        if old_parent == new_parent:
            self.directory(old_parent).change({old_name: None, new_name: node})
        else:
            self.directory(new_parent).change({new_name: node})
            self.directory(old_parent).change({old_name: None})
        self.note_cut(old_parent, old_name)
        self.note_cut(new_parent, new_name)
        if isinstance(node, Directory):
            self.note_cut(source, LOG_SUFFIX)
            self.note_cut(target, LOG_SUFFIX)

    def append(
        self, inode: Inode, chunk: bytes | bytearray | memoryview, directory: str = DATA_ROOT
    ) -> None:
        """Write at the end of `inode`, which lies in `directory`; ENOSPC after a part of it when
        the disk is full.
        """
        rng = self.torn_write_rng
        if rng is not None and self.torn_write_in:
            self.torn_write_in -= 1
        elif rng is not None and len(chunk) > 1:
            self.torn_write_rng = None
            inode.append(bytes(chunk[: rng.randint(0, len(chunk) - 1)]))
            raise TornWrite
        if self.full_in >= 0:
            self.full = self.full_in == 0
            self.full_in -= 1
        if self._refuses(directory):
            inode.append(bytes(chunk[: len(chunk) // 3]))
            raise OSError(errno.ENOSPC, "no space left on device")
        inode.append(chunk)

    def write_at(
        self,
        inode: Inode,
        chunk: bytes | bytearray | memoryview,
        position: int,
        directory: str = DATA_ROOT,
    ) -> None:
        """Write into `inode` at `position`; faults as of `append`."""
        rng = self.torn_write_rng
        if rng is not None and len(chunk) > 1:
            self.torn_write_rng = None
            inode.write_at(bytes(chunk[: rng.randint(0, len(chunk) - 1)]), position)
            raise TornWrite
        if self._refuses(directory):
            inode.write_at(bytes(chunk[: len(chunk) // 3]), position)
            raise OSError(errno.ENOSPC, "no space left on device")
        inode.write_at(chunk, position)

    def _refuses(self, directory: str) -> bool:
        """Whether there is no room for this write."""
        is_full = self.full or mount_of(directory) in self.full_mounts
        self.refusals += is_full
        return is_full

    def fail(self, act: str, directory: str, name: str) -> bool:
        """Whether this one fails: once, and only in the log of a partition."""
        if self.failing != act or not name.endswith(LOG_SUFFIX) or directory.count("/") != 3:
            return False
        self.failing = ""
        if not self.on_failure(act, directory):
            return False
        self.harmed.add(directory)
        return True

    def is_short(self, path: str) -> bool:
        """Whether this access fails for a reason of the moment."""
        if self.short_rng.random() >= self.short_share:
            return False
        self.shortages += 1
        if self.short_once:
            self.short_once, self.short_share = False, 0.0
        return True

    def note_cut(self, directory: str, name: str) -> None:
        """A log file in `directory` changed other than by growing."""
        if name.endswith(LOG_SUFFIX):
            self.cuts[directory] = self.cuts.get(directory, 0) + 1

    # ---- faults

    def copy(self, source: str, target: str) -> None:
        """Somebody copies a directory of files to a free name on another disk, for good."""
        copied = Directory()
        for name, node in sorted(self.directory(source).entries.items()):
            assert isinstance(node, Inode)
            copied.change({name: node.copy()})
        copied.fsync()
        parent, name = split(target)
        self.directory(parent).change({name: copied})
        self.directory(parent).fsync()
        self.note_cut(target, LOG_SUFFIX)
        if source in self.harmed:
            self.harmed.add(target)

    def wipe(self, path: str) -> None:
        """Somebody removes a directory with all in it, for good."""
        parent, name = split(path)
        directory = self.directory(parent)
        directory.change({name: None})
        directory.fsync()
        self.harmed.discard(path)

    def lose_power(self, rng: random.Random) -> None:
        """Back to what is durable, more or less; the machine has a new boot id."""
        self.root.lose_power(rng)
        self.boot += 1
        self.torn_write_rng = None


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part and part != "."]


def mount_of(path: str) -> str:
    """The first part of the path."""
    return "/" + path.split("/", 2)[1]


def split(path: str) -> tuple[str, str]:
    """Parent and last name."""
    parent, _, name = path.rstrip("/").rpartition("/")
    return parent or "/", name
