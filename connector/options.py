"""The options of the format `pylog`: the values that each may have, and the uses that it is for.

Pure: `check_values` needs only the text (it runs when the data source is made),
`source_options` and `sink_options` also know what the options are for. Options are those of Spark's
Kafka connector, and `pylog.` and `kafka.` stand for the same; names are case-insensitive, as in
Spark. An option is honoured, refused, or taken with a line in the log where it cannot matter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pylog.client.cluster.metadata import Address, parse_addresses
from pylog.config import LONG_MAX, ConfigTable
from pylog.errors import InvalidConfig
from pylog.kafka_settings import Verdict
from pylog_connector.committed import CommittedStart, committed_start, is_committed
from pylog_connector.errors import (
    ConnectorError,
    InvalidOption,
    MissingOption,
    OptionNotApplicable,
)
from pylog_connector.narrowing import Narrowing, keys_of, partitions_of
from pylog_connector.option_names import (
    ASYNC_PROGRESS,
    BOOTSTRAP,
    BOOTSTRAP_ALIAS,
    COMMIT_GROUP,
    CONSISTENT_CUT,
    ENDS,
    EXACTLY_ONCE,
    IDEMPOTENCY_KEY,
    IDEMPOTENCY_RETENTION,
    KAFKA_PREFIX,
    LOCAL_READS,
    NO_TABLE,
    OF_EXACTLY_ONCE,
    OF_PROGRESS,
    OWN,
    PREFIX,
    PREPARED_TIMEOUT,
    PROGRESS_GROUP,
    READ_LEASE,
    SELECTIONS,
    SINK,
    SINK_CLIENT,
    SINK_ID,
    SOURCE,
    SOURCE_CLIENT,
    STARTS,
    TAKEOVER,
    check_name,
    check_names,
    in_options,
    own_name,
    ruling_of,
    spelled,
    told,
)
from pylog_connector.positions import (
    EARLIEST,
    LATEST,
    Bound,
    offsets_bound,
    time_bound,
    times_bound,
)
from pylog_connector.selection import Selection, by_names, by_partitions, by_pattern
from pylog_connector.values import (
    INT_MAX,
    byte_size,
    duration_ms,
    flag,
    pattern,
    shown,
    topic_name,
    topic_names,
    whole,
    whole_number,
)

MAX_TRIGGER_DELAY_MS: Final = 15 * 60_000

READ_LEASE_DEFAULT: Final = False
EXACTLY_ONCE_DEFAULT: Final = True
PREPARED_TIMEOUT_MS: Final = 15 * 60_000
IDEMPOTENCY_RETENTION_MS: Final = 7 * 86_400_000
SINK_ID_LENGTH_MAX: Final = 249
GROUP_LENGTH_MAX: Final = 249
IDEMPOTENCY_KEY_LENGTH_MAX: Final = 1_000


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The options of a read. `client` has every setting by its dotted name; `retries` and
    `retry_ms` are for looking up offsets, None: as the connector thinks best. `commit_group` is
    told what a stream has finished; `progress_group` is told it by the query's sink `sink_id`,
    together with what it wrote. With `local_reads` tasks read the files of brokers on their
    machines. `bootstrap_option` is the name by which the user gave the addresses.
    """

    bootstrap: tuple[Address, ...]
    selection: Selection
    starting: Bound | CommittedStart
    ending: Bound
    narrowing: Narrowing = field(default_factory=Narrowing)
    max_offsets_per_trigger: int | None = None
    max_bytes_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_ms: int = MAX_TRIGGER_DELAY_MS
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    max_bytes_per_partition: int | None = None
    include_headers: bool = False
    fail_on_data_loss: bool = True
    retries: int | None = None
    retry_ms: int | None = None
    commit_group: str | None = None
    progress_group: str | None = None
    sink_id: str | None = None
    takeover: bool = False
    prepared_timeout_ms: int = PREPARED_TIMEOUT_MS
    consistent_cut: bool = False
    read_lease: bool = READ_LEASE_DEFAULT
    local_reads: bool = False
    client: Mapping[str, Any] = field(default_factory=dict)
    bootstrap_option: str = BOOTSTRAP


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """The options of a write. `client` has only the given settings, by their dotted names;
    `bootstrap_option` is the name by which the user gave the addresses. `overwrites`: by the
    write's mode.
    """

    bootstrap: tuple[Address, ...]
    topic: str | None
    client: Mapping[str, Any] = field(default_factory=dict)
    bootstrap_option: str = BOOTSTRAP
    exactly_once: bool = EXACTLY_ONCE_DEFAULT
    sink_id: str | None = None
    takeover: bool = False
    prepared_timeout_ms: int = PREPARED_TIMEOUT_MS
    idempotency_key: str | None = None
    idempotency_retention_ms: int = IDEMPOTENCY_RETENTION_MS
    overwrites: bool = False
    progress_groups: tuple[str, ...] = ()
    """To which the query's sources commit how far they have come, with each batch."""


def check_values(options: Mapping[str, str]) -> None:
    """That every value which needs no context can be read; InvalidOption says what is allowed."""
    given = _lowered(options)
    if BOOTSTRAP in given or BOOTSTRAP_ALIAS in given:
        _bootstrap(given)
    for name in SELECTIONS:
        if name.lower() in given:
            _selected(name, given[name.lower()])
    lenient = _strategy(given)
    for name in STARTS:
        if name.lower() in given:
            _start(name, given[name.lower()], lenient=lenient)
    for name in ENDS:
        if name.lower() in given:
            _bound(name, given[name.lower()], lenient=lenient)
    _limits(given)
    _narrowing(given)
    _partitions(given)
    for name in ("includeHeaders", "failOnDataLoss", CONSISTENT_CUT, LOCAL_READS):
        _flag(given, name, default=False)
    _commit_group(given)
    _progress_groups(given)
    if "topic" in given:
        topic_name("topic", given["topic"])
    _flag(given, READ_LEASE, default=False)
    _flag(given, EXACTLY_ONCE, default=False)
    _flag(given, TAKEOVER, default=False)
    for name, most in _TEXTS.items():
        _text(given, name, most)
    _number(given, PREPARED_TIMEOUT, high=INT_MAX)
    _number(given, IDEMPOTENCY_RETENTION)


_OF_SPARKS_SOURCE: Final = frozenset(
    {
        *SELECTIONS,
        *STARTS,
        *ENDS,
        "startingOffsetsByTimestampStrategy",
        "minOffsetsPerTrigger",
        "maxTriggerDelay",
        "maxOffsetsPerTrigger",
        "minPartitions",
        "maxRecordsPerPartition",
        "includeHeaders",
        "failOnDataLoss",
        "kafkaConsumer.pollTimeoutMs",
        "fetchOffset.numRetries",
        "fetchOffset.retryIntervalMs",
    }
)
"""Options of reads that Spark's Kafka sink ignores, and that ours takes for that reason."""
_WEAKER: Final = {
    "acks": "the sink loses nothing, which needs all",
    "enable.idempotence": "the sink's retries repeat and reorder nothing",
}
"""Settings of producers that are as strong as they can be, whatever is asked for."""


def without_effect(options: Mapping[str, str], *, sink: bool) -> dict[str, str]:
    """The options, by their names as given, that are taken and do nothing, each with the reason:
    Spark's connector has them, and they cannot matter here. Refused options are not among them.
    """
    found = {}
    for name, value in options.items():
        try:
            reason = check_name(name, value)
        except ConnectorError:
            continue
        if reason is not None:
            found[name] = reason
    return found | _beside_the_point(options, sink=sink)


def _beside_the_point(options: Mapping[str, str], *, sink: bool) -> dict[str, str]:
    """Those that mean something, but not in such a read or write."""
    asked = {name: own_name(name.lower()) for name in options}
    here, there = (SINK_CLIENT, SOURCE_CLIENT) if sink else (SOURCE_CLIENT, SINK_CLIENT)
    settings = {PREFIX + key.name for key in there} - {PREFIX + key.name for key in here}
    known = {name.lower() for name in _OF_SPARKS_SOURCE} if sink else {"topic"}
    one, other = ("sink", "reads") if sink else ("source", "writes")
    found = {
        name: f"it is for {other}, and a {one} has no use for it"
        for name, own in asked.items()
        if own in settings or own in known
    }
    if not sink and "minoffsetspertrigger" not in asked.values():
        found |= {
            name: "it bounds the wait for minOffsetsPerTrigger, which is not given"
            for name, own in asked.items()
            if own == "maxtriggerdelay"
        }
    if sink:
        found |= {
            name: _WEAKER[own.removeprefix(PREFIX)]
            for name, own in asked.items()
            if own.removeprefix(PREFIX) in _WEAKER
            and options[name].strip().lower() not in ("all", "-1", "true")
        }
    return found


def check_source(options: Mapping[str, str]) -> bool:
    """Check a read's options as far as that does not depend on whether it is a batch or a stream:
    required ones are there, and none is the sink's. Returns `includeHeaders`, which decides the
    schema.
    """
    check_names(options)
    check_values(options)
    given = _lowered(options)
    for name in SINK:
        is_of_progress = name in OF_PROGRESS and PROGRESS_GROUP in given
        if name.lower() in given and name not in ("topic", PROGRESS_GROUP) and not is_of_progress:
            raise OptionNotApplicable(
                f"{name}={given[name.lower()]!r} is an option of the sink; leave it out"
            )
    _bootstrap(given)
    _selection(given)
    _client_settings(given, SOURCE_CLIENT, "source", defaults=True)
    return _flag(given, "includeHeaders", default=False)


def source_options(options: Mapping[str, str], *, streaming: bool) -> SourceOptions:
    """The options of a read, checked; errors name option, value and remedy.

    A batch starts at earliest unless told otherwise and may not start at latest; a stream starts
    at latest and has no end.
    """
    check_source(options)
    given = _lowered(options)
    starting = _first_start(given, lenient=_strategy(given))
    ending = _first_end(given)
    if streaming and ending is not None:
        raise OptionNotApplicable(
            f"{ending.option}={given[ending.option.lower()]!r}: a streaming read has no end; use "
            "Trigger.AvailableNow to stop at the newest record, or spark.read for a range"
        )
    starting = starting or Bound("startingOffsets", LATEST if streaming else EARLIEST)
    ending = ending or Bound("endingOffsets", LATEST)
    commit_group, progress_group = _commit_group(given), _progress_group(given)
    if not streaming:
        _check_batch(starting, ending)
        for name, group in ((COMMIT_GROUP, commit_group), (PROGRESS_GROUP, progress_group)):
            if group is not None:
                raise OptionNotApplicable(
                    f"{name}={group!r}: a batch read has no progress to commit; leave the option "
                    "out, or read the topic as a stream, with Trigger.AvailableNow"
                )
    client = _client_settings(given, SOURCE_CLIENT, "source", defaults=True)
    timeout = _number(given, "kafkaConsumer.pollTimeoutMs", high=INT_MAX)
    if timeout is not None:
        client["default.api.timeout.ms"] = timeout
    consistent_cut = _flag(given, CONSISTENT_CUT, default=False)
    if consistent_cut and client["isolation.level"] != "read_committed":
        raise OptionNotApplicable(
            f"{CONSISTENT_CUT}={given[CONSISTENT_CUT]!r}: a reader of uncommitted records sees "
            f"parts of transactions at any time; leave out {PREFIX}isolation.level="
            f"{client['isolation.level']}, or {CONSISTENT_CUT}"
        )
    delay = given.get("maxtriggerdelay")
    return SourceOptions(
        bootstrap=_bootstrap(given),
        selection=_selection(given),
        starting=starting,
        ending=ending,
        narrowing=_narrowing(given),
        max_offsets_per_trigger=_number(given, "maxOffsetsPerTrigger"),
        max_bytes_per_trigger=_size(given, "maxBytesPerTrigger"),
        min_offsets_per_trigger=_number(given, "minOffsetsPerTrigger"),
        max_trigger_delay_ms=(
            MAX_TRIGGER_DELAY_MS if delay is None else duration_ms("maxTriggerDelay", delay)
        ),
        min_partitions=_number(given, "minPartitions", high=INT_MAX),
        max_records_per_partition=_number(given, "maxRecordsPerPartition"),
        max_bytes_per_partition=_size(given, "maxBytesPerPartition"),
        include_headers=_flag(given, "includeHeaders", default=False),
        fail_on_data_loss=_flag(given, "failOnDataLoss", default=True),
        retries=_number(given, "fetchOffset.numRetries", low=0, high=100),
        retry_ms=_number(given, "fetchOffset.retryIntervalMs", low=0, high=600_000),
        commit_group=commit_group,
        progress_group=progress_group,
        sink_id=_text(given, SINK_ID, SINK_ID_LENGTH_MAX),
        takeover=_flag(given, TAKEOVER, default=False),
        prepared_timeout_ms=_number(given, PREPARED_TIMEOUT, high=INT_MAX) or PREPARED_TIMEOUT_MS,
        consistent_cut=consistent_cut,
        read_lease=_flag(given, READ_LEASE, default=READ_LEASE_DEFAULT),
        local_reads=_flag(given, LOCAL_READS, default=False),
        client=client,
        bootstrap_option=_bootstrap_option(given),
    )


def _check_batch(starting: Bound | CommittedStart, ending: Bound) -> None:
    if isinstance(starting, Bound) and not starting.times:
        path = starting.where(LATEST)
        if path is not None:
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
    for name in SOURCE:
        if name.lower() in given and name not in _OF_SPARKS_SOURCE and name not in SINK:
            raise OptionNotApplicable(
                f"{name}={given[name.lower()]!r} is an option of the source; the sink takes "
                f"{BOOTSTRAP}, topic, {SINK_ID}, {IDEMPOTENCY_KEY}, {EXACTLY_ONCE} and {PREFIX}"
                "<producer setting>"
            )
    check_values(options)
    exactly_once = _flag(given, EXACTLY_ONCE, default=EXACTLY_ONCE_DEFAULT)
    _check_exactly_once(given, exactly_once=exactly_once)
    progress_groups = _progress_groups(given)
    if progress_groups and IDEMPOTENCY_KEY.lower() in given:
        raise OptionNotApplicable(
            f"{IDEMPOTENCY_KEY}={given[IDEMPOTENCY_KEY.lower()]!r}: a write with a key is no batch "
            f"of a query, with which the progress of sources is committed ({PROGRESS_GROUP}); "
            "leave one of them out"
        )
    client = _client_settings(given, SINK_CLIENT, "sink", defaults=False)
    for setting in _WEAKER:
        if client.get(setting) not in ("all", "-1", True):
            client.pop(setting, None)
    return SinkOptions(
        bootstrap=_bootstrap(given),
        topic=topic_name("topic", given["topic"]) if "topic" in given else None,
        client=client,
        bootstrap_option=_bootstrap_option(given),
        exactly_once=exactly_once,
        sink_id=_text(given, SINK_ID, SINK_ID_LENGTH_MAX),
        takeover=_flag(given, TAKEOVER, default=False),
        prepared_timeout_ms=(_number(given, PREPARED_TIMEOUT, high=INT_MAX) or PREPARED_TIMEOUT_MS),
        idempotency_key=_text(given, IDEMPOTENCY_KEY, IDEMPOTENCY_KEY_LENGTH_MAX),
        idempotency_retention_ms=(
            _number(given, IDEMPOTENCY_RETENTION) or IDEMPOTENCY_RETENTION_MS
        ),
        progress_groups=progress_groups,
    )


def check_output_mode(options: SinkOptions, *, complete: bool) -> None:
    """OptionNotApplicable in complete mode where the progress of sources is committed."""
    if complete and options.progress_groups:
        raise OptionNotApplicable(
            f"{PROGRESS_GROUP}={','.join(options.progress_groups)!r}: a query in complete mode has "
            "state, which lies in its checkpoint alone: it cannot go on from the offsets of a "
            "group. Leave the option out"
        )


def check_streaming_sink(options: SinkOptions) -> None:
    """OptionNotApplicable for what only a batch write has."""
    if options.idempotency_key is not None:
        raise OptionNotApplicable(
            f"{IDEMPOTENCY_KEY}={options.idempotency_key!r}: a streaming write has a key for each "
            "batch, its query's id and the batch's; leave the option out"
        )


def _check_exactly_once(given: Mapping[str, str], *, exactly_once: bool) -> None:
    """Refuse options that do not go together with exactly once, or without it."""
    if exactly_once:
        if _flag(given, ASYNC_PROGRESS, default=False):
            raise InvalidOption(
                f"{ASYNC_PROGRESS}=true: Spark may then plan a batch again with other rows, which "
                f"the sink would take for those that it has; leave the option out, or set "
                f"{EXACTLY_ONCE}=false"
            )
        if IDEMPOTENCY_RETENTION in given and IDEMPOTENCY_KEY.lower() not in given:
            raise OptionNotApplicable(
                f"{IDEMPOTENCY_RETENTION}={given[IDEMPOTENCY_RETENTION]!r} is for how long an "
                f"{IDEMPOTENCY_KEY} is remembered, which is not given; give it, or leave both out"
            )
        return
    for name in OF_EXACTLY_ONCE:
        if name.lower() in given:
            raise OptionNotApplicable(
                f"{name}={given[name.lower()]!r}: a sink with {EXACTLY_ONCE}=false has no use for "
                "it; leave one of them out"
            )


_TEXTS: Final = {SINK_ID: SINK_ID_LENGTH_MAX, IDEMPOTENCY_KEY: IDEMPOTENCY_KEY_LENGTH_MAX}


def _text(given: Mapping[str, str], name: str, most: int) -> str | None:
    text = given.get(name.lower())
    if text is not None and not 0 < len(text.strip()) <= len(text) <= most:
        raise InvalidOption(
            f"{name}={shown(text)}: it must have 1 to {most} characters, not all spaces; or "
            "leave the option out"
        )
    return text


def _lowered(options: Mapping[str, str]) -> dict[str, str]:
    """By pylog's names in lower case."""
    given: dict[str, str] = {}
    for name, value in options.items():
        own = own_name(name.lower())
        if given.setdefault(own, value) != value:
            raise InvalidOption(
                f"{own} and {KAFKA_PREFIX}{own.removeprefix(PREFIX)} are one setting, with two "
                "values: give one of them"
            )
    return given


def _bootstrap_option(given: Mapping[str, str]) -> str:
    return BOOTSTRAP if BOOTSTRAP in given else BOOTSTRAP_ALIAS


def _bootstrap(given: Mapping[str, str]) -> tuple[Address, ...]:
    both = [given[name] for name in (BOOTSTRAP, BOOTSTRAP_ALIAS) if name in given]
    if not both:
        of_a_table = "" if given else f"; if this is a table, {NO_TABLE}"
        raise MissingOption(
            f"{BOOTSTRAP} is missing: give host:port of brokers or of the gateway, separated by "
            f"commas ({BOOTSTRAP_ALIAS} is taken as well){of_a_table}"
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
        name = _bootstrap_option(given)
        raise InvalidOption(f"{name}={shown(both[0])}{_joined(in_options(detail, name))}") from None


def _joined(detail: str) -> str:
    return detail if detail.startswith(":") else ":" + detail


def _selection(given: Mapping[str, str]) -> Selection:
    named = [name for name in SELECTIONS if name.lower() in given]
    if not named:
        raise MissingOption(
            "subscribe is missing: name the topics to read, separated by commas; or give "
            "subscribePattern, or assign"
        )
    if len(named) > 1:
        both = " and ".join(f"{name}={given[name.lower()]!r}" for name in named)
        raise InvalidOption(f"{both}: give only one of {', '.join(SELECTIONS)}")
    chosen, numbers = _selected(named[0], given[named[0].lower()]), _partitions(given)
    if numbers is None:
        return chosen
    if chosen.partitions is not None:
        raise InvalidOption(
            f"partitions={given['partitions']!r}: assign names the partitions of each topic; leave "
            "one of them out, or name topics in subscribe"
        )
    return replace(chosen, numbers=numbers)


def _selected(name: str, text: str) -> Selection:
    if name == "subscribe":
        return by_names(topic_names(name, text))
    return by_pattern(pattern(name, text)) if name == "subscribePattern" else by_partitions(text)


def _bound(name: str, text: str, *, lenient: bool) -> Bound:
    if name.endswith("Timestamp"):
        by_partition = name.endswith("ByTimestamp")
        return (times_bound if by_partition else time_bound)(name, text, lenient=lenient)
    return offsets_bound(name, text)


def _start(name: str, text: str, *, lenient: bool) -> Bound | CommittedStart:
    if name == "startingOffsets" and is_committed(text):
        return committed_start(name, text)
    return _bound(name, text, lenient=lenient)


def _first_start(given: Mapping[str, str], *, lenient: bool) -> Bound | CommittedStart | None:
    for name in STARTS:
        if name.lower() in given:
            return _start(name, given[name.lower()], lenient=lenient)
    return None


def _first_end(given: Mapping[str, str]) -> Bound | None:
    for name in ENDS:
        if name.lower() in given:
            return _bound(name, given[name.lower()], lenient=True)
    return None


def _commit_group(given: Mapping[str, str]) -> str | None:
    group = given.get(COMMIT_GROUP)
    if group is not None and not group.strip():
        raise InvalidOption(
            f"{COMMIT_GROUP}={group!r} names no group; give a consumer group's id, or leave the "
            "option out"
        )
    return group


def _progress_groups(given: Mapping[str, str]) -> tuple[str, ...]:
    """The groups that a sink is told of; of a source there is one."""
    text = given.get(PROGRESS_GROUP)
    if text is None:
        return ()
    groups = tuple(group.strip() for group in text.split(","))
    if not all(groups) or max(map(len, groups)) > GROUP_LENGTH_MAX:
        raise InvalidOption(
            f"{PROGRESS_GROUP}={shown(text)}: give a consumer group's id of 1 to "
            f"{GROUP_LENGTH_MAX} characters, and a sink those of all sources of its query, "
            "separated by commas"
        )
    if SINK_ID.lower() not in given:
        raise InvalidOption(
            f"{PROGRESS_GROUP}={shown(text)}: the progress is committed by the sink with the same "
            f"{SINK_ID}, which is not given; give it to source and sink"
        )
    return groups


def _progress_group(given: Mapping[str, str]) -> str | None:
    groups = _progress_groups(given)
    if not groups:
        return None
    if len(groups) > 1:
        raise InvalidOption(
            f"{PROGRESS_GROUP}={shown(given[PROGRESS_GROUP])}: a source has one group, and none "
            "whose id has a comma"
        )
    if groups[0] == given.get(COMMIT_GROUP):
        raise InvalidOption(
            f"{COMMIT_GROUP}={groups[0]!r}: the sink commits to the group ({PROGRESS_GROUP}); "
            "leave one of them out"
        )
    return groups[0]


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
    _number(given, "minPartitions", high=INT_MAX)
    _number(given, "maxRecordsPerPartition")
    _size(given, "maxBytesPerTrigger")
    _size(given, "maxBytesPerPartition")
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
    PREPARED_TIMEOUT: "for 15 minutes",
    IDEMPOTENCY_RETENTION: "for 7 days",
}


def _number(
    given: Mapping[str, str], name: str, *, low: int = 1, high: int = LONG_MAX
) -> int | None:
    text = given.get(name.lower())
    if text is None:
        return None
    return whole(name, text, low=low, high=high, otherwise=_OTHERWISE[name])


def _narrowing(given: Mapping[str, str]) -> Narrowing:
    times = []
    for name in ("minTimestamp", "maxTimestamp"):
        text = given.get(name.lower())
        number = whole_number(text.strip()) if text is not None else None
        if text is not None and (number is None or not 0 <= number <= LONG_MAX):
            raise InvalidOption(f"{name}={shown(text)}: give milliseconds since 1970, 0 or more")
        times.append(number)
    first, last = times
    if first is not None and last is not None and first > last:
        raise InvalidOption(
            f"minTimestamp={first} is later than maxTimestamp={last}: no record is of such a time"
        )
    return Narrowing(keys_of(given["keys"]) if "keys" in given else None, first, last)


def _partitions(given: Mapping[str, str]) -> frozenset[int] | None:
    return partitions_of(given["partitions"]) if "partitions" in given else None


def _size(given: Mapping[str, str], name: str) -> int | None:
    text = given.get(name.lower())
    return None if text is None else byte_size(name, text)


def _flag(given: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = given.get(name.lower())
    return default if text is None else flag(name, text)


def _client_settings(
    given: Mapping[str, str], table: ConfigTable, what: str, *, defaults: bool
) -> dict[str, Any]:
    chosen: dict[str, object] = {}
    for name, value in given.items():
        if not name.startswith(PREFIX) or name in OWN:
            continue
        setting = name[len(PREFIX) :]
        if setting not in table:
            ruling = ruling_of(setting)
            if setting == "security.protocol":  # `check_names` takes PLAINTEXT alone
                continue
            if setting in SOURCE_CLIENT or setting in SINK_CLIENT:  # `without_effect` tells of it
                continue
            if ruling is not None and ruling.verdict is Verdict.WITHOUT_EFFECT:
                continue
            raise OptionNotApplicable(
                f"{spelled(name)}={told(name, value)}: it means nothing for a {what}; leave the "
                "option out"
            )
        chosen[setting] = value
    try:
        return table.parse(chosen) if defaults else table.parse_given(chosen)
    except InvalidConfig as error:
        raise InvalidOption(f"{PREFIX}{in_options(str(error))}") from None
