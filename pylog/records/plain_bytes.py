"""A caller's keys or values, as the encoders take them."""

from __future__ import annotations

from collections.abc import Sequence


def plain_bytes(data: Sequence[bytes | None], what: str) -> list[bytes | None]:
    """The same, each item None or exactly a bytes object; bytearrays and views are copied.

    TypeError names the first record that holds anything else.
    """
    items: list[bytes | None] = []
    for index, item in enumerate(data):
        if item is None or type(item) is bytes:
            items.append(item)
        elif isinstance(item, (bytes, bytearray, memoryview)):
            items.append(bytes(item))
        else:
            raise TypeError(
                f"record {index}: a {what} must be bytes or None, not {type(item).__name__}"
            )
    return items
