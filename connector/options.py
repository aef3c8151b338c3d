"""The options of the format `pylog`: which there are, what they may say, and for whom.

Pure: `check_names` and `check_values` need only the text (they run when the data source is made),
`source_options` and `sink_options` also know what the options are for. Options are those of Spark's
Kafka connector with `pylog.` where Kafka's have `kafka.`; names are case-insensitive, as in Spark.
An option is honoured or refused, never passed over.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

from connector.errors import (
    InvalidOption,
    MissingOption,
    OptionNotApplicable,
    OptionNotOffered,
    UnknownOption,
)
from connector.positions import EARLIEST, LATEST, Positions, parse_positions, symbolic
from pylog.client.metadata import Address, parse_addresses
from pylog.client.settings import CONSUMER_SETTINGS, PRODUCER_SETTINGS
from pylog.config import LONG_MAX, ConfigKey, ConfigTable
from pylog.errors import InvalidConfig
from pylog.model import topic_name_fault

PREFIX: Final = "pylog."
KAFKA_PREFIX: Final = "kafka."
BOOTSTRAP: Final = "pylog.bootstrap.servers"
BOOTSTRAP_ALIAS: Final = "kafka.bootstrap.servers"

_SOURCE: Final = (
    "subscribe",
    "startingOffsets",
    "endingOffsets",
    "maxOffsetsPerTrigger",
    "includeHeaders",
    "failOnDataLoss",
)
_SINK: Final = ("topic",)
# What Spark's own stream writer puts among a sink's options.
_ENGINE: Final = (
    "checkpointLocation",
    "queryName",
    "asyncProgressTrackingEnabled",
    "asyncProgressTrackingCheckpointIntervalMs",
    "_asyncProgressTrackingOverrideSinkSupportCheck",
)

_LATER: Final = "name topics in subscribe"
_NOT_OFFERED: Final = {
    "subscribePattern": _LATER,
    "assign": f"{_LATER}, and filter by the column partition",
    "startingTimestamp": "use startingOffsets",
    "startingOffsetsByTimestamp": "use startingOffsets",
    "startingOffsetsByTimestampStrategy": "use startingOffsets",
    "endingTimestamp": "use endingOffsets",
    "endingOffsetsByTimestamp": "use endingOffsets",
    "minOffsetsPerTrigger": "use a longer trigger interval",
    "maxTriggerDelay": "use a longer trigger interval",
    "minPartitions": "create the topic with more partitions, or repartition() the rows",
    "maxRecordsPerPartition": "create the topic with more partitions, or repartition() the rows",
    "groupIdPrefix": "the checkpoint holds the progress; leave the option out",
    "kafkaConsumer.pollTimeoutMs": "use pylog.default.api.timeout.ms",
    "fetchOffset.numRetries": "use pylog.default.api.timeout.ms",
    "fetchOffset.retryIntervalMs": "use pylog.retry.backoff.ms",
    "useDeprecatedOffsetFetching": "leave the option out",
    "pylog.group.id": "the checkpoint holds the progress; leave the option out",
    "pylog.client.rack": "leave the option out",
}

_SOURCE_CLIENT: Final = ConfigTable(
    [
        CONSUMER_SETTINGS[name]
        for name in (
            "client_id",
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
_SINK_CLIENT: Final = ConfigTable(
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
    for name in (BOOTSTRAP, BOOTSTRAP_ALIAS, *_SOURCE, *_SINK, *_ENGINE, *_NOT_OFFERED)
} | {
    PREFIX + key.name: PREFIX + key.name
    for table in (_SOURCE_CLIENT, _SINK_CLIENT)
    for key in table
}


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What to read. `topics` is sorted; `client` has every setting by its dotted name."""

    bootstrap: tuple[Address, ...]
    topics: tuple[str, ...]
    starting: Positions
    ending: Positions = LATEST
    max_offsets_per_trigger: int | None = None
    include_headers: bool = False
    fail_on_data_loss: bool = True
    client: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """Where to write. `client` has only the given settings, by their dotted names."""

    bootstrap: tuple[Address, ...]
    topic: str | None
    client: Mapping[str, Any] = field(default_factory=dict)


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


def check_values(options: Mapping[str, str]) -> None:
    """That every value which needs no context can be read; InvalidOption says what is allowed."""
    given = _lowered(options)
    if BOOTSTRAP in given or BOOTSTRAP_ALIAS in given:
        _bootstrap(given)
    for name in ("startingOffsets", "endingOffsets"):
        if name.lower() in given:
            parse_positions(name, given[name.lower()])
    _max_offsets(given)
    for name in ("includeHeaders", "failOnDataLoss"):
        _flag(given, name, default=False)
    if "subscribe" in given:
        _topics(given)
    if "topic" in given:
        _topic(given)


def check_source(options: Mapping[str, str]) -> bool:
    """What can be said of a read before it is known to be a batch or a stream: what is required is
    there, and nothing of the sink's. Returns `includeHeaders`, which decides the schema.
    """
    check_names(options)
    check_values(options)
    given = _lowered(options)
    if "topic" in given:
        raise OptionNotApplicable(
            f"topic={given['topic']!r} is an option of the sink; a source names its topics "
            "in subscribe"
        )
    _bootstrap(given)
    _topics(given)
    _client_settings(given, _SOURCE_CLIENT, "source", defaults=True)
    return _flag(given, "includeHeaders", default=False)


def source_options(options: Mapping[str, str], *, streaming: bool) -> SourceOptions:
    """The options of a read, checked; errors name option, value and remedy.

    A batch starts at earliest unless told otherwise and may not start at latest; a stream starts
    at latest and has no end.
    """
    check_source(options)
    given = _lowered(options)
    starting = parse_positions(
        "startingOffsets", given.get("startingoffsets", "latest" if streaming else "earliest")
    )
    ending = parse_positions("endingOffsets", given.get("endingoffsets", "latest"))
    if streaming and "endingoffsets" in given:
        raise OptionNotApplicable(
            f"endingOffsets={given['endingoffsets']!r}: a streaming read has no end; use "
            "Trigger.AvailableNow to stop at the newest record, or spark.read for a range"
        )
    if not streaming:
        path = symbolic(starting, LATEST)
        if path is not None:
            raise InvalidOption(
                f"startingOffsets{path}=latest (-1): a batch that starts at the end reads "
                "nothing; use earliest or offsets"
            )
        path = symbolic(ending, EARLIEST)
        if path is not None:
            raise InvalidOption(
                f"endingOffsets{path}=earliest (-2): a batch that ends at the start reads "
                "nothing; use latest or offsets"
            )
    return SourceOptions(
        bootstrap=_bootstrap(given),
        topics=_topics(given),
        starting=starting,
        ending=ending,
        max_offsets_per_trigger=_max_offsets(given),
        include_headers=_flag(given, "includeHeaders", default=False),
        fail_on_data_loss=_flag(given, "failOnDataLoss", default=True),
        client=_client_settings(given, _SOURCE_CLIENT, "source", defaults=True),
    )


def sink_options(options: Mapping[str, str]) -> SinkOptions:
    """The options of a write, checked; errors name option, value and remedy."""
    check_names(options)
    given = _lowered(options)
    for name in _SOURCE:
        if name.lower() in given:
            raise OptionNotApplicable(
                f"{name}={given[name.lower()]!r} is an option of the source; the sink takes "
                f"{BOOTSTRAP}, topic and {PREFIX}<producer setting>"
            )
    client = _client_settings(given, _SINK_CLIENT, "sink", defaults=False)
    if client.get("acks", "all") not in ("all", "-1"):
        raise InvalidOption(
            f"pylog.acks={client['acks']!r}: the sink delivers at least once, which needs all; "
            "leave the option out"
        )
    if client.get("enable.idempotence", True) is not True:
        raise InvalidOption(
            "pylog.enable.idempotence=false: retries would repeat and reorder records within a "
            "task; leave the option out"
        )
    return SinkOptions(
        bootstrap=_bootstrap(given),
        topic=_topic(given) if "topic" in given else None,
        client=client,
    )


def _lowered(options: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in options.items()}


def _bootstrap(given: Mapping[str, str]) -> tuple[Address, ...]:
    both = [given[name] for name in (BOOTSTRAP, BOOTSTRAP_ALIAS) if name in given]
    if not both:
        raise MissingOption(
            f"{BOOTSTRAP} is missing: give host:port of brokers or of the gateway, separated by "
            f"commas ({BOOTSTRAP_ALIAS} is taken as well)"
        )
    if len(both) == 2 and both[0] != both[1]:
        raise InvalidOption(
            f"{BOOTSTRAP}={both[0]!r} and {BOOTSTRAP_ALIAS}={both[1]!r} differ: give one of them"
        )
    parts = [part.strip() for part in both[0].split(",") if part.strip()]
    try:
        return parse_addresses(parts)
    except InvalidConfig as error:
        detail = str(error).removeprefix("bootstrap_servers")
        raise InvalidOption(f"{BOOTSTRAP}={both[0]!r}{_joined(detail)}") from None


def _joined(detail: str) -> str:
    return detail if detail.startswith(":") else ":" + detail


def _topics(given: Mapping[str, str]) -> tuple[str, ...]:
    text = given.get("subscribe")
    if text is None:
        raise MissingOption("subscribe is missing: name the topics to read, separated by commas")
    topics = sorted({topic.strip() for topic in text.split(",") if topic.strip()})
    if not topics:
        raise InvalidOption(f"subscribe={text!r} names no topic; name one or more")
    for topic in topics:
        fault = topic_name_fault(topic)
        if fault is not None:
            raise InvalidOption(f"subscribe={text!r}: {fault}")
    return tuple(topics)


def _topic(given: Mapping[str, str]) -> str:
    topic = given["topic"].strip()
    fault = topic_name_fault(topic)
    if fault is not None:
        raise InvalidOption(f"topic={given['topic']!r}: {fault}")
    return topic


def _max_offsets(given: Mapping[str, str]) -> int | None:
    text = given.get("maxoffsetspertrigger")
    if text is None:
        return None
    word = text.strip()
    # int() alone would take "1_000" and digits of other scripts.
    if not (word.isascii() and word.isdigit() and 1 <= int(word) <= LONG_MAX):
        raise InvalidOption(
            f"maxOffsetsPerTrigger={text!r}: it must be a whole number of at least 1; leave the "
            "option out to read everything that is there"
        )
    return int(word)


def _flag(given: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = given.get(name.lower())
    if text is None:
        return default
    word = text.strip().lower()
    if word not in ("true", "false"):
        raise InvalidOption(f"{name}={text!r}: it must be true or false")
    return word == "true"


def _client_settings(
    given: Mapping[str, str], table: ConfigTable, what: str, *, defaults: bool
) -> dict[str, Any]:
    chosen: dict[str, object] = {}
    for name, value in given.items():
        if not name.startswith(PREFIX) or name == BOOTSTRAP:
            continue
        setting = name[len(PREFIX) :]
        if setting not in table:
            raise OptionNotApplicable(
                f"{name}={value!r}: it means nothing for a {what}; leave the option out"
            )
        chosen[setting] = value
    try:
        return table.parse(chosen) if defaults else table.parse_given(chosen)
    except InvalidConfig as error:
        raise InvalidOption(f"{PREFIX}{error}") from None
