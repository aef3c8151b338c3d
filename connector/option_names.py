"""Which options the format `pylog` knows, and what is said to a name that it does not. Pure.

Names are case-insensitive, as in Spark.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Final, NoReturn

from connector.errors import InvalidOption, OptionNotOffered, UnknownOption
from pylog.client.settings import CONSUMER_SETTINGS, PRODUCER_SETTINGS
from pylog.config import ConfigKey, ConfigTable

PREFIX: Final = "pylog."
KAFKA_PREFIX: Final = "kafka."
BOOTSTRAP: Final = "pylog.bootstrap.servers"
BOOTSTRAP_ALIAS: Final = "kafka.bootstrap.servers"

SELECTIONS: Final = ("assign", "subscribe", "subscribePattern")
# The first that is given counts, as in Spark's Kafka connector.
STARTS: Final = ("startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets")
ENDS: Final = ("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")
STREAM_ONLY: Final = ("minOffsetsPerTrigger", "maxTriggerDelay", "maxOffsetsPerTrigger")
"""What a batch read takes no notice of; a warning says so."""
SOURCE: Final = (
    *SELECTIONS,
    *STARTS,
    "startingOffsetsByTimestampStrategy",
    *ENDS,
    *STREAM_ONLY,
    "minPartitions",
    "maxRecordsPerPartition",
    "includeHeaders",
    "failOnDataLoss",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
)
SINK: Final = ("topic",)
# What Spark's own stream writer puts among a sink's options.
_ENGINE: Final = (
    "checkpointLocation",
    "queryName",
    "asyncProgressTrackingEnabled",
    "asyncProgressTrackingCheckpointIntervalMs",
    "_asyncProgressTrackingOverrideSinkSupportCheck",
)

_NOT_OFFERED: Final = {
    "groupIdPrefix": "the checkpoint holds the progress; leave the option out",
    "useDeprecatedOffsetFetching": "leave the option out",
    "pylog.group.id": "the checkpoint holds the progress; leave the option out",
    "pylog.client.rack": "leave the option out",
}

SOURCE_CLIENT: Final = ConfigTable(
    [
        CONSUMER_SETTINGS[name]
        for name in (
            "client_id",
            "client_routing",
            "request_timeout_ms",
            "default_api_timeout_ms",
            "retry_backoff_ms",
            "retry_backoff_max_ms",
            "fetch_max_wait_ms",
            "isolation_level",
            "check_crcs",
        )
    ]
    + [
        # Larger than a consumer's: a task reads one partition, and whole fetches become batches.
        ConfigKey("max.partition.fetch.bytes", int, 8 << 20, "One fetch.", low=1, high=32 << 20),
    ],
    what="source setting",
)
SINK_CLIENT: Final = ConfigTable(
    [
        key
        for key in PRODUCER_SETTINGS
        if key.type is not object and key.name != "bootstrap.servers"
    ],
    what="sink setting",
)
# Settings of Kafka's clients that are decided by the connector: name -> what to use instead.
_FORBIDDEN: Final = {
    "auto.offset.reset": "use startingOffsets",
    "enable.auto.commit": "the checkpoint holds the progress",
    "interceptor.classes": "use columns of the DataFrame",
    "key.deserializer": "keys are binary; cast the column in Spark",
    "value.deserializer": "values are binary; cast the column in Spark",
    "deserializer": "keys and values are binary; cast the columns in Spark",
    "key.serializer": "give the column key as string or binary",
    "value.serializer": "give the column value as string or binary",
    "serializer": "give the columns key and value as string or binary",
    "partitioner": "give the column partition",
    "partitioner.class": "give the column partition",
    "max.poll.records": "use maxOffsetsPerTrigger",
}

_CANONICAL: Final = {
    name.lower(): name
    for name in (BOOTSTRAP, BOOTSTRAP_ALIAS, *SOURCE, *SINK, *_ENGINE, *_NOT_OFFERED)
} | {
    PREFIX + key.name: PREFIX + key.name for table in (SOURCE_CLIENT, SINK_CLIENT) for key in table
}


def options_of_sources() -> tuple[str, ...]:
    """Every option that a source takes."""
    settings = (PREFIX + key.name for key in SOURCE_CLIENT)
    return (BOOTSTRAP, BOOTSTRAP_ALIAS, *SOURCE, *settings)


def options_of_sinks() -> tuple[str, ...]:
    """Every option that a sink takes."""
    return (BOOTSTRAP, BOOTSTRAP_ALIAS, *SINK, *(PREFIX + key.name for key in SINK_CLIENT))


def check_names(options: Mapping[str, str]) -> None:
    """That every option is known; UnknownOption names the nearest, OptionNotOffered what to use."""
    for name in options:
        lower = name.lower()
        if lower == "path":
            raise UnknownOption(
                f"path={options[name]!r}: the format has no path; name topics with the option "
                "subscribe (to read) or topic (to write)"
            )
        shown = _CANONICAL.get(lower, name)
        if shown in _NOT_OFFERED:
            raise OptionNotOffered(
                f"{shown}={options[name]!r}: this version does not offer the option yet; "
                f"{_NOT_OFFERED[shown]}"
            )
        if lower.startswith((PREFIX, KAFKA_PREFIX)):
            setting = lower[len(PREFIX) :]
            if setting in _FORBIDDEN:
                raise InvalidOption(
                    f"{name}={options[name]!r}: the connector decides this itself; "
                    f"{_FORBIDDEN[setting]}"
                )
        if lower not in _CANONICAL:
            _refuse_unknown(name, lower, options[name])


def _refuse_unknown(name: str, lower: str, value: str) -> NoReturn:
    if lower.startswith(KAFKA_PREFIX) and PREFIX + lower[len(KAFKA_PREFIX) :] in _CANONICAL:
        raise UnknownOption(f"{name}={value!r}: write {PREFIX}{lower[len(KAFKA_PREFIX) :]}")
    close = difflib.get_close_matches(lower, list(_CANONICAL), n=1, cutoff=0.5)
    hint = f"did you mean {_CANONICAL[close[0]]}?" if close else "it is no option of this format"
    raise UnknownOption(f"{name}={value!r}: {hint}")
