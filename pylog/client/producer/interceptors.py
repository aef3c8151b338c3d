"""A producer's interceptors: code of the user's that sees each record before it is serialized, and
its outcome before the user's own callback (KIP-42).

An error that one of them raises is logged and changes nothing: a record is never lost to an
interceptor.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from pylog import errors
from pylog.client.background import log_or_raise, logger
from pylog.model import RecordMetadata


@dataclasses.dataclass(frozen=True, slots=True)
class ProducerRecord:
    """A record as `send` was given it; `dataclasses.replace` makes the changed one."""

    topic: str
    value: Any = None
    key: Any = None
    headers: Iterable[tuple[str, Any]] | Mapping[str, Any] | None = None
    partition: int | None = None
    timestamp_ms: int | None = None


INTERCEPTS: Final = ("on_send", "on_acknowledgement")


class Interceptors:
    """A chain, in the order of the setting. Each may have `on_send(record) -> record`,
    `on_acknowledgement(metadata, error)`, of which one is None, and `close()`.
    """

    def __init__(self, chain: Sequence[Any]) -> None:
        self._on_send = _methods(chain, "on_send")
        self._on_acknowledgement = _methods(chain, "on_acknowledgement")
        self._close = _methods(chain, "close")

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """The record as the chain leaves it. On the sending thread."""
        for method in self._on_send:
            try:
                changed = method(record)
            except Exception:  # noqa: BLE001  a user's code: the record goes on as it was
                logger.exception("an interceptor's on_send raised")
                continue
            if isinstance(changed, ProducerRecord):
                record = changed
            else:
                logger.error(
                    "an interceptor's on_send returned %s, not a ProducerRecord: the record goes "
                    "on as it was",
                    type(changed).__name__,
                )
        return record

    def on_acknowledgement(
        self, metadata: RecordMetadata | None, error: errors.PylogError | None
    ) -> None:
        """Tell the chain a record's outcome: on pylog's thread, or on the sending one if `send`
        itself refused the record.
        """
        for method in self._on_acknowledgement:
            try:
                method(metadata, error)
            except BaseException as fault:  # noqa: BLE001  the producer goes on
                log_or_raise(fault, "an interceptor's on_acknowledgement raised")

    def close(self) -> None:
        """The producer closed."""
        for method in self._close:
            try:
                method()
            except Exception:  # noqa: BLE001  a user's code: the producer goes on
                logger.exception("an interceptor's close raised")


def _methods(chain: Sequence[Any], name: str) -> list[Callable[..., Any]]:
    return [getattr(one, name) for one in chain if callable(getattr(one, name, None))]
