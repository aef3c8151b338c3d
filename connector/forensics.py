"""The reason why records are gone, as far as the cluster can tell; asked only when a loss is to be
told.

A broker knows where its log begins, how old its first record is, and how long the topic keeps
records. Coordinators know the batch writes that have overwritten topics. Whether retention or an
administrator moved the start is told where only one of them can have.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from pylog.errors import PylogError
from pylog.model import EARLIEST_TIMESTAMP, TopicPartition
from pylog_connector.options import SourceOptions
from pylog_connector.planning import UNKNOWN

if TYPE_CHECKING:
    from pylog.client.ranges.range_reader import RangeReader


ASK_MS_MAX: Final = 3_000
"""The error must not wait long for its explanation."""
_SETTINGS: Final = ("cleanup.policy", "retention.ms", "retention.bytes")


def why_deleted(options: SourceOptions, reader: RangeReader, at: TopicPartition) -> str:
    """Ends a sentence that says that records of a partition were deleted."""
    try:
        overwritten = why_overwritten(options, at, _first(reader, at))
    except PylogError:
        overwritten = None
    if overwritten is not None:
        return overwritten
    return by_whom(_settings(options, at.topic)) + oldest(_oldest_ms(reader, at))


def why_overwritten(
    options: SourceOptions, at: TopicPartition, first: int | None, *, with_rows: bool = False
) -> str | None:
    """The same of a partition that begins at `first` because a batch write has overwritten the
    topic; None where none is known. `with_rows`: that has written to the partition. Raises why
    brokers cannot tell.
    """
    from pylog.client.admin.admin import AdminClient

    if first is None:
        return None
    with AdminClient(
        bootstrap_servers=[str(address) for address in options.bootstrap],
        default_api_timeout_ms=ASK_MS_MAX,
    ) as admin:
        found = admin.list_sinks(receipts=True)
    for sink in found:
        if sink.last is not None and first in sink.last.start_of(at, with_rows=with_rows):
            moment = datetime.datetime.fromtimestamp(sink.last.decided_ms / 1000, datetime.UTC)
            return (
                f"as the topic was overwritten: by batch {sink.last.batch_id} of sink "
                f"{sink.sink_id!r} of query {sink.query_id}, at "
                f"{moment.isoformat(timespec='milliseconds')}"
            )
    return None


def by_whom(settings: Mapping[str, str | None]) -> str:
    """The causes that the topic's settings leave, to end a sentence with."""
    if any(settings.get(name) is None for name in _SETTINGS):
        return UNKNOWN
    policy, time_ms, size = (str(settings[name]) for name in _SETTINGS)
    if "delete" not in policy:
        return f"by request (with cleanup.policy={policy} retention deletes nothing)"
    limits = [
        f"{name}={value}"
        for name, value in (("retention.ms", time_ms), ("retention.bytes", size))
        if value != "-1"
    ]
    if not limits:
        return "by request (the topic's retention.ms and retention.bytes are off)"
    return f"by retention ({' and '.join(limits)}) or by request"


def oldest(time_ms: int | None) -> str:
    """The time of the first record, to end a sentence with. -1: no record is left; None: nobody
    could tell.
    """
    if time_ms is None:
        return ""
    if time_ms < 0:
        return ", and no record is left"
    try:
        moment = datetime.datetime.fromtimestamp(time_ms / 1000, datetime.UTC)
    except (OverflowError, ValueError, OSError):
        return ""
    return f", and the oldest record left is of {moment.isoformat(timespec='milliseconds')}"


def _first(reader: RangeReader, at: TopicPartition) -> int | None:
    try:
        return reader.offsets([at], EARLIEST_TIMESTAMP)[at].offset
    except PylogError:
        return None


def _oldest_ms(reader: RangeReader, at: TopicPartition) -> int | None:
    try:
        return reader.offsets([at], 0)[at].timestamp_ms
    except PylogError:
        return None


def _settings(options: SourceOptions, topic: str) -> dict[str, str | None]:
    from pylog.client.admin.admin import AdminClient

    try:
        with AdminClient(
            bootstrap_servers=[str(address) for address in options.bootstrap],
            default_api_timeout_ms=ASK_MS_MAX,
        ) as admin:
            (found,) = admin.describe_configs({("topic", topic): list(_SETTINGS)}).values()
    except PylogError:
        return {}
    return {name: found[name].value for name in _SETTINGS if name in found}
