"""`docs/other-languages.md` is enough to read a batch: nothing of pylog reads it here."""

from __future__ import annotations

import struct

from crc32c import crc32c

from pylog.records.builder import encode_batch


class Cursor:
    """Reads the varints and bytes of records, as the page has them."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def number(self) -> int:
        raw = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            raw |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return (raw >> 1) ^ -(raw & 1)

    def some(self) -> bytes | None:
        length = self.number()
        if length < 0:
            return None
        self.at += length
        return self.data[self.at - length : self.at]


def test_a_batch_is_read_by_the_page_alone() -> None:
    batch = encode_batch(
        [b"one", None],
        keys=[None, b"key"],
        headers=[[("name", b"1"), ("none", None)], None],
        timestamps=[1_000, 1_005],
        base_offset=7,
        leader_epoch=3,
    )
    base, length, epoch, magic, crc, attributes, last, first_ms, last_ms, *producer, count = (
        struct.unpack(">qiibIhiqqqhii", batch[:61])
    )
    assert (base, length, epoch, magic) == (7, len(batch) - 12, 3, 2)
    assert (attributes, last, first_ms, last_ms, count) == (0, 1, 1_000, 1_005, 2)
    assert producer == [-1, -1, -1]
    assert crc == crc32c(batch[21:])
    cursor, found = Cursor(batch[61:]), []
    for _ in range(count):
        end = cursor.number() + cursor.at
        assert cursor.data[cursor.at] == 0
        cursor.at += 1
        delta_ms, delta = cursor.number(), cursor.number()
        key, value = cursor.some(), cursor.some()
        headers = [(cursor.some(), cursor.some()) for _ in range(cursor.number())]
        assert cursor.at == end
        found.append((base + delta, first_ms + delta_ms, key, value, headers))
    assert found == [
        (7, 1_000, None, b"one", [(b"name", b"1"), (b"none", None)]),
        (8, 1_005, b"key", None, []),
    ]
