"""The sink's errors for writes that the cluster refused: they tell the row where it is one, the
limit that applied, and what to do.
"""

from __future__ import annotations

import re
from socket import gethostname
from typing import Final

from pylog.errors import (
    InvalidConfig,
    InvalidProducerEpoch,
    InvalidRecord,
    InvalidTimestamp,
    MessageTooLarge,
    ProducerFenced,
    PylogError,
    UnknownTopicOrPartition,
)
from pylog_connector.errors import ConnectorError, InvalidOption, SinkRow, UnknownTopic, WriteFailed
from pylog_connector.option_names import in_options
from pylog_connector.options import SinkOptions
from pylog_connector.sink_rows import TopicRows, moment

# These words are those of brokers and of the producer; a test holds them to it.
_TIMESTAMP: Final = re.compile(r"\btimestamp (-?[0-9]+) is ")
_PARTITION: Final = re.compile(r"\bno partition ([0-9]+)")
_NO_KEY: Final = "a compacted topic needs one"
_LIMITS_TOLD: Final = ("pylog.", "socket.request.max.bytes")


def failed(
    topic: str, part: TopicRows | None, error: PylogError, options: SinkOptions
) -> ConnectorError:
    """The client's error as the sink's. `part`: the rows that were refused, where they are kept."""
    why = in_options(str(error), options.bootstrap_option)
    why = why.removeprefix(f"topic {topic}: ")
    if isinstance(error, InvalidConfig):
        return InvalidOption(why)
    if isinstance(error, UnknownTopicOrPartition):
        return UnknownTopic(f"cannot write to topic {topic}: {why}; {_of_unknown(part, why)}")
    if isinstance(error, MessageTooLarge):
        if not any(limit in why for limit in _LIMITS_TOLD):
            why += f"; raise max.message.bytes of topic {topic}, or write smaller rows"
        return SinkRow(f"topic {topic}: {why}")
    if isinstance(error, InvalidTimestamp):
        return SinkRow(
            f"topic {topic}: {_of_timestamp(part, why)}{why}; correct the column timestamp, or "
            "change that setting of the topic"
        )
    if isinstance(error, InvalidRecord) and _NO_KEY in why:
        return SinkRow(f"topic {topic}: {_of_key(part)}{why}; give each row a key")
    if options.exactly_once and isinstance(error, ProducerFenced | InvalidProducerEpoch):
        return WriteFailed(
            f"topic {topic}: what this attempt had written was aborted before it was complete: a "
            "newer run of the query has begun, its batch was decided with another attempt of the "
            "task, or it did not reach its coordinator for too long; Spark runs the task again if "
            "it is still needed"
        )
    again = "in a new transaction" if options.exactly_once else "which writes its records once more"
    return WriteFailed(
        f"topic {topic}: {error.name}: {why} (tried from host {gethostname()}); Spark "
        f"runs the task again, {again}"
    )


def _of_unknown(part: TopicRows | None, why: str) -> str:
    found = _PARTITION.search(why)
    if found is None:
        return "create it, or correct topic"
    index = -1
    if part is not None and "partition" in part.rows.schema.names:
        index = _index(part.rows.column("partition"), int(found[1]))
    where = f" in {part.told(index)}" if part is not None and index >= 0 else ""
    return (
        f"correct the column partition{where} (a frame read from a topic carries it: drop it), or "
        "add partitions"
    )


def _of_timestamp(part: TopicRows | None, why: str) -> str:
    found = _TIMESTAMP.search(why)
    if found is None or part is None or "timestamp" not in part.rows.schema.names:
        return ""
    import pyarrow as pa

    time_ms = int(found[1])
    stamps = part.rows.column("timestamp").cast(pa.timestamp("ms", tz="UTC"), safe=False)
    index = _index(stamps.cast(pa.int64()), time_ms)
    if index < 0:
        return ""
    return f"the column timestamp is {moment(time_ms)} in {part.told(index)}: "


def _of_key(part: TopicRows | None) -> str:
    if part is None or "key" not in part.rows.schema.names:
        return ""
    index = _index(part.rows.column("key").is_null(), True)
    return f"the column key is null in {part.told(index)}: " if index >= 0 else ""


def _index(column: object, value: object) -> int:
    """The first row that has it, -1 when none has."""
    import pyarrow.compute as pc

    found: int = pc.index(column, value).as_py()
    return found
