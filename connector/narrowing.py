"""The records of its ranges that a task hands to Spark: those of some keys, or of some time. Pure.

It spares a filter on the DataFrame, before which every record goes through Python and the JVM.
Unlike a pushed filter it is part of the source: it holds for batches and streams, and for every use
of the frame.
"""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Final

from pylog_connector.errors import InvalidOption
from pylog_connector.values import INT_MAX, shown, whole_number

if TYPE_CHECKING:
    import pyarrow as pa

KEYS_MAX: Final = 10_000
"""Every task gets them, and every record is compared with them."""
PARTITIONS_MAX: Final = 100_000

_KEYS: Final = (
    'give a JSON list of keys, like ["JFK","LHR"], with {"base64":"AAE="} for bytes that are no '
    "text, and null for records without a key"
)
_PARTITIONS: Final = "give numbers and ranges of partitions, separated by commas, like 0,3,8-11"


@dataclass(frozen=True, slots=True)
class Narrowing:
    """Records that have one of `keys` (None stands for no key) and whose times lie between the
    two, both inclusive; None: no such condition.
    """

    keys: tuple[bytes | None, ...] | None = None
    first_ms: int | None = None
    last_ms: int | None = None

    def __bool__(self) -> bool:
        return self != _EVERYTHING

    def may_hold(self, max_timestamp_ms: int) -> bool:
        """Whether a batch whose newest record is of this time may have a record that is wanted."""
        return self.first_ms is None or max_timestamp_ms >= self.first_ms

    def of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The wanted rows of a batch with the columns `key` and `timestamp`."""
        import pyarrow as pa
        import pyarrow.compute as pc

        masks = []
        if self.keys is not None:
            wanted = pa.array(self.keys, pa.binary())
            masks.append(pc.is_in(batch.column("key"), value_set=wanted))
        # As numbers: a time beyond what a timestamp holds can be asked for as well.
        times_ms = pc.divide(batch.column("timestamp").cast(pa.int64()), 1_000)
        if self.first_ms is not None:
            masks.append(pc.greater_equal(times_ms, self.first_ms))
        if self.last_ms is not None:
            masks.append(pc.less_equal(times_ms, self.last_ms))
        return batch.filter(reduce(pc.and_, masks)) if masks else batch


_EVERYTHING: Final = Narrowing()


def keys_of(text: str) -> tuple[bytes | None, ...]:
    """The option `keys`; InvalidOption says which item is wrong."""
    try:
        listed = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidOption(f"keys={shown(text)} is not valid JSON: {error}; {_KEYS}") from None
    if not isinstance(listed, list) or not listed:
        raise InvalidOption(f"keys={shown(text)}: {_KEYS}")
    if len(listed) > KEYS_MAX:
        raise InvalidOption(
            f"keys names {len(listed)} keys, and {KEYS_MAX} is the most; join with a DataFrame of "
            "the keys instead"
        )
    return tuple(dict.fromkeys(_key(number, item) for number, item in enumerate(listed)))


def _key(number: int, item: object) -> bytes | None:
    if item is None:
        return None
    try:
        if isinstance(item, str):
            return item.encode()
        if isinstance(item, dict) and list(item) == ["base64"] and isinstance(item["base64"], str):
            return base64.b64decode(item["base64"], validate=True)
    except (UnicodeEncodeError, binascii.Error) as error:
        raise InvalidOption(f"keys[{number}]={shown(item)}: {error}; {_KEYS}") from None
    raise InvalidOption(f"keys[{number}]={shown(item)}: {_KEYS}")


def partitions_of(text: str) -> frozenset[int]:
    """The option `partitions`, such as `0,3,8-11`."""
    numbers: set[int] = set()
    for part in text.split(","):
        first, dash, last = (word.strip() for word in part.partition("-"))
        low, high = whole_number(first), whole_number(last if dash else first)
        if low is None or high is None or not 0 <= low <= high <= INT_MAX:
            raise InvalidOption(f"partitions={shown(text)}: {_PARTITIONS}")
        if len(numbers) + high - low >= PARTITIONS_MAX:
            raise InvalidOption(
                f"partitions={shown(text)} names more than {PARTITIONS_MAX} partitions, which is "
                "the most; leave the option out for all"
            )
        numbers.update(range(low, high + 1))
    return frozenset(numbers)
