"""Rules of transactional ids, and who may ask in their name."""

from __future__ import annotations

from typing import Final

from pylog.errors import InvalidRequest

TRANSACTIONAL_ID_CHARS_MAX: Final = 249
"""Apache Kafka takes 32 KiB; an id stands in every record of its transactions, and in errors."""


def check_transactional_id(transactional_id: str) -> None:
    """Raises InvalidRequest."""
    if not transactional_id:
        raise InvalidRequest("transactional_id is empty")
    if len(transactional_id) > TRANSACTIONAL_ID_CHARS_MAX:
        raise InvalidRequest(
            f"transactional_id has {len(transactional_id)} characters; the limit is "
            f"{TRANSACTIONAL_ID_CHARS_MAX}"
        )
