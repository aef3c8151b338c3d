"""Rows of an Arrow table as record batches for `Producer.send_arrow`; nothing looks at a row in
Python. Imported at the first use only, because it brings pyarrow and, where it is installed, numba.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pylog import errors
from pylog.client.sending.producer_batch import BATCH_OVERHEAD
from pylog.records.arrow_encoder import ArrowEncoder, BatchSettings
from pylog.records.arrow_partitions import partitions_for_keys, rows_by_partition
from pylog.records.compression import Compression
from pylog.records.murmur2 import NO_KEY

COLUMNS: Final = ("key", "value", "headers", "partition", "timestamp")
ARROW_BATCH_BYTES: Final = 262_144
"""Whole tables do not wait for a linger: batches this large cost the least per record."""
SLICE_BYTES: Final = 16 << 20
"""A table is encoded in slices of about this size, so that it is not in memory twice."""


def arrow_batch_size(batch_size: int, max_request_size: int, buffer_memory: int) -> int:
    """The bytes of a table's batches: as many as make sending faster, and never so many that
    `buffer.memory` could not take one batch beside others.
    """
    share = max(buffer_memory // 4, min(batch_size, buffer_memory - BATCH_OVERHEAD))
    return max(1, min(max(batch_size, ARROW_BATCH_BYTES), max_request_size, share))


def highest_partition(data: Any) -> int:
    """The highest that the column `partition` names; -1 where it names none, or is no such."""
    if not isinstance(data, pa.RecordBatch | pa.Table) or data.schema.names.count("partition") != 1:
        return -1
    column = data.column("partition")
    if not pa.types.is_integer(column.type):
        return -1
    highest = pc.max(column).as_py()
    return -1 if highest is None else int(highest)


def encode_rows(
    topic: str,
    data: Any,
    *,
    partitions: int,
    partition: int | None,
    ignore_keys: bool,
    stick: Callable[[], int],
    batch_size: int,
    compression: Compression,
    now_ms: int,
    stamped_later: bool,
    transactional: bool = False,
) -> Iterator[tuple[int | None, bytes]]:
    """(partition, batch) in the order of the rows for each partition; None: wherever it suits. With
    `stamped_later` they have no CRC: `batch_bytes` makes it, with the producer's id.

    Where rows for anywhere stand among others, `stick()` names the partition of the next batch of
    them, before it is known what else goes there: rows of one partition keep their order.

    InvalidRequest names a column that is missing, unknown or of the wrong type, and a partition
    that does not exist.
    """
    table = _checked(topic, data, partition)
    settings = BatchSettings(
        batch_size=batch_size,
        compression=compression,
        stamped_later=stamped_later,
        transactional=transactional,
    )
    rows = max(1, min(1 << 20, SLICE_BYTES * max(table.num_rows, 1) // max(table.nbytes, 1)))
    for start in range(0, table.num_rows, rows):
        part = table.slice(start, rows)
        columns = {name: part.column(name) for name in part.schema.names}
        try:
            encoder = ArrowEncoder(
                columns["value"],
                key=columns.get("key"),
                headers=columns.get("headers"),
                timestamp=columns.get("timestamp"),
                default_timestamp_ms=now_ms,
            )
            if ignore_keys or partition is not None:
                columns.pop("key", None)
            places = None if partition is not None else _places(topic, columns, partitions)
        except TypeError as error:
            raise errors.InvalidRequest(f"send_arrow to topic {topic}: {error}") from error
        if places is None:
            for batch in encoder.encode(None, settings):
                yield partition, batch
            continue
        _stick_together(places, encoder, batch_size, stick)
        for number, chosen in rows_by_partition(places).items():
            for batch in encoder.encode(chosen, settings):
                yield number, batch


def _checked(topic: str, data: Any, partition: int | None) -> Any:
    where = f"send_arrow to topic {topic}"
    if not isinstance(data, pa.RecordBatch | pa.Table):
        raise errors.InvalidRequest(
            f"{where}: data is {type(data).__name__}; it must be a pyarrow RecordBatch or Table"
        )
    names = data.schema.names
    unknown = [name for name in names if name not in COLUMNS]
    if unknown or "value" not in names or len(set(names)) != len(names):
        raise errors.InvalidRequest(
            f"{where}: the columns are {', '.join(names) or 'none'}; 'value' is needed, and "
            f"{', '.join(c for c in COLUMNS if c != 'value')} may be there once"
        )
    if partition is not None and "partition" in names:
        raise errors.InvalidRequest(f"{where}: give partition= or a column 'partition', not both")
    return data


def _places(topic: str, columns: Mapping[str, Any], partitions: int) -> NDArray[Any] | None:
    """Each row's partition, NO_KEY for anywhere; None when all rows may go anywhere."""
    key, column = columns.get("key"), columns.get("partition")
    if column is not None and not (
        pa.types.is_integer(column.type) or pa.types.is_null(column.type)
    ):
        raise TypeError(f"column 'partition' must be of integers, not {column.type}")
    if key is not None and key.null_count == len(key):
        key = None
    if column is None or column.null_count == len(column):
        return None if key is None else partitions_for_keys(key, partitions)
    numbers = column.cast(pa.int64()).fill_null(NO_KEY).to_numpy()
    given = numbers[numbers != NO_KEY] if column.null_count else numbers
    wrong = given[(given < 0) | (given >= partitions)]
    if len(wrong):
        raise errors.UnknownTopicOrPartition(
            f"topic {topic} has partitions 0 to {partitions - 1}; there is no partition {wrong[0]}"
        )
    if not column.null_count:
        return np.asarray(numbers)
    by_key = NO_KEY if key is None else partitions_for_keys(key, partitions)
    return np.where(numbers == NO_KEY, by_key, numbers)


def _stick_together(
    places: NDArray[Any], encoder: ArrowEncoder, batch_size: int, stick: Callable[[], int]
) -> None:
    """Give rows for anywhere a partition, the same one for about a batch of them."""
    anywhere = np.flatnonzero(places == NO_KEY)
    if not len(anywhere):
        return
    sizes = encoder.sizes(anywhere)
    begins = np.cumsum(sizes) - sizes
    firsts = np.flatnonzero(np.diff(begins // batch_size, prepend=-1))
    counts = np.diff(firsts, append=len(anywhere))
    places[anywhere] = np.repeat([stick() for _ in firsts], counts)
