"""The poller's questions to the cluster, one function for each part of a snapshot.

Each gives a value and a fault in words, which is empty where everything could be had.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, TypeVar, cast

from pylog import errors
from pylog.client.admin.admin_types import LogDirDescription
from pylog.client.admin.transaction_types import TransactionListing
from pylog.console.snapshot import Ends, GroupLook
from pylog.model import ClusterDescription, TopicDescription, TopicPartition

if TYPE_CHECKING:
    from pylog.client.admin.admin import AdminClient

T = TypeVar("T")
K = TypeVar("K")

PART_SECONDS: Final = 5.0
"""For one part: of a broker that is gone nothing is learnt by waiting longer."""
FAULT_CHARS_MAX: Final = 300
GROUPS_MAX: Final = 2_000
"""More groups are listed, and not looked into."""


def words_of(error: BaseException) -> str:
    """An error on one line, by its name."""
    text = " ".join(str(error).split())[:FAULT_CHARS_MAX]
    name = error.name if isinstance(error, errors.PylogError) else type(error).__name__
    return f"{name}: {text}" if text else name


def cluster(admin: AdminClient) -> tuple[ClusterDescription, str]:
    """The cluster with all brokers, those that are fenced too."""
    return admin.describe_cluster(include_fenced_brokers=True, timeout=PART_SECONDS), ""


def topics(admin: AdminClient) -> tuple[Mapping[str, TopicDescription], str]:
    """All topics, internal ones too."""
    names = admin.list_topics(internal=True, timeout=PART_SECONDS)
    if not names:
        return {}, ""
    found, faults = _whole(lambda: admin.describe_topics(names, timeout=PART_SECONDS))
    kept = {
        name: fault
        for name, fault in faults.items()
        if not isinstance(fault, errors.UnknownTopicOrPartition)  # deleted meanwhile
    }
    return found, _fault(kept)


def ends(admin: AdminClient, known: Mapping[str, TopicDescription]) -> tuple[Ends, str]:
    """The log end offset of each partition that has a leader."""
    wanted: dict[TopicPartition, str | int] = {
        TopicPartition(topic.name, each.partition): "latest"
        for topic in known.values()
        for each in topic.partitions
        if each.leader is not None
    }
    if not wanted:
        return {}, ""
    found, faults = _whole(lambda: admin.list_offsets(wanted, timeout=PART_SECONDS))
    return {tp: end.offset for tp, end in found.items() if end is not None}, _fault(faults)


def disks(admin: AdminClient) -> tuple[Mapping[int, list[LogDirDescription]], str]:
    """The log directories of the brokers that answer."""
    found, faults = _whole(lambda: admin.describe_log_dirs(timeout=PART_SECONDS))
    return found, _fault(faults)


def groups(admin: AdminClient) -> tuple[Mapping[str, GroupLook], str]:
    """All groups with their members and how far they are behind."""
    try:
        listings = admin.list_groups(timeout=PART_SECONDS)
        fault = ""
    except errors.PartialFailure as partly:
        told = cast("Mapping[int, list]", partly.results)  # type: ignore[type-arg]
        listings = sorted(
            (each for listed in told.values() for each in listed), key=lambda each: each.group_id
        )
        fault = _fault(partly.errors)
    ids = [each.group_id for each in listings[:GROUPS_MAX]]
    if not ids:
        return {}, fault
    described, faults = _whole(lambda: admin.describe_groups(ids, timeout=PART_SECONDS))
    lags, more = _whole(lambda: admin.group_lag(ids, timeout=PART_SECONDS))
    gone = {
        name
        for name, each in (*faults.items(), *more.items())
        if isinstance(each, errors.GroupIdNotFound)
    }
    faults = {name: each for name, each in {**faults, **more}.items() if name not in gone}
    looks = {
        each.group_id: GroupLook(each, described.get(each.group_id), lags.get(each.group_id))
        for each in listings
        if each.group_id not in gone
    }
    return looks, fault or _fault(faults)


def transactions(admin: AdminClient) -> tuple[list[TransactionListing], str]:
    """All transactional ids that a coordinator knows."""
    try:
        return admin.list_transactions(timeout=PART_SECONDS), ""
    except errors.PartialFailure as partly:
        told = cast("Mapping[int, list[TransactionListing]]", partly.results)
        return sorted(each for listed in told.values() for each in listed), _fault(partly.errors)


def _whole(ask: Callable[[], Mapping[K, T]]) -> tuple[Mapping[K, T], Mapping[K, errors.PylogError]]:
    """The results that came, and the faults of the rest."""
    try:
        return ask(), {}
    except errors.PartialFailure as error:
        return cast("Mapping[K, T]", error.results), cast(
            "Mapping[K, errors.PylogError]", error.errors
        )


def _fault(faults: Mapping[K, errors.PylogError]) -> str:
    if not faults:
        return ""
    item, error = next(iter(faults.items()))
    more = f" and {len(faults) - 1} more" if len(faults) > 1 else ""
    return f"{item}{more}: {words_of(error)}"
