"""The disk space of topics, as brokers describe their log directories."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple, cast

from pylog import errors
from pylog.model import TopicPartition

if TYPE_CHECKING:
    from pylog.client.admin.admin import AdminClient
    from pylog.client.admin.admin_types import LogDirDescription


class TopicSize(NamedTuple):
    """In bytes. `copy`: one copy of each partition, its largest replica; `disks`: all replicas."""

    copy: int
    disks: int


def topic_sizes(directories: Iterable[LogDirDescription]) -> dict[str, TopicSize]:
    """By topic, of the directories that are known. Pure."""
    copies: dict[TopicPartition, int] = {}
    disks: dict[str, int] = {}
    for directory in directories:
        for tp, replica in directory.replicas.items():
            copies[tp] = max(copies.get(tp, 0), replica.size)
            disks[tp.topic] = disks.get(tp.topic, 0) + replica.size
    sizes = {name: TopicSize(0, total) for name, total in disks.items()}
    for tp, size in copies.items():
        known = sizes[tp.topic]
        sizes[tp.topic] = known._replace(copy=known.copy + size)
    return sizes


def ask_topic_sizes(admin: AdminClient) -> Mapping[str, TopicSize]:
    """The same, asked of all live brokers: of those that answer, and of none where none does."""
    found: Mapping[int, list[LogDirDescription]]
    try:
        found = admin.describe_log_dirs()
    except errors.PartialFailure as partly:
        found = cast("Mapping[int, list[LogDirDescription]]", partly.results)
    except errors.PylogError:
        return {}
    return topic_sizes(directory for directories in found.values() for directory in directories)
