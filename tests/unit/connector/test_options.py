from __future__ import annotations

import pickle
import re
from functools import partial

import pytest

from pylog.client.cluster.metadata import Address
from pylog_connector import errors
from pylog_connector.described_options import DESCRIBED
from pylog_connector.option_names import (
    check_names,
    in_options,
    options_of_sinks,
    options_of_sources,
)
from pylog_connector.options import (
    check_source,
    check_streaming_sink,
    check_values,
    sink_options,
    source_options,
    without_effect,
)
from pylog_connector.positions import EARLIEST, LATEST, Bound
from pylog_connector.selection import by_names

READ = {"pylog.bootstrap.servers": "h:9092", "subscribe": "a"}
WRITE = {"pylog.bootstrap.servers": "h:9092", "topic": "a"}


def refused(error: pytest.ExceptionInfo[errors.ConnectorError], *words: str) -> None:
    text = str(error.value)
    assert text.startswith(f"[{error.value.condition}] "), text
    for word in words:
        assert word in text, text


def test_defaults_of_a_stream_and_of_a_batch() -> None:
    stream = source_options(READ, streaming=True)
    batch = source_options(READ, streaming=False)
    assert stream.starting == Bound("startingOffsets", LATEST)
    assert batch.starting == Bound("startingOffsets", EARLIEST)
    assert batch.ending == Bound("endingOffsets", LATEST)
    assert stream.bootstrap == (Address("h", 9092),)
    assert stream.selection == by_names("a")
    assert stream.fail_on_data_loss
    assert not stream.include_headers
    assert stream.max_offsets_per_trigger is None
    assert stream.min_offsets_per_trigger is None
    assert stream.max_trigger_delay_ms == 15 * 60_000
    assert stream.client["max.partition.fetch.bytes"] == 8 << 20


def test_every_option_is_honoured_and_names_ignore_case() -> None:
    options = source_options(
        {
            "KAFKA.bootstrap.servers": "a:1, [::1]:2",
            "SUBSCRIBE": " b, a ,,b",
            "StartingOffsets": '{"a":{"0":23,"1":-2},"b":{"0":-1}}',
            "maxoffsetspertrigger": " 10 ",
            "minOffsetsPerTrigger": "10",
            "MAXTRIGGERDELAY": "2m",
            "minPartitions": "8",
            "maxRecordsPerPartition": "1000",
            "maxBytesPerTrigger": "64M",
            "MaxBytesPerPartition": " 5000 ",
            "kafkaConsumer.pollTimeoutMs": "512",
            "fetchOffset.numRetries": "0",
            "fetchOffset.retryIntervalMs": "10",
            "includeHeaders": "TRUE",
            "failOnDataLoss": "false",
            "pylog.consistent.cut": "True",
            "pylog.Fetch.Max.Wait.Ms": "100",
            "pylog.client.routing": "gateway",
        },
        streaming=True,
    )
    assert options.bootstrap == (Address("a", 1), Address("::1", 2))
    assert options.selection == by_names("ab")
    assert isinstance(options.starting, Bound)
    assert options.starting.values == {"a": {0: 23, 1: -2}, "b": {0: -1}}
    assert options.max_offsets_per_trigger == 10
    assert options.min_offsets_per_trigger == 10
    assert options.max_trigger_delay_ms == 120_000
    assert options.min_partitions == 8
    assert options.max_records_per_partition == 1000
    assert options.max_bytes_per_trigger == 64 << 20
    assert options.max_bytes_per_partition == 5_000
    assert options.client["default.api.timeout.ms"] == 512
    assert (options.retries, options.retry_ms) == (0, 10)
    assert options.include_headers
    assert options.consistent_cut
    assert not options.fail_on_data_loss
    assert options.client["fetch.max.wait.ms"] == 100
    assert options.client["client.routing"] == "gateway"


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("startingOffset", "startingOffsets"),
        ("subscibe", "subscribe"),
        ("bootstrap.servers", "pylog.bootstrap.servers"),
        ("pylog.bootstrap.server", "pylog.bootstrap.servers"),
        ("failOnDataloss ", "failOnDataLoss"),
        ("pylog.linger", "pylog.linger.ms"),
        ("kafka.linger", "pylog.linger.ms"),
        ("kafka.request.timeout", "pylog.request.timeout.ms"),
    ],
)
def test_a_misspelt_option_names_the_nearest(name: str, nearest: str) -> None:
    with pytest.raises(errors.UnknownOption) as error:
        check_names({**READ, name: "x"})
    refused(error, name, nearest, "'x'")


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("startingoffset", "startingOffset='x': did you mean startingOffsets?"),
        ("minpartition", "minPartition='x'"),
        ("includeheder", "includeHeder='x'"),
        ("kafka.linger", "kafka.linger='x'"),
        ("o", "o='x'"),
    ],
)
def test_names_that_spark_has_put_into_lower_case_are_told_as_written(
    name: str, written: str
) -> None:
    with pytest.raises(errors.ConnectorError) as error:
        check_names({**READ, name: "x"})
    refused(error, written)


def test_clients_errors_name_options() -> None:
    said = "bootstrap_servers='h:1': refused within default_api_timeout_ms=5, topic batch_size-1"
    assert in_options(said) == (
        "pylog.bootstrap.servers='h:1': refused within pylog.default.api.timeout.ms=5, "
        "topic batch_size-1"
    )
    assert in_options("bootstrap_servers", "kafka.bootstrap.servers") == "kafka.bootstrap.servers"


@pytest.mark.parametrize("name", ["pylog.bootstrap.servers", "kafka.bootstrap.servers"])
def test_addresses_are_told_under_the_name_that_was_given(name: str) -> None:
    with pytest.raises(errors.InvalidOption) as error:
        source_options({name: "h", "subscribe": "a"}, streaming=True)
    refused(error, f"[PYLOG_INVALID_OPTION] {name}='h'")
    assert "bootstrap_servers" not in str(error.value)
    given = {name: "h:1"}
    assert source_options({**given, "subscribe": "a"}, streaming=True).bootstrap_option == name
    assert sink_options(given).bootstrap_option == name


def test_an_option_like_no_other_and_a_path() -> None:
    with pytest.raises(errors.UnknownOption) as error:
        check_names({"zzzzzzzzzz": "1"})
    refused(error, "zzzzzzzzzz='1'", "no option of this format")
    with pytest.raises(errors.UnknownOption) as error:
        check_names({"path": "flights"})
    refused(error, "path='flights'", "subscribe", "topic")


def test_a_table_of_the_catalogue_is_refused() -> None:
    """Spark adds `provider` when it is made, and hands over no options when it is used."""
    with pytest.raises(errors.UnknownOption) as error:
        check_names({"provider": "pylog", "subscribe": "a"})
    refused(error, "provider='pylog'", "CREATE TABLE", "CREATE TEMPORARY VIEW")
    for options in (partial(source_options, streaming=False), sink_options):
        with pytest.raises(errors.MissingOption) as missing:
            options({})
        refused(missing, "pylog.bootstrap.servers is missing", "CREATE TEMPORARY VIEW")
    with pytest.raises(errors.MissingOption) as missing:
        source_options({"includeHeaders": "true"}, streaming=False)
    assert "CREATE" not in str(missing.value)


def test_an_option_that_comes_later_is_refused() -> None:
    for spelled in ("pushdown", "PUSHDOWN"):
        with pytest.raises(errors.OptionNotOffered) as error:
            check_source({**READ, spelled: "true"})
        refused(error, "pushdown='true'", "not offer", ";")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("kafka.transactional.id", "transactions of its own"),
        ("kafka.security.protocol", "without TLS"),
        ("pylog.ssl.truststore.location", "without TLS"),
    ],
)
def test_settings_of_kafkas_clients_that_come_later(name: str, words: str) -> None:
    for check in (check_source, sink_options):
        with pytest.raises(errors.OptionNotOffered) as error:
            check({**READ, name: "x"})
        refused(error, f"{name}='x'", words, "leave the option out")


@pytest.mark.parametrize(
    "name",
    [
        "password", "kafka.ssl.key.password", "kafka.sasl.jaas.config", "pylog.sasl.password",
        "Kafka.Delegation.Token", "client_secret", "fs.access.key",
    ],
)  # fmt: skip
def test_66_a_password_is_not_repeated(name: str) -> None:
    """Bad input 66: what Spark redacts in its plans stays out of our errors, too."""
    with pytest.raises(errors.ConnectorError) as error:
        check_names({**READ, name: "hunter2"})
    refused(error, name, "redacted")
    assert "hunter2" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("topics", "write subscribe (to read) or topic (to write)"),
        ("pylog.topic", "write topic"),
        ("kafka.subscribe", "write subscribe"),
        ("pylog.STARTINGOFFSETS", "write startingOffsets"),
        ("groupId", "in the checkpoint"),
        ("provider", "CREATE TEMPORARY VIEW"),
        ("bootstrap_servers", "pylog.bootstrap.servers"),
        ("kafka.sesion", "no option of this format"),
    ],
)
def test_what_users_of_other_sources_write(name: str, words: str) -> None:
    with pytest.raises(errors.UnknownOption) as error:
        check_names({**READ, name: "x"})
    refused(error, f"{name}='x'", words)


@pytest.mark.parametrize(
    "name",
    [
        "kafka.session.timeout.ms", "kafka.fetch.min.bytes", "pylog.heartbeat.interval.ms",
        "kafka.client.rack", "groupIdPrefix", "useDeprecatedOffsetFetching", "kafka.group.id",
        "pylog.group.id", "kafka.max.poll.records",
    ],
)  # fmt: skip
def test_what_cannot_matter_in_spark_is_taken_without_effect(name: str) -> None:
    plain = source_options(READ, streaming=True)
    for spelled in (name, name.lower()):
        options = {**READ, spelled: "1"}
        assert source_options(options, streaming=True) == plain
        assert list(without_effect(options, sink=False)) == [spelled]
        assert list(without_effect({**WRITE, spelled: "1"}, sink=True)) == [spelled]


@pytest.mark.parametrize("name", ["kafka.security.protocol", "pylog.security.protocol"])
def test_a_protocol_that_is_so_anyway_is_taken(name: str) -> None:
    source_options({**READ, name: "plaintext"}, streaming=True)
    sink_options({"pylog.bootstrap.servers": "h:1", name: "PLAINTEXT"})
    with pytest.raises(errors.OptionNotOffered):
        check_names({**READ, name: "SSL"})


def test_kafkas_prefix_stands_for_ours() -> None:
    source = source_options(
        {
            "kafka.bootstrap.servers": "h:1",
            "subscribe": "a",
            "kafka.request.timeout.ms": "700",
            "Kafka.Isolation.Level": "read_uncommitted",
        },
        streaming=True,
    )
    assert source.client["request.timeout.ms"] == 700
    assert source.client["isolation.level"] == "read_uncommitted"
    sink = sink_options({"kafka.bootstrap.servers": "h:1", "kafka.linger.ms": "3"})
    assert sink.client == {"linger.ms": 3}
    with pytest.raises(errors.InvalidOption) as error:
        sink_options({"kafka.bootstrap.servers": "h:1", "kafka.linger.ms": "0.5"})
    refused(error, "linger.ms")


def test_a_setting_under_both_names_has_one_value() -> None:
    both = {"pylog.bootstrap.servers": "h:1", "kafka.linger.ms": "3"}
    assert sink_options({**both, "pylog.linger.ms": "3"}).client == {"linger.ms": 3}
    with pytest.raises(errors.InvalidOption) as error:
        sink_options({**both, "pylog.linger.ms": "4"})
    refused(error, "pylog.linger.ms", "kafka.linger.ms", "give one of them")


def test_readers_of_sparks_see_committed_records_unless_told_otherwise() -> None:
    assert source_options(READ, streaming=True).client["isolation.level"] == "read_committed"


@pytest.mark.parametrize("streaming", [True, False])
def test_a_consistent_cut_is_of_committed_records(streaming: bool) -> None:
    cut = {**READ, "pylog.consistent.cut": "true"}
    assert source_options(cut, streaming=streaming).consistent_cut
    uncommitted = {"pylog.isolation.level": "read_uncommitted"}
    with pytest.raises(errors.OptionNotApplicable) as error:
        source_options(cut | uncommitted, streaming=streaming)
    refused(error, "pylog.consistent.cut='true'", "pylog.isolation.level=read_uncommitted")
    off = cut | uncommitted | {"pylog.consistent.cut": "false"}
    assert not source_options(off, streaming=streaming).consistent_cut
    with pytest.raises(errors.OptionNotApplicable) as error:
        sink_options({**WRITE, "pylog.consistent.cut": "true"})
    refused(error, "pylog.consistent.cut='true'", "option of the source")


@pytest.mark.parametrize(
    "name", ["auto.offset.reset", "key.deserializer", "enable.auto.commit", "partitioner"]
)
def test_settings_that_the_connector_decides(name: str) -> None:
    for prefix in ("pylog.", "kafka."):
        with pytest.raises(errors.InvalidOption) as error:
            check_names({prefix + name: "x"})
        refused(error, prefix + name, "decides this itself")


NUMBER = ["0", "-1", "abc", "1_000", "1.5", "\u0665", "", str(2**63)]
WRONG_OF_SOURCES = {
    "pylog.bootstrap.servers": ["", "host", "a:1,b:x", "a:99999"],
    "kafka.bootstrap.servers": ["other:1"],
    "subscribe": ["", " , ", "a,b/c"],
    "subscribePattern": [" ", "a(", "a*+", r"(a)\1", "a(?<=b)"],
    "assign": ["", "a", "{}", '{"a":0}', '{"a":[-1]}', '{"a":["0"]}'],
    "startingOffsets": ["", "last", "23", '{"a":{"0":-3}}', '{"a":{"x":1}}', '{"a":"first"}'],
    "startingTimestamp": ["", "soon", "-3", "1.5"],
    "startingOffsetsByTimestamp": ["", "5", '{"a":{"0":-3}}', '{"a":{"0":"5"}}'],
    "startingOffsetsByTimestampStrategy": ["", "earliest", "errors"],
    "endingOffsets": ["", "end", '{"a":{"0":true}}', "earliest"],
    "endingTimestamp": ["", "soon", "-3", "-2"],
    "endingOffsetsByTimestamp": ["", "latest", '{"a":{"0":null}}'],
    "minOffsetsPerTrigger": NUMBER,
    "maxTriggerDelay": ["", "15 parsecs", "-1s", "1.5m", "m", "99999999999999999999d"],
    "maxOffsetsPerTrigger": NUMBER,
    "partitions": ["", "a", "-1", "3-1", "0,", "1-", "2147483648", "0-200000", "1_0"],
    "keys": ["", "a", "[]", "{}", "5", "null"],
    "minTimestamp": ["", "-1", "soon", "1.5", str(2**63)],
    "maxTimestamp": ["", "-1", "soon", "1.5", str(2**63)],
    "minPartitions": [*NUMBER, str(2**31)],
    "maxRecordsPerPartition": NUMBER,
    "maxBytesPerTrigger": [*NUMBER, "0k", "64 pb", "1.5m", "m", "-1m", str(2**43) + "m"],
    "maxBytesPerPartition": [*NUMBER, "0b", "64x", "9007199254740992k"],
    "includeHeaders": ["", "yes", "1"],
    "pylog.local.reads": ["", "auto", "1"],
    "failOnDataLoss": ["", "maybe", "0"],
    "pylog.consistent.cut": ["", "yes", "1"],
    "kafkaConsumer.pollTimeoutMs": [*NUMBER, str(2**31)],
    "fetchOffset.numRetries": ["-1", "x", "101"],
    "fetchOffset.retryIntervalMs": ["-1", "x", "600001"],
    "pylog.client.id": ["x" * 256, "\u00e9" * 128, "\ud800"],
    "pylog.client.routing": ["proxy", ""],
    "pylog.client.transport": ["http", ""],
    "pylog.request.timeout.ms": ["0", "x"],
    "pylog.default.api.timeout.ms": ["-1", "x"],
    "pylog.retry.backoff.ms": ["-1", "x"],
    "pylog.retry.backoff.max.ms": ["-1", "x"],
    "pylog.bootstrap.timeout.ms": ["-1", "x"],
    "pylog.fetch.max.wait.ms": ["-1", "soon"],
    "pylog.isolation.level": ["dirty"],
    "pylog.commit.group": ["", " "],
    "pylog.progress.group": ["", " ", "a", "a,", "x" * 250],
    "sinkId": ["", " ", "x" * 250],
    "pylog.sink.takeover": ["", "yes", "1"],
    "pylog.sink.prepared.timeout.ms": ["0", "-1", "1h", "9" * 30],
    "pylog.read.lease": ["", "yes", "1"],
    "pylog.check.crcs": ["maybe"],
    "pylog.max.partition.fetch.bytes": ["0", "x", str(1 << 40)],
}


WRONG_OF_SINKS = {
    "topic": ["", " ", "a,b", "a/b", "x" * 250],
    "pylog.bootstrap.servers": WRONG_OF_SOURCES["pylog.bootstrap.servers"],
    "kafka.bootstrap.servers": WRONG_OF_SOURCES["kafka.bootstrap.servers"],
    "pylog.client.id": WRONG_OF_SOURCES["pylog.client.id"],
    "pylog.acks": ["2", "most"],
    "pylog.enable.idempotence": ["maybe"],
    "pylog.exactly.once": ["", "yes", "1"],
    "sinkId": WRONG_OF_SOURCES["sinkId"],
    "pylog.progress.group": WRONG_OF_SOURCES["pylog.progress.group"],
    "pylog.sink.takeover": WRONG_OF_SOURCES["pylog.sink.takeover"],
    "pylog.sink.prepared.timeout.ms": WRONG_OF_SOURCES["pylog.sink.prepared.timeout.ms"],
    "idempotencyKey": ["", " ", "x" * 1001],
    "pylog.idempotency.retention.ms": ["0", "7d"],
}
"""Beside nonsense, which none takes; and all that takes free texts."""
TAKES_NONSENSE = {"pylog.client.id", "pylog.commit.group", "sinkId", "idempotencyKey"}


def test_every_option_has_wrong_values() -> None:
    assert set(WRONG_OF_SOURCES) == set(options_of_sources())
    assert all(WRONG_OF_SOURCES.values())
    assert set(WRONG_OF_SINKS) <= set(options_of_sinks())
    assert set(DESCRIBED) <= set(WRONG_OF_SOURCES) | set(WRONG_OF_SINKS)


@pytest.mark.parametrize(
    ("name", "value"), [(n, v) for n, values in WRONG_OF_SOURCES.items() for v in values]
)
def test_wrong_values_tell_option_value_and_remedy(name: str, value: str) -> None:
    chosen = {k: v for k, v in READ.items() if not (k == "subscribe" and name in SELECTIONS)}
    if name == "maxTriggerDelay":
        chosen["minOffsetsPerTrigger"] = "5"
    with pytest.raises(errors.InvalidOption) as error:
        source_options({**chosen, name: value}, streaming=not name.startswith("ending"))
    told = f"{name}.a" if value.startswith('{"a":') else repr(value)[1:20].rstrip("'")
    refused(error, name, told)
    head, _, remedy = str(error.value).partition("; ")
    assert REMEDY.search(remedy or head), str(error.value)


LONG = "9" * 5_000
"""More digits than Python makes a number of."""


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("maxOffsetsPerTrigger", "0" * 19 + "1" + LONG, "at least 1"),
        ("maxOffsetsPerTrigger", "0" * 19 + "1" + "0" * 20, "at least 1"),
        ("fetchOffset.numRetries", "0" * 20 + "999", "at most 100"),
        ("minPartitions", "-0", "at least 1"),
        ("startingTimestamp", "0" * 20 + LONG, "milliseconds since 1970"),
        ("startingTimestamp", "--1", "milliseconds since 1970"),
        ("startingOffsets", '{"a":{"0":' + LONG + "}}", "an offset is 0 or more, and at most 9"),
        ("startingOffsets", '{"a":{"' + LONG + '":0}}', "in quotes"),
        ("startingOffsets", '{"a":{"0":1,"0":2}}', 'the key "0" stands there twice'),
        ("startingOffsets", '{"a":' * 5_000, """='{"a":{"a":{"a":"""),
        ("startingOffsets", "{x", "='{x' is not valid JSON"),
        ("assign", "{x", "='{x' is not valid JSON"),
        ("startingOffsets", '{"t":{"a":{"id":"x","p":{"0":{"e":1,"o":5}}}},"v":2}', ".v=2: "),
        ("assign", '{"a":[' + LONG + "]}", "assign.a="),
        ("assign", '{"a":[0],"a":[1]}', 'the key "a" stands there twice'),
        ("subscribe", "\ud800", "only a-z"),
        ("subscribePattern", "\ud800", "is no text"),
        ("subscribePattern", "(" * 1_000, "missing )"),
        ("pylog.bootstrap.servers", "h:" + LONG, "1 to 65535"),
        ("pylog.fetch.max.wait.ms", LONG, "from 0 to"),
        ("o" * 5_000, "x", "no option of this format"),
    ],
    ids=lambda value: value[:30] if isinstance(value, str) else None,
)
def test_odd_values_are_short_errors_too(name: str, value: str, words: str) -> None:
    chosen = {k: v for k, v in READ.items() if not (k == "subscribe" and name in SELECTIONS)}
    with pytest.raises(errors.ConnectorError) as error:
        source_options({**chosen, name: value}, streaming=True)
    refused(error, name[:50], words)
    assert len(str(error.value)) < 400


def test_zeros_before_a_number_change_nothing() -> None:
    zeros = {"maxOffsetsPerTrigger": "0" * 30 + "5", "startingTimestamp": "0" * 30 + "7"}
    options = source_options({**READ, **zeros}, streaming=True)
    assert (options.max_offsets_per_trigger, options.starting.values) == (5, 7)


SELECTIONS = ("subscribePattern", "assign")
REMEDY = re.compile(
    r"\b(use|give|must be|leave|write|written|like|means?|name|contains|allowed|needs?|limit|or)\b"
)


@pytest.mark.parametrize(
    ("name", "value"),
    [(name, "no such value") for name in options_of_sinks() if name not in TAKES_NONSENSE]
    + [(name, value) for name, values in WRONG_OF_SINKS.items() for value in values],
)
def test_wrong_values_of_the_sink_tell_option_value_and_remedy(name: str, value: str) -> None:
    with pytest.raises(errors.InvalidOption) as error:
        sink_options({**WRITE, name: value})
    refused(error, name, repr(value)[1:20].rstrip("'"))
    head, _, remedy = str(error.value).partition("; ")
    assert REMEDY.search(remedy or head), str(error.value)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"minOffsetsPerTrigger": "20", "maxOffsetsPerTrigger": "15"},
            ["minOffsetsPerTrigger=20", "higher than maxOffsetsPerTrigger=15", "lower"],
        ),
        ({"assign": '{"a":[0]}'}, ["assign=", "subscribe='a'", "give only one"]),
        ({"subscribePattern": "a"}, ["subscribe='a'", "subscribePattern='a'"]),
    ],
)
def test_options_that_do_not_go_together(options: dict[str, str], words: list[str]) -> None:
    with pytest.raises(errors.InvalidOption) as error:
        source_options({**READ, **options}, streaming=True)
    refused(error, *words)


def test_a_delay_without_anything_to_wait_for_is_taken_without_effect() -> None:
    options = {**READ, "maxTriggerDelay": "5s"}
    source_options(options, streaming=True)
    assert without_effect(options, sink=False) == {
        "maxTriggerDelay": "it bounds the wait for minOffsetsPerTrigger, which is not given"
    }
    assert without_effect({**options, "minOffsetsPerTrigger": "2"}, sink=False) == {}


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("90s", 90_000),
        ("15m", 900_000),
        ("15min", 900_000),
        ("5", 5),
        ("5 ms", 5),
        ("1h", 3_600_000),
        ("2d", 172_800_000),
        ("1500us", 1),
        ("0", 0),
        (" 3S ", 3_000),
    ],
)
def test_durations(text: str, ms: int) -> None:
    chosen = {**READ, "minOffsetsPerTrigger": "5", "maxTriggerDelay": text}
    assert source_options(chosen, streaming=True).max_trigger_delay_ms == ms


def test_the_most_precise_start_and_end_count() -> None:
    """As in Spark's Kafka connector: one time, then times by partition, then offsets."""
    by_time = {"startingOffsetsByTimestamp": '{"a":{"0":5}}', "startingOffsets": "latest"}
    ends = {"endingOffsetsByTimestamp": '{"a":{"0":9}}', "endingOffsets": '{"a":{"0":3}}'}
    options = source_options({**READ, **by_time, **ends}, streaming=False)
    assert options.starting == Bound("startingOffsetsByTimestamp", {"a": {0: 5}}, times=True)
    assert options.ending.values == {"a": {0: 9}}
    assert options.ending.lenient  # nothing that late: to the end
    one = {"startingTimestamp": "-1", "startingOffsetsByTimestampStrategy": "LATEST"}
    options = source_options(
        {**READ, **by_time, **ends, **one, "endingTimestamp": "7"}, streaming=False
    )
    assert options.starting == Bound("startingTimestamp", LATEST, times=True, lenient=True)
    assert (options.ending.option, options.ending.values) == ("endingTimestamp", 7)


def test_what_is_required() -> None:
    with pytest.raises(errors.MissingOption) as error:
        check_source({"subscribe": "a"})
    refused(error, "pylog.bootstrap.servers", "kafka.bootstrap.servers")
    with pytest.raises(errors.MissingOption) as error:
        check_source({"pylog.bootstrap.servers": "h:1"})
    refused(error, "subscribe")
    with pytest.raises(errors.MissingOption) as error:
        sink_options({})
    refused(error, "pylog.bootstrap.servers")


def test_a_source_is_no_sink_and_a_stream_has_no_end() -> None:
    with pytest.raises(errors.MissingOption) as error:
        check_source({"pylog.bootstrap.servers": "h:1", "topic": "a"})
    refused(error, "subscribe is missing")
    for name, value in (
        ("endingOffsets", "latest"),
        ("endingTimestamp", "5"),
        ("endingOffsetsByTimestamp", '{"a":5}'),
    ):
        with pytest.raises(errors.OptionNotApplicable) as error:
            source_options({**READ, name: value}, streaming=True)
        refused(error, f"{name}={value!r}", "AvailableNow")
    with pytest.raises(errors.OptionNotApplicable) as error:
        check_source({**READ, "sinkId": "a"})
    refused(error, "sinkId='a'", "option of the sink")
    with pytest.raises(errors.OptionNotApplicable) as error:
        sink_options({**WRITE, "pylog.commit.group": "g"})
    refused(error, "pylog.commit.group='g'", "option of the source")


@pytest.mark.parametrize(
    ("name", "value"),
    [("topic", "a"), ("kafka.linger.ms", "1"), ("pylog.acks", "1"), ("kafka.batch.size", "9")],
)
def test_what_is_for_writes_changes_nothing_for_a_source(name: str, value: str) -> None:
    options = {**READ, name: value}
    assert source_options(options, streaming=True) == source_options(READ, streaming=True)
    [(found, reason)] = without_effect(options, sink=False).items()
    assert (found, reason.partition(",")[0]) == (name, "it is for writes")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("includeHeaders", "true"), ("failOnDataLoss", "false"), ("startingOffsets", "latest"),
        ("subscribe", "b"), ("kafka.isolation.level", "read_committed"),
        ("pylog.check.crcs", "true"),
    ],
)  # fmt: skip
def test_what_is_for_reads_changes_nothing_for_a_sink(name: str, value: str) -> None:
    options = {**WRITE, name.lower(): value}
    assert sink_options(options) == sink_options(WRITE)
    [(found, reason)] = without_effect(options, sink=True).items()
    assert (found, reason.partition(",")[0]) == (name.lower(), "it is for reads")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"startingOffsets": "latest"}, ["startingOffsets=latest (-1)"]),
        ({"startingOffsets": '{"a":{"0":-1}}'}, ['startingOffsets.a."0"=latest (-1)']),
        ({"endingOffsets": "earliest"}, ["endingOffsets=earliest (-2)"]),
        ({"endingOffsets": '{"a":{"0":-2}}'}, ['endingOffsets.a."0"=earliest (-2)']),
    ],
)
def test_a_batch_neither_starts_at_the_end_nor_ends_at_the_start(
    options: dict[str, str], words: list[str]
) -> None:
    with pytest.raises(errors.InvalidOption) as error:
        source_options({**READ, **options}, streaming=False)
    refused(error, *words)


def test_the_sinks_settings() -> None:
    options = sink_options(
        {
            **WRITE,
            "checkpointlocation": "/tmp/x",
            "queryname": "q",
            "pylog.compression.type": "zstd",
            "pylog.linger.ms": "7",
            "pylog.acks": "all",
        }
    )
    assert options.topic == "a"
    assert options.client == {"compression.type": "zstd", "linger.ms": 7, "acks": "all"}
    for setting, value in (("acks", "1"), ("acks", "0"), ("enable.idempotence", "false")):
        weaker = {**WRITE, f"kafka.{setting}": value}
        assert sink_options(weaker).client == {}
        assert list(without_effect(weaker, sink=True)) == [f"kafka.{setting}"]
    with pytest.raises(errors.InvalidOption) as error:
        sink_options({**WRITE, "topic": "a b"})
    refused(error, "topic='a b'", "contains ' '")


def test_a_sink_that_writes_exactly_once() -> None:
    options = sink_options(
        {
            **WRITE,
            "PYLOG.EXACTLY.ONCE": "true",
            "sinkid": "mine",
            "pylog.sink.prepared.timeout.ms": "1000",
            "idempotencykey": "day 7",
            "pylog.idempotency.retention.ms": "5",
            "asyncProgressTrackingEnabled": "false",
        }
    )
    assert options.exactly_once
    assert (options.sink_id, options.prepared_timeout_ms) == ("mine", 1_000)
    assert (options.idempotency_key, options.idempotency_retention_ms) == ("day 7", 5)
    assert options.client == {}
    plain = sink_options(WRITE)
    assert plain.exactly_once
    assert not sink_options({**WRITE, "pylog.exactly.once": "false"}).exactly_once
    assert (plain.sink_id, plain.prepared_timeout_ms) == (None, 900_000)
    assert (plain.idempotency_key, plain.idempotency_retention_ms) == (None, 604_800_000)
    with pytest.raises(errors.OptionNotApplicable) as error:
        check_streaming_sink(options)
    refused(error, "idempotencyKey='day 7'", "leave the option out")
    check_streaming_sink(plain)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            {"pylog.exactly.once": "true", "asyncProgressTrackingEnabled": "true"},
            ["asyncProgressTrackingEnabled=true", "pylog.exactly.once=false"],
        ),
        (
            {"pylog.exactly.once": "true", "pylog.idempotency.retention.ms": "5"},
            ["pylog.idempotency.retention.ms='5'", "idempotencyKey"],
        ),
        ({"pylog.exactly.once": "false", "sinkId": "x"}, ["sinkId='x'", "leave one of them out"]),
        ({"pylog.exactly.once": "false", "idempotencyKey": "x"}, ["idempotencyKey='x'"]),
        ({"pylog.exactly.once": "false", "pylog.sink.takeover": "true"}, ["sink.takeover='true'"]),
        ({"pylog.exactly.once": "yes"}, ["pylog.exactly.once='yes'", "true or false"]),
        ({"sinkId": " "}, ["sinkId=' '", "1 to 249"]),
        ({"sinkId": "x" * 250}, ["sinkId=", "1 to 249"]),
        ({"idempotencyKey": ""}, ["idempotencyKey=''", "1 to 1000"]),
        ({"pylog.sink.prepared.timeout.ms": "0"}, ["at least 1", "15 minutes"]),
        ({"pylog.idempotency.retention.ms": "1h"}, ["whole number", "7 days"]),
    ],
)
def test_what_a_sink_that_writes_exactly_once_does_not_take(
    given: dict[str, str], words: list[str]
) -> None:
    with pytest.raises(errors.ConnectorError) as error:
        sink_options({**WRITE, **given})
    refused(error, *words)


@pytest.mark.parametrize(
    "name", ["pylog.exactly.once", "sinkId", "idempotencyKey", "pylog.sink.prepared.timeout.ms"]
)
def test_a_source_writes_nothing(name: str) -> None:
    with pytest.raises(errors.OptionNotApplicable) as error:
        check_source({**READ, name: "true" if "." not in name or "once" in name else "7"})
    refused(error, name, "option of the sink")


def test_values_are_checked_without_context_too() -> None:
    check_values({})
    for options in (
        {"pylog.bootstrap.servers": "x"},
        {"endingOffsets": "?"},
        {"maxOffsetsPerTrigger": "0"},
        {"includeHeaders": "2"},
        {"subscribe": ""},
        {"topic": ".."},
    ):
        with pytest.raises(errors.InvalidOption):
            check_values(options)


def test_errors_survive_pickling_with_one_condition() -> None:
    error = errors.InvalidOption("x=1: it must be 2")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is errors.InvalidOption
    assert str(copy) == str(error) == "[PYLOG_INVALID_OPTION] x=1: it must be 2"


def test_conditions_are_distinct_and_named_alike() -> None:
    kinds = errors.ConnectorError.__subclasses__()
    conditions = [kind.condition for kind in kinds]
    assert len(set(conditions)) == len(kinds) > 10
    assert all(condition.startswith("PYLOG_") for condition in conditions)
