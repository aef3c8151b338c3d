"""The topic settings `leader.replication.throttled.replicas` and `follower.replication....`: which
replicas keep to a broker's rate while they are copied (KIP-73). Pure.

`*` means all; else `partition:broker` pairs, separated by commas, each a replica.
"""

from __future__ import annotations

from collections.abc import Sequence

from pylog.errors import InvalidConfig
from pylog.model import BrokerId


def check_throttled_replicas(entries: Sequence[str], setting: str) -> None:
    """InvalidConfig names the entry that is neither `partition:broker` nor the only `*`."""
    if list(entries) == ["*"]:
        return
    for entry in entries:
        numbers = entry.split(":")
        if len(numbers) != 2 or not all(n.isascii() and n.isdigit() for n in numbers):
            raise InvalidConfig(
                f"{setting}: {entry!r} must be partition:broker, such as 0:3, or a single * for "
                "all replicas"
            )


def is_throttled(entries: Sequence[str], partition: int, broker: BrokerId) -> bool:
    """Whether the broker's replica of the partition is among them."""
    return bool(entries) and (entries[0] == "*" or f"{partition}:{broker}" in entries)
