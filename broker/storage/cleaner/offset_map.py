"""The newest offset of each key in the part of a log that is being cleaned, in bounded memory."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from pylog.records.array_columns import ArrayColumns
from pylog.records.batch import BatchHeader
from pylog.records.native.raw_memory import buffer_address
from pylog.records.sections import Section
from pylog_broker.storage.cleaner.kernels import EMPTY, put_keys, select_records

SLOT_BYTES: Final = 24
_LOAD: Final = 0.9
_SLOTS_MIN: Final = 16


class OffsetMap:
    """Holds at most 0.9 of the slots that `buffer_bytes` take; fewer where no more can be needed.

    `seed`: 16 random bytes, other ones for each map.
    """

    def __init__(self, buffer_bytes: int, records_max: int, seed: bytes) -> None:
        self._key0, self._key1 = np.frombuffer(seed, np.uint64)
        slots = _SLOTS_MIN
        while slots * _LOAD < records_max and slots * 2 * SLOT_BYTES <= buffer_bytes:
            slots *= 2
        self._highs = np.zeros(slots, np.uint64)
        self._lows = np.zeros(slots, np.uint64)
        self._offsets = np.full(slots, EMPTY, np.int64)
        self._room = int(slots * _LOAD)
        self._keys = 0

    def __len__(self) -> int:
        return self._keys

    @property
    def room(self) -> int:
        """The number of keys that the map takes."""
        return self._room

    def put(self, section: Section, header: BatchHeader) -> bool:
        """Note all keys of a batch; False when the map is full, and it is not noted as a whole.

        The keys of it that were noted do no harm: the newest offset that is noted for a key is one
        that it has, and older ones go only below the end that the caller then knows.
        """
        fields = fields_of(section, header)
        address, _alive = buffer_address(section.buffer)
        handled, new = put_keys(
            address,
            fields,
            header.base_offset,
            self._key0,
            self._key1,
            self._highs,
            self._lows,
            self._offsets,
            self._room - self._keys,
        )
        self._keys += int(new)
        return bool(int(handled) == fields.shape[1])

    def select(
        self,
        section: Section,
        header: BatchHeader,
        fields: NDArray[np.int64],
        *,
        end_offset: int,
        keeps_tombstones: bool,
    ) -> tuple[NDArray[np.uint8], int, int]:
        """(mask of the records that stay, how many, how many tombstones among them)."""
        kept = np.empty(fields.shape[1], np.uint8)
        address, _alive = buffer_address(section.buffer)
        count, tombstones = select_records(
            address,
            fields,
            header.base_offset,
            self._key0,
            self._key1,
            self._highs,
            self._lows,
            self._offsets,
            end_offset,
            int(keeps_tombstones),
            kept,
        )
        return kept, int(count), int(tombstones)


def fields_of(section: Section, header: BatchHeader) -> NDArray[np.int64]:
    """The positions of each record's parts: one row per constant of `decode_kernels`."""
    return ArrayColumns.decode(section, header, 0).fields
