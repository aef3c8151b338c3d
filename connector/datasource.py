"""The format `pylog`: the class from which Spark makes readers and writers.

Options are checked as early as Spark allows: names and values when the data source is made (so also
where `.schema(...)` skips `schema()`), the rest when it is known what is made. A streaming sink is
made anew for each micro-batch; its errors therefore come with the first batch.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import MutableMapping
from dataclasses import replace
from typing import Final

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import BinaryType, StructField, StructType

from pylog_connector.errors import ConnectorError, SaveMode
from pylog_connector.option_names import (
    BOOTSTRAP,
    EXACTLY_ONCE,
    STREAM_ONLY,
    check_names,
    legible,
)
from pylog_connector.options import (
    SinkOptions,
    SourceOptions,
    check_output_mode,
    check_source,
    check_streaming_sink,
    check_values,
    sink_options,
    source_options,
    without_effect,
)
from pylog_connector.plainly import plainly
from pylog_connector.schema import check_sink_schema, projection, source_schema
from pylog_connector.sink import BatchWriter, StreamWriter
from pylog_connector.source import BatchReader, RefusedStream, StreamReader

logger = logging.getLogger(__name__)

LINES_MAX: Final = 1_000
"""The number of lines that a process remembers, so as not to log one at each batch."""
_told: set[str] = set()
"""The lines about options that this process has logged. Spark keeps its processes, and makes a
stream's writer in two of them for each batch."""


class PylogDataSource(DataSource):
    """Batch and streaming, source and sink."""

    @plainly
    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        check_names(options)
        check_values(options)

    @classmethod
    def name(cls) -> str:
        """The name of the format, for `format(...)`."""
        return "pylog"

    @plainly
    def schema(self) -> StructType:
        """The source's columns; Spark asks at `load()`."""
        return source_schema(include_headers=check_source(self.options))

    @plainly
    def reader(self, schema: StructType) -> BatchReader:
        """A batch read."""
        options = source_options(self.options, streaming=False)
        self._tell_without_effect(sink=False)
        unused = [name for name in STREAM_ONLY if name in self.options]
        if unused:
            warnings.warn(
                f"{', '.join(unused)}: this means nothing for a batch read, which reads everything "
                f"between {options.starting.option} and {options.ending.option}",
                stacklevel=2,
            )
        return BatchReader(options, _columns(schema, options))

    @plainly
    def streamReader(self, schema: StructType) -> StreamReader | RefusedStream:
        """A streaming read, or one that raises what is wrong with it when Spark uses it."""
        try:
            options = source_options(self.options, streaming=True)
            columns = _columns(schema, options)
        except ConnectorError as error:
            return RefusedStream(error)
        self._tell_without_effect(sink=False)
        return StreamReader(options, columns)

    @plainly
    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        """A batch write; SaveMode for an overwrite that would not be exactly once."""
        options, columns = self._sink(schema)
        if overwrite and not options.exactly_once:
            raise SaveMode(
                f"mode('overwrite') replaces a topic as a whole, which needs a decision about all "
                f"tasks; leave {EXACTLY_ONCE}=false out, or use mode('append')"
            )
        return BatchWriter(replace(options, overwrites=overwrite), columns)

    @plainly
    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:
        """A streaming write. Complete mode (`overwrite`) appends the whole result each time, as
        with Spark's Kafka sink.
        """
        options, columns = self._sink(schema)
        check_streaming_sink(options)
        check_output_mode(options, complete=overwrite)
        return StreamWriter(options, columns)

    def _sink(self, schema: StructType) -> tuple[SinkOptions, tuple[str, ...]]:
        options = sink_options(self.options)
        self._tell_without_effect(sink=True)
        return options, check_sink_schema(schema, topic_option=options.topic is not None)

    def _tell_without_effect(self, *, sink: bool) -> None:
        for name, reason in without_effect(self.options, sink=sink).items():
            line = f"{legible(name)} is taken without effect: {reason}"
            if line in _told:
                continue
            if len(_told) >= LINES_MAX:
                _told.clear()
            _told.add(line)
            logger.warning("%s", line)


def _columns(schema: StructType, options: SourceOptions) -> tuple[str, ...]:
    return projection(schema, include_headers=options.include_headers)


def refusal_to_overwrite(*, exactly_once: bool) -> str | None:
    """The reason why a batch write in mode `overwrite` is refused; None where it is not."""
    options = {BOOTSTRAP: "host:1", "topic": "topic", EXACTLY_ONCE: str(exactly_once).lower()}
    source = PylogDataSource(options)
    try:
        source.writer(StructType([StructField("value", BinaryType())]), overwrite=True)
    except SaveMode as error:
        return str(error).removeprefix(f"[{error.condition}] ")
    return None
