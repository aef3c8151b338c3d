"""A consumer's partitions read to their present end, as one table: `Consumer.to_arrow` and what is
made of it.

On the user's thread, by polls like any other. Where a read fails, positions go back to where it
began, so that nothing is lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Protocol

from pylog import errors
from pylog.client.arguments import whole
from pylog.client.consumer.decoding import Deserialize
from pylog.client.timeouts import seconds
from pylog.client.topics_and_partitions import Partitions
from pylog.clock import SYSTEM_CLOCK
from pylog.model import TopicPartition

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

READ_S: Final = 60.0
_POLL_S: Final = 0.5
_RECORDS_MAX: Final = 2**63 - 1


class Readable(Protocol):
    """The methods that a whole read calls of a consumer, which stands above this module."""

    def assignment(self) -> set[TopicPartition]: ...
    def end_offsets(self, *partitions: Partitions) -> dict[TopicPartition, int]: ...
    def seek(self, partition: TopicPartition, offset: int) -> None: ...
    def _is_reading(self) -> bool: ...
    def _poll_columns(self, timeout: float, include_headers: bool) -> list[pa.RecordBatch]: ...
    def _reached(self) -> dict[TopicPartition, int | None]: ...


class WholeRead:
    """One read of a consumer, to the ends that its partitions have when it meets them."""

    def __init__(self, consumer: Readable, max_records: int | None, timeout: float) -> None:
        self._consumer = consumer
        self._left = _RECORDS_MAX
        if max_records is not None:
            self._left = whole(max_records, "max_records", 0, _RECORDS_MAX, errors.InvalidRequest)
        self._timeout_s = seconds(timeout)
        self._deadline_ms = SYSTEM_CLOCK.monotonic_ms() + self._timeout_s * 1000
        self._ends: dict[TopicPartition, int] = {}
        self._begun: dict[TopicPartition, int] = {}
        self._batches: list[Any] = []

    def table(self, include_headers: bool) -> pa.Table:
        """All that was read."""
        import pyarrow as pa

        from pylog.records.arrow_schema import record_schema

        self._check_reads()
        while not self._is_done():
            left_s = (self._deadline_ms - SYSTEM_CLOCK.monotonic_ms()) / 1000
            if left_s <= 0:
                raise self._too_late()
            self._add_all(self._consumer._poll_columns(min(left_s, _POLL_S), include_headers))
        return pa.Table.from_batches(self._batches, schema=record_schema(include_headers))

    def go_back(self) -> None:
        """Have the next poll return again what this read has taken."""
        for tp, offset in self._begun.items():
            if tp in self._consumer.assignment():
                self._consumer.seek(tp, offset)

    def _check_reads(self) -> None:
        if not self._consumer._is_reading():
            raise errors.InvalidRequest("the consumer reads nothing: subscribe or assign first")

    def _is_done(self) -> bool:
        positions = self._consumer._reached()
        new = [tp for tp in positions if tp not in self._ends]
        if new:
            self._ends |= self._consumer.end_offsets(new)
        behind = [
            tp for tp, at in positions.items() if self._ends[tp] and (at or 0) < self._ends[tp]
        ]
        return self._left == 0 or (bool(self._ends) and not behind)

    def _add_all(self, batches: list[pa.RecordBatch]) -> None:
        """The columns of a poll, each batch of one partition. Records beyond the limit are read
        again."""
        polled = []
        for batch in batches:
            tp = TopicPartition(
                batch.column("topic")[0].as_py(), batch.column("partition")[0].as_py()
            )
            offsets = batch.column("offset").to_numpy()
            self._begun.setdefault(tp, int(offsets[0]))
            polled.append((tp, offsets, batch))
        cut: set[TopicPartition] = set()
        for tp, offsets, batch in polled:
            if tp in cut:
                continue
            if tp not in self._ends:
                self._ends |= self._consumer.end_offsets([tp])
            rows = min(int(offsets.searchsorted(self._ends[tp])), self._left)
            if rows < batch.num_rows:
                cut.add(tp)
                self._consumer.seek(tp, int(offsets[rows]))
            if rows:
                self._batches.append(batch.slice(0, rows))
                self._left -= rows

    def _too_late(self) -> errors.RequestTimedOut:
        if not self._ends:
            why = "no partition was assigned to this consumer"
        else:
            positions = self._consumer._reached()
            behind = [f"{tp} at {at} of {self._ends[tp]}" for tp, at in positions.items()]
            why = f"it has come to {', '.join(behind[:5])}"
        return errors.RequestTimedOut(
            f"the partitions were not read to their ends within {self._timeout_s:.3g} s: {why}; "
            f"positions are where they were; give a longer timeout, or max_records"
        )


def deserialized(frame: pd.DataFrame, functions: Mapping[str, Deserialize | None]) -> pd.DataFrame:
    """The frame with the columns that `functions` name made into the user's values.
    SerializationFailed names the record at which one fails.
    """
    for column, function in functions.items():
        if function is None:
            continue
        values: list[Any] = []
        for topic, data in zip(frame["topic"], frame[column], strict=True):
            try:
                values.append(function(topic, data))
            except Exception as error:
                at = frame.iloc[len(values)]
                raise errors.SerializationFailed(
                    f"{topic}-{at['partition']} at offset {at['offset']}: the deserializer failed "
                    f"on the {column}: {error!r}"
                ) from error
        frame[column] = values
    return frame


def needed(module: str, call: str) -> Any:
    """An optional library; ResourceNotFound says how to install it."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise errors.ResourceNotFound(
            f"{call} needs {module}, which is not installed: pip install {module}"
        ) from error
