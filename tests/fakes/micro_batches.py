"""Spark's micro-batch engine in a few lines: a stream reader, a checkpoint, and what was read.

For tests that need many queries and no Spark: plans are written before they are run and commits
after, so that a run which fails is replayed by the next. A restart is a new `Run` on the same
`Checkpoint`, with a reader of its own that asks the cluster anew. Offsets go through JSON as in a
real checkpoint.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql.streaming.datasource import ReadAllAvailable

from pylog_connector.options import source_options
from pylog_connector.source import StreamReader

Row = tuple[str, int, int, str]
"""Topic, partition, offset, value."""


@dataclass
class Checkpoint:
    """The contents of Spark's checkpoint: the start, the end of each planned batch, the number of
    committed ones."""

    start: str | None = None
    ends: list[str] = field(default_factory=list)
    commits: int = 0

    def spans(self) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """Start and end of each planned batch."""
        assert self.start is not None
        positions = [json.loads(text) for text in (self.start, *self.ends)]
        return [*itertools.pairwise(positions)]


class Run:
    """One life of a query. `sink` may raise: the batch then counts as not committed."""

    def __init__(
        self,
        options: Mapping[str, str],
        checkpoint: Checkpoint,
        *,
        available_now: bool = False,
        sink: Callable[[list[Row]], None] = lambda rows: None,
    ) -> None:
        read = source_options(options, streaming=True)
        self.columns = ["topic", "partition", "offset", "value"]
        if read.include_headers:
            self.columns.append("headers")
        self.reader = StreamReader(read, self.columns)
        self.checkpoint = checkpoint
        self.batches: list[list[Row]] = []
        self._sink = sink
        if available_now:
            self.reader.prepareForTriggerAvailableNow()

    def trigger(self, *, once: bool = False) -> bool:
        """Replay what was planned and not committed, or plan and run a batch; false: no news."""
        checkpoint = self.checkpoint
        if len(checkpoint.ends) > checkpoint.commits:
            self._run()
            return True
        if checkpoint.start is None:
            checkpoint.start = json.dumps(self.reader.initialOffset())
        start = self._start()
        limit = ReadAllAvailable() if once else self.reader.getDefaultReadLimit()
        end = json.dumps(self.reader.latestOffset(json.loads(start), limit))
        if end == start:
            return False
        checkpoint.ends.append(end)
        self._run()
        return True

    def drain(self) -> list[Row]:
        """Trigger until nothing comes any more; the rows."""
        before = len(self.batches)
        while self.trigger():
            pass
        return [row for batch in self.batches[before:] for row in batch]

    def stop(self) -> None:
        """The end of this life."""
        self.reader.stop()

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _start(self) -> str:
        checkpoint = self.checkpoint
        assert checkpoint.start is not None
        return checkpoint.ends[checkpoint.commits - 1] if checkpoint.commits else checkpoint.start

    def _run(self) -> None:
        checkpoint = self.checkpoint
        if not checkpoint.commits:
            # As Spark does when it replays its first batch.
            checkpoint.start = json.dumps(self.reader.initialOffset())
        start, end = json.loads(self._start()), json.loads(checkpoint.ends[checkpoint.commits])
        rows: list[Row] = []
        for partition in self.reader.partitions(start, end):
            for batch in self.reader.read(partition):
                assert batch.schema.names == self.columns
                rows += [_row(row) for row in batch.to_pylist()]
        self._sink(rows)
        self.batches.append(rows)
        checkpoint.commits += 1


def _row(row: Mapping[str, Any]) -> Row:
    return row["topic"], row["partition"], row["offset"], row["value"].decode()
