"""Limits of what one request may name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pylog import errors
from pylog.model import TOPIC_NAME_LENGTH_MAX
from pylog.plain_text import cut
from pylog_broker.metadata.messages import Failure

PARTITIONS_PER_REQUEST_MAX: Final = 20_000
TOPICS_PER_REQUEST_MAX: Final = 10_000
ITEMS_PER_REQUEST_MAX: Final = 10_000
"""The most items that an administrator's request may name."""
REPLICAS_PER_REQUEST_MAX: Final = 100_000
"""The most replicas of all partitions of one request together."""


def check_items(count: int, what: str) -> None:
    """InvalidRequest when an administrator's request names more than `ITEMS_PER_REQUEST_MAX`."""
    if count > ITEMS_PER_REQUEST_MAX:
        raise errors.InvalidRequest(
            f"{count} {what} in one request; the limit is {ITEMS_PER_REQUEST_MAX}"
        )


def check_replicas(count: int) -> None:
    """InvalidRequest when one request names more replicas than it may."""
    if count > REPLICAS_PER_REQUEST_MAX:
        raise errors.InvalidRequest(
            f"{count} replicas in one request; the limit is {REPLICAS_PER_REQUEST_MAX}"
        )


def check_partitions(count: int) -> None:
    """InvalidRequest when one request names more partitions than it may."""
    if count > PARTITIONS_PER_REQUEST_MAX:
        raise errors.InvalidRequest(
            f"{count} partitions in one request; the limit is {PARTITIONS_PER_REQUEST_MAX}"
        )


def named_twice(partitions: Iterable[tuple[str, int]]) -> Failure | None:
    """The refusal of a request that names a partition more than once; None when none does."""
    seen: set[tuple[str, int]] = set()
    for name in partitions:
        if name in seen:
            topic = cut(name[0], TOPIC_NAME_LENGTH_MAX)
            return Failure(
                errors.InvalidRequest.code,
                f"{topic}-{name[1]} stands in the request more than once",
            )
        seen.add(name)
    return None
