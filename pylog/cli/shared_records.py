"""`pylog consume --share-group`: records that this program takes in turn with others."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from pylog.clock import SYSTEM_CLOCK
from pylog.model import AcknowledgeType

if TYPE_CHECKING:
    from pylog.records.record import Record

POLL_SECONDS: Final = 0.2
SHARE_OPTIONS: Final = ("group_id", "bootstrap_servers", "share_acknowledgement_mode")
"""Settings that the command has options for, or decides."""


def print_shared(
    client: Mapping[str, Any],
    topic: str,
    group: str,
    show: Callable[[Record], bytes],
    max_messages: int | None,
    timeout_s: float | None,
) -> None:
    """Print until so many were printed, or nothing came for so long. Printed records are accepted,
    and records that were acquired beyond them are released. Raises the error of an acknowledgement
    that does not count.
    """
    from pylog.client.share_consumer.share_consumer import ShareConsumer

    wait_s = POLL_SECONDS if timeout_s is None else min(timeout_s, POLL_SECONDS)
    out, left = sys.stdout.buffer, max_messages
    with ShareConsumer(
        topic, **client, group_id=group, share_acknowledgement_mode="explicit"
    ) as consumer:
        last_ms = SYSTEM_CLOCK.monotonic_ms()
        while left is None or left > 0:
            records = consumer.poll(wait_s)
            now_ms = SYSTEM_CLOCK.monotonic_ms()
            for record in records:
                if left == 0:
                    consumer.acknowledge(record, AcknowledgeType.RELEASE)
                    continue
                out.write(show(record))
                left = None if left is None else left - 1
                consumer.acknowledge(record)
            out.flush()
            if records:
                last_ms = now_ms
            elif timeout_s is not None and now_ms - last_ms >= timeout_s * 1000:
                break
        for tp, fault in consumer.commit().items():
            if fault is not None:
                raise type(fault)(f"{tp}: what was printed last is delivered again: {fault}")
