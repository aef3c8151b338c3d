"""The options of the format `pylog`: which there are, what they may say, and for whom.

Pure: `check_names` and `check_values` need only the text (they run when the data source is made),
`source_options` and `sink_options` also know what the options are for. Options are those of Spark's
Kafka connector with `pylog.` where Kafka's have `kafka.`; names are case-insensitive, as in Spark.
An option is honoured or refused, never passed over.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

from connector.errors import (
    InvalidOption,
    MissingOption,
    OptionNotApplicable,
    OptionNotOffered,
    UnknownOption,
)
from connector.positions import (
    EARLIEST,
    LATEST,
    Bound,
    offsets_bound,
    time_bound,
    times_bound,
)
from connector.selection import Selection, by_names, by_partitions, by_pattern
from connector.values import (
    INT_MAX,
    duration_ms,
    flag,
    pattern,
    topic_name,
    topic_names,
    whole,
)
from pylog.client.metadata import Address, parse_addresses
from pylog.client.settings import CONSUMER_SETTINGS, PRODUCER_SETTINGS
from pylog.config import LONG_MAX, ConfigKey, ConfigTable
from pylog.errors import InvalidConfig

PREFIX: Final = "pylog."
KAFKA_PREFIX: Final = "kafka."
BOOTSTRAP: Final = "pylog.bootstrap.servers"
BOOTSTRAP_ALIAS: Final = "kafka.bootstrap.servers"

_SELECTIONS: Final = ("assign", "subscribe", "subscribePattern")
# The first that is given counts, as in Spark's Kafka connector.
_STARTS: Final = ("startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets")
_ENDS: Final = ("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")
STREAM_ONLY: Final = ("minOffsetsPerTrigger", "maxTriggerDelay", "maxOffsetsPerTrigger")
"""What a batch read takes no notice of; a warning says so."""
_SOURCE: Final = (
    *_SELECTIONS,
    *_STARTS,
    "startingOffsetsByTimestampStrategy",
    *_ENDS,
    *STREAM_ONLY,
    "minPartitions",
    "maxRecordsPerPartition",
    "includeHeaders",
    "failOnDataLoss",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
)
MAX_TRIGGER_DELAY_MS: Final = 15 * 60_000
_SINK: Final = ("topic",)
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

_SOURCE_CLIENT: Final = ConfigTable(
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


def options_of_sources() -> tuple[str, ...]:
    """Every option that a source takes."""
    settings = (PREFIX + key.name for key in _SOURCE_CLIENT)
    return (BOOTSTRAP, BOOTSTRAP_ALIAS, *_SOURCE, *settings)


def options_of_sinks() -> tuple[str, ...]:
    """Every option that a sink takes."""
    return (BOOTSTRAP, BOOTSTRAP_ALIAS, *_SINK, *(PREFIX + key.name for key in _SINK_CLIENT))


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What to read. `client` has every setting by its dotted name; `retries` and `retry_ms` are for
    looking up offsets, None: as the connector thinks best.
    """

    bootstrap: tuple[Address, ...]
    selection: Selection
    starting: Bound
    ending: Bound
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_ms: int = MAX_TRIGGER_DELAY_MS
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    include_headers: bool = False
    fail_on_data_loss: bool = True
    retries: int | None = None
    retry_ms: int | None = None
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
    for name in _SELECTIONS:
        if name.lower() in given:
            _selected(name, given[name.lower()])
    lenient = _strategy(given)
    for name in (*_STARTS, *_ENDS):
        if name.lower() in given:
            _bound(name, given[name.lower()], lenient=lenient)
    _limits(given)
    for name in ("includeHeaders", "failOnDataLoss"):
        _flag(given, name, default=False)
    if "topic" in given:
        topic_name("topic", given["topic"])


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
    _selection(given)
    _client_settings(given, _SOURCE_CLIENT, "source", defaults=True)
    return _flag(given, "includeHeaders", default=False)


def source_options(options: Mapping[str, str], *, streaming: bool) -> SourceOptions:
    """The options of a read, checked; errors name option, value and remedy.

    A batch starts at earliest unless told otherwise and may not start at latest; a stream starts
    at latest and has no end.
    """
    check_source(options)
    given = _lowered(options)
    starting = _first(given, _STARTS, lenient=_strategy(given))
    ending = _first(given, _ENDS, lenient=True)
    if streaming and ending is not None:
        raise OptionNotApplicable(
            f"{ending.option}={given[ending.option.lower()]!r}: a streaming read has no end; use "
            "Trigger.AvailableNow to stop at the newest record, or spark.read for a range"
        )
    starting = starting or Bound("startingOffsets", LATEST if streaming else EARLIEST)
    ending = ending or Bound("endingOffsets", LATEST)
    if not streaming:
        _check_batch(starting, ending)
    client = _client_settings(given, _SOURCE_CLIENT, "source", defaults=True)
    timeout = _number(given, "kafkaConsumer.pollTimeoutMs", high=INT_MAX)
    if timeout is not None:
        client["default.api.timeout.ms"] = timeout
    delay = given.get("maxtriggerdelay")
    return SourceOptions(
        bootstrap=_bootstrap(given),
        selection=_selection(given),
        starting=starting,
        ending=ending,
        max_offsets_per_trigger=_number(given, "maxOffsetsPerTrigger"),
        min_offsets_per_trigger=_number(given, "minOffsetsPerTrigger"),
        max_trigger_delay_ms=(
            MAX_TRIGGER_DELAY_MS if delay is None else duration_ms("maxTriggerDelay", delay)
        ),
        min_partitions=_number(given, "minPartitions", high=INT_MAX),
        max_records_per_partition=_number(given, "maxRecordsPerPartition"),
        include_headers=_flag(given, "includeHeaders", default=False),
        fail_on_data_loss=_flag(given, "failOnDataLoss", default=True),
        retries=_number(given, "fetchOffset.numRetries", low=0, high=100),
        retry_ms=_number(given, "fetchOffset.retryIntervalMs", low=0, high=600_000),
        client=client,
    )


def _check_batch(starting: Bound, ending: Bound) -> None:
    path = starting.where(LATEST)
    if path is not None and not starting.times:
        raise InvalidOption(
            f"{starting.option}{path}=latest (-1): a batch that starts at the end reads "
            "nothing; use earliest or offsets"
        )
    path = ending.where(EARLIEST)
    if path is not None:
        raise InvalidOption(
            f"{ending.option}{path}=earliest (-2): a batch that ends at the start reads "
            "nothing; use latest, offsets or times"
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
        topic=topic_name("topic", given["topic"]) if "topic" in given else None,
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


def _selection(given: Mapping[str, str]) -> Selection:
    named = [name for name in _SELECTIONS if name.lower() in given]
    if not named:
        raise MissingOption(
            "subscribe is missing: name the topics to read, separated by commas; or give "
            "subscribePattern, or assign"
        )
    if len(named) > 1:
        both = " and ".join(f"{name}={given[name.lower()]!r}" for name in named)
        raise InvalidOption(f"{both}: give only one of {', '.join(_SELECTIONS)}")
    return _selected(named[0], given[named[0].lower()])


def _selected(name: str, text: str) -> Selection:
    if name == "subscribe":
        return by_names(topic_names(name, text))
    return by_pattern(pattern(name, text)) if name == "subscribePattern" else by_partitions(text)


def _bound(name: str, text: str, *, lenient: bool) -> Bound:
    if name.endswith("Timestamp"):
        by_partition = name.endswith("ByTimestamp")
        return (times_bound if by_partition else time_bound)(name, text, lenient=lenient)
    return offsets_bound(name, text)


def _first(given: Mapping[str, str], names: Sequence[str], *, lenient: bool) -> Bound | None:
    for name in names:
        if name.lower() in given:
            return _bound(name, given[name.lower()], lenient=lenient)
    return None


def _strategy(given: Mapping[str, str]) -> bool:
    """Whether a start at a time that no record has means the end."""
    text = given.get("startingoffsetsbytimestampstrategy", "error")
    word = text.strip().lower()
    if word not in ("error", "latest"):
        raise InvalidOption(
            f"startingOffsetsByTimestampStrategy={text!r}: it must be error or latest, for "
            "partitions without a record of the starting time or later"
        )
    return word == "latest"


def _limits(given: Mapping[str, str]) -> None:
    least = _number(given, "minOffsetsPerTrigger")
    most = _number(given, "maxOffsetsPerTrigger")
    if least is not None and most is not None and least > most:
        raise InvalidOption(
            f"minOffsetsPerTrigger={least} is higher than maxOffsetsPerTrigger={most}: such a "
            "batch would never be due; lower the one, or raise the other"
        )
    if "maxtriggerdelay" in given:
        text = given["maxtriggerdelay"]
        duration_ms("maxTriggerDelay", text)
        if least is None:
            raise OptionNotApplicable(
                f"maxTriggerDelay={text!r} bounds the wait for minOffsetsPerTrigger, which is not "
                "given; give it, or leave both out"
            )
    _number(given, "minPartitions", high=INT_MAX)
    _number(given, "maxRecordsPerPartition")
    _number(given, "kafkaConsumer.pollTimeoutMs", high=INT_MAX)
    _number(given, "fetchOffset.numRetries", low=0, high=100)
    _number(given, "fetchOffset.retryIntervalMs", low=0, high=600_000)


_OTHERWISE: Final = {
    "maxOffsetsPerTrigger": "to read everything that is there",
    "minOffsetsPerTrigger": "not to wait",
    "minPartitions": "for one task per partition of the topics",
    "maxRecordsPerPartition": "for one task per partition of the topics",
    "kafkaConsumer.pollTimeoutMs": "for pylog.default.api.timeout.ms",
    "fetchOffset.numRetries": "for 4",
    "fetchOffset.retryIntervalMs": "for waits from 200 ms on",
}


def _number(
    given: Mapping[str, str], name: str, *, low: int = 1, high: int = LONG_MAX
) -> int | None:
    text = given.get(name.lower())
    if text is None:
        return None
    return whole(name, text, low=low, high=high, otherwise=_OTHERWISE[name])


def _flag(given: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = given.get(name.lower())
    return default if text is None else flag(name, text)


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
