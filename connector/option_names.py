"""The options that the format `pylog` knows, and the errors for names that it does not know. Pure.

Names are case-insensitive, as in Spark, which hands them over in lower case.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, NoReturn

from pylog import kafka_settings
from pylog.client.settings import CONSUMER_SETTINGS, PRODUCER_SETTINGS
from pylog.config import ConfigKey, ConfigTable
from pylog.kafka_settings import Ruling, Verdict
from pylog_connector.errors import (
    InvalidOption,
    OptionNotApplicable,
    OptionNotOffered,
    UnknownOption,
)

PREFIX: Final = "pylog."
KAFKA_PREFIX: Final = "kafka."
BOOTSTRAP: Final = "pylog.bootstrap.servers"
BOOTSTRAP_ALIAS: Final = "kafka.bootstrap.servers"

COMMIT_GROUP: Final = "pylog.commit.group"
PROGRESS_GROUP: Final = "pylog.progress.group"
CONSISTENT_CUT: Final = "pylog.consistent.cut"
READ_LEASE: Final = "pylog.read.lease"
LOCAL_READS: Final = "pylog.local.reads"
EXACTLY_ONCE: Final = "pylog.exactly.once"
PREPARED_TIMEOUT: Final = "pylog.sink.prepared.timeout.ms"
TAKEOVER: Final = "pylog.sink.takeover"
IDEMPOTENCY_RETENTION: Final = "pylog.idempotency.retention.ms"
SINK_ID: Final = "sinkId"
IDEMPOTENCY_KEY: Final = "idempotencyKey"

SELECTIONS: Final = ("assign", "subscribe", "subscribePattern")
# The first that is given counts, as in Spark's Kafka connector.
STARTS: Final = ("startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets")
ENDS: Final = ("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")
NARROWINGS: Final = ("partitions", "keys", "minTimestamp", "maxTimestamp")
"""Options that take records away from those that are read, in place of filters."""
STREAM_ONLY: Final = (
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "maxOffsetsPerTrigger",
    "maxBytesPerTrigger",
)
"""Options of which a batch read takes no notice; a warning says so."""
SOURCE: Final = (
    *SELECTIONS,
    *STARTS,
    "startingOffsetsByTimestampStrategy",
    *ENDS,
    *NARROWINGS,
    *STREAM_ONLY,
    "minPartitions",
    "maxRecordsPerPartition",
    "maxBytesPerPartition",
    "includeHeaders",
    "failOnDataLoss",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    COMMIT_GROUP,
    PROGRESS_GROUP,
    CONSISTENT_CUT,
    READ_LEASE,
    LOCAL_READS,
)
SINK: Final = (
    "topic",
    EXACTLY_ONCE,
    SINK_ID,
    PROGRESS_GROUP,
    TAKEOVER,
    PREPARED_TIMEOUT,
    IDEMPOTENCY_KEY,
    IDEMPOTENCY_RETENTION,
)
OF_PROGRESS: Final = (SINK_ID, TAKEOVER, PREPARED_TIMEOUT)
"""Options of sinks that a source has as well, where a sink commits its progress."""
OF_EXACTLY_ONCE: Final = (
    SINK_ID,
    PROGRESS_GROUP,
    TAKEOVER,
    PREPARED_TIMEOUT,
    IDEMPOTENCY_KEY,
    IDEMPOTENCY_RETENTION,
)
"""Options for which a sink that delivers at least once has no use."""
OWN: Final = frozenset(
    {
        BOOTSTRAP,
        COMMIT_GROUP,
        PROGRESS_GROUP,
        CONSISTENT_CUT,
        READ_LEASE,
        LOCAL_READS,
        EXACTLY_ONCE,
        TAKEOVER,
        PREPARED_TIMEOUT,
        IDEMPOTENCY_RETENTION,
    }
)
"""Options with the prefix that are no settings of a client."""
ASYNC_PROGRESS: Final = "asyncProgressTrackingEnabled"
# Spark's own stream writer puts these among a sink's options.
_ENGINE: Final = (
    "checkpointLocation",
    "queryName",
    ASYNC_PROGRESS,
    "asyncProgressTrackingCheckpointIntervalMs",
    "_asyncProgressTrackingOverrideSinkSupportCheck",
)

_SECRET: Final = re.compile(r"secret|password|token|access[.]?key|jaas|credential", re.IGNORECASE)
_SECURITY: Final = ("security.", "ssl.", "sasl.")
"""Kafka's settings for TLS and authentication begin so."""

_NOT_OFFERED: Final = {
    "pushdown": "Spark 4.3 would leave out for one query of a frame what another one has filtered; "
    "name partitions, keys, minTimestamp, maxTimestamp, starts or ends in options",
    **dict.fromkeys(
        (
            "pylog.transactional.id",
            "pylog.transaction.timeout.ms",
            "pylog.transaction.two.phase.commit.enable",
        ),
        "the sink has transactions of its own; leave the option out",
    ),
}

_BOOTSTRAP_TIMEOUT: Final = replace(
    CONSUMER_SETTINGS["bootstrap_timeout_ms"],
    default=None,
    doc="How long to try the addresses before any of them has answered. Default: 8 s where a "
    "query is planned, so that a query soon names a wrong address; in a task as long as "
    "`default.api.timeout.ms` or, in the sink, `max.block.ms`, for the cluster may be starting "
    "again. pylog's own.",
)

SOURCE_CLIENT: Final = ConfigTable(
    [
        CONSUMER_SETTINGS[name]
        for name in (
            "client_id",
            "client_routing",
            "client_transport",
            "request_timeout_ms",
            "default_api_timeout_ms",
            "retry_backoff_ms",
            "retry_backoff_max_ms",
            "fetch_max_wait_ms",
            "check_crcs",
        )
    ]
    + [
        _BOOTSTRAP_TIMEOUT,
        # Sinks write in transactions: a reader of uncommitted records sees rows twice.
        replace(CONSUMER_SETTINGS["isolation_level"], default="read_committed"),
        # Larger than a consumer's: a task reads one partition, and whole fetches become batches.
        ConfigKey("max.partition.fetch.bytes", int, 8 << 20, "One fetch.", low=1, high=32 << 20),
    ],
    what="source setting",
)
SINK_DEFAULTS: Final[Mapping[str, Any]] = {"batch.size": 1024 * 1024, "linger.ms": 20}
"""Larger than a producer's: a sink sends whole DataFrames, and nobody waits for single records. A
batch costs producer and broker tenths of a millisecond, whatever its size; this is what requests
and topics take without being told otherwise."""

SINK_CLIENT: Final = ConfigTable(
    [
        _BOOTSTRAP_TIMEOUT
        if key.name == _BOOTSTRAP_TIMEOUT.name
        else replace(key, default=SINK_DEFAULTS.get(key.name, key.default))
        for key in PRODUCER_SETTINGS
        if key.type is not object
        and key.name != "bootstrap.servers"
        and not key.name.startswith("transaction")
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
}

_SETTINGS: Final = {PREFIX + key.name for table in (SOURCE_CLIENT, SINK_CLIENT) for key in table}

_OF_SPARK: Final = {
    "groupIdPrefix": "no group shares a query's partitions among its tasks",
    "useDeprecatedOffsetFetching": "offsets are asked of the brokers, without a consumer",
}
"""Options of Spark's Kafka connector that cannot matter here."""

_CANONICAL: Final = {
    name.lower(): name
    for name in (BOOTSTRAP, BOOTSTRAP_ALIAS, *SOURCE, *SINK, *_ENGINE, *_NOT_OFFERED, *_OF_SPARK)
} | {name: name for name in _SETTINGS}

_AS_ARGUMENTS: Final = {
    name.removeprefix(PREFIX).replace(".", "_"): name
    for name in _CANONICAL.values()
    if name.startswith(PREFIX) and "." in name.removeprefix(PREFIX)
}
_ARGUMENT: Final = re.compile(
    r"(?<![\w.-])(" + "|".join(sorted(_AS_ARGUMENTS, key=len, reverse=True)) + r")(?![\w-])"
)

_UNSUGGESTED: Final = {name.lower() for name in (*_ENGINE, *_NOT_OFFERED, *_OF_SPARK)}
# Names that users of other sources write, for which the nearest name would lead astray.
_LIKE: Final = {
    "topics": "write subscribe (to read) or topic (to write)",
    "provider": "topics are no tables of a catalogue; write CREATE TEMPORARY VIEW ... USING pylog",
    "groupid": "progress is in the checkpoint; leave the option out, or give pylog.commit.group "
    "for tools to see it",
    "bootstrap_servers": f"did you mean {BOOTSTRAP}?",
    "servers": f"did you mean {BOOTSTRAP}?",
    "bootstrap": f"did you mean {BOOTSTRAP}?",
}
# Settings of clients that are about what Spark does itself here.
_OF_CLIENTS: Final = {key.name for table in (CONSUMER_SETTINGS, PRODUCER_SETTINGS) for key in table}


def options_of_sources() -> tuple[str, ...]:
    """Every option that a source takes."""
    settings = (PREFIX + key.name for key in SOURCE_CLIENT)
    return (BOOTSTRAP, BOOTSTRAP_ALIAS, *SOURCE, *OF_PROGRESS, *settings)


def options_of_sinks() -> tuple[str, ...]:
    """Every option that a sink takes."""
    return (BOOTSTRAP, BOOTSTRAP_ALIAS, *SINK, *(PREFIX + key.name for key in SINK_CLIENT))


NO_TABLE: Final = (
    "a topic is no table: Spark does not hand the options of CREATE TABLE to formats in Python; "
    "write CREATE TEMPORARY VIEW ... USING pylog OPTIONS (...)"
)
"""Spark adds `provider` to the options when such a table is made, and drops all when it is used."""


def check_names(options: Mapping[str, str]) -> None:
    """That every option is known; UnknownOption names the nearest, OptionNotOffered what to use."""
    for name, text in options.items():
        check_name(name, text)


def check_name(name: str, text: str) -> str | None:
    """The reason why an option is taken without effect, or None where it works; it raises as
    `check_names` does.
    """
    lower = name.lower()
    value = told(name, text)
    name = legible(name)
    if lower == "path":
        raise UnknownOption(
            f"path={value}: the format has no path; name topics with the option "
            "subscribe (to read) or topic (to write)"
        )
    if lower == "provider":
        raise UnknownOption(f"{name}={value}: {NO_TABLE}")
    setting = lower.removeprefix(KAFKA_PREFIX).removeprefix(PREFIX)
    prefixed = setting != lower
    if prefixed and (setting, text.strip().upper()) == ("security.protocol", "PLAINTEXT"):
        return "clients connect so"
    _check_offered(_CANONICAL.get(lower, name), setting if prefixed else None, value)
    if setting in _FORBIDDEN:
        raise InvalidOption(
            f"{name}={value}: the connector decides this itself; {_FORBIDDEN[setting]}"
        )
    if name in _OF_SPARK:
        return _OF_SPARK[name]
    if own_name(lower) in _CANONICAL:
        return None
    ruling = ruling_of(setting) if prefixed else None
    if ruling is None:
        _refuse_unknown(name, lower, value)
    if ruling.verdict is Verdict.REFUSED:
        _refuse_of_clients(name, value)
    return ruling.reason


def legible(name: str) -> str:
    """A name as the user is likely to have written it, cut."""
    name = spelled(name)
    return name if len(name) <= 80 else name[:77] + "..."


def own_name(lower: str) -> str:
    """An option in lower case as pylog has it: `kafka.` stands for `pylog.` before every setting
    that works here.
    """
    own = PREFIX + lower.removeprefix(KAFKA_PREFIX)
    return own if lower.startswith(KAFKA_PREFIX) and own in _SETTINGS else lower


_NO_GROUP: Final = "Spark, and no group, shares partitions among tasks"
_WHOLE_FETCHES: Final = "tasks read the ranges that Spark has planned, in whole fetches"
_WITHOUT_EFFECT: Final = {
    "client.rack": "tasks read from leaders only",
    "auto.commit.interval.ms": "the checkpoint holds the progress",
    "fetch.min.bytes": _WHOLE_FETCHES,
    "fetch.max.bytes": _WHOLE_FETCHES,
    "group.id": f"{_NO_GROUP}; pylog.commit.group shows tools the progress",
    "max.poll.records": f"{_WHOLE_FETCHES}; maxOffsetsPerTrigger bounds a micro-batch",
    **dict.fromkeys(
        (
            "group.instance.id",
            "group.protocol",
            "group.remote.assignor",
            "heartbeat.interval.ms",
            "internal.leave.group.on.close",
            "max.poll.interval.ms",
            "partition.assignment.strategy",
            "session.timeout.ms",
        ),
        _NO_GROUP,
    ),
}
"""The settings of the consumer that do nothing in Spark."""


def ruling_of(setting: str) -> Ruling | None:
    """The ruling on a setting of Kafka's clients that does not work here; None: they have no such
    setting.
    """
    if setting in _WITHOUT_EFFECT:
        return Ruling(Verdict.WITHOUT_EFFECT, _WITHOUT_EFFECT[setting])
    return kafka_settings.CONSUMER.ruling(setting) or kafka_settings.PRODUCER.ruling(setting)


def in_options(text: str, bootstrap: str = BOOTSTRAP) -> str:
    """A client's message, with its settings by the names of their options: `max_request_size`, an
    argument in Python, is `pylog.max.request.size`. `bootstrap` is how the user wrote that option.
    """

    def option(found: re.Match[str]) -> str:
        name = _AS_ARGUMENTS[found[1]]
        return bootstrap if name == BOOTSTRAP else name

    return _ARGUMENT.sub(option, text)


def told(name: str, value: str) -> str:
    """A value for an error's text. Errors are shown in logs and in Spark's UI, so what may be a
    secret is left out; the words are those that Spark itself looks for, and Kafka's.
    """
    return "*********(redacted)" if _SECRET.search(name) else repr(value)


def spelled(name: str) -> str:
    """A name as the user is likely to have written it, where Spark, which hands all names over in
    lower case, has taken that away: a known one as it should be, and another one as the known one
    that is nearest, letter by letter. Settings of clients have no capitals.
    """
    if name in _CANONICAL or name != name.lower() or name.startswith((PREFIX, KAFKA_PREFIX)):
        return _CANONICAL.get(name, name)
    near = difflib.get_close_matches(name, _CANONICAL, n=1, cutoff=0.8)
    if not near:
        return name
    known, letters = _CANONICAL[near[0]], list(name)
    for same in difflib.SequenceMatcher(None, name, near[0]).get_matching_blocks():
        letters[same.a : same.a + same.size] = known[same.b : same.b + same.size]
    return "".join(letters)


def _check_offered(shown: str, setting: str | None, value: str) -> None:
    """Options and settings of Spark's Kafka connector that this version does not have."""
    instead = _NOT_OFFERED.get(PREFIX + setting if setting else shown)
    if instead is None and setting and setting.startswith(_SECURITY):
        instead = (
            "clients connect without TLS and without a password, so keep the cluster where only "
            "those reach it who may; leave the option out"
        )
    if instead is not None:
        raise OptionNotOffered(
            f"{shown}={value}: this version does not offer the option yet; {instead}"
        )


def _refuse_of_clients(name: str, value: str) -> NoReturn:
    raise OptionNotApplicable(
        f"{name}={value}: it means nothing for Spark's reads and writes; leave the option out"
    )


def _refuse_unknown(name: str, lower: str, value: str) -> NoReturn:
    if lower in _LIKE:
        raise UnknownOption(f"{name}={value}: {_LIKE[lower]}")
    setting = lower.removeprefix(KAFKA_PREFIX).removeprefix(PREFIX)
    if setting != lower:
        for meant in (PREFIX + setting, setting):
            if meant in _CANONICAL:
                raise UnknownOption(f"{name}={value}: write {_CANONICAL[meant]}")
        if setting in _OF_CLIENTS:
            _refuse_of_clients(name, value)
    candidates = [known for known in _CANONICAL if known not in _UNSUGGESTED]
    close = difflib.get_close_matches(lower, candidates, n=1, cutoff=0.6)
    if not close and setting != lower:
        close = difflib.get_close_matches(PREFIX + setting, candidates, n=1, cutoff=0.75)
    hint = (
        f"did you mean {_CANONICAL[close[0]]}?"
        if close
        else "it is no option of this format; docs/configuration.md lists them all"
    )
    raise UnknownOption(f"{name}={value}: {hint}")
