from __future__ import annotations

import pickle

import pytest

from connector import errors
from connector.options import check_names, check_source, check_values, sink_options, source_options
from connector.positions import EARLIEST, LATEST
from pylog.client.metadata import Address

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
    assert stream.starting == LATEST
    assert batch.starting == EARLIEST
    assert batch.ending == LATEST
    assert stream.bootstrap == (Address("h", 9092),)
    assert stream.topics == ("a",)
    assert stream.fail_on_data_loss
    assert not stream.include_headers
    assert stream.max_offsets_per_trigger is None
    assert stream.client["max.partition.fetch.bytes"] == 8 << 20


def test_every_option_is_honoured_and_names_ignore_case() -> None:
    options = source_options(
        {
            "KAFKA.bootstrap.servers": "a:1, [::1]:2",
            "SUBSCRIBE": " b, a ,,b",
            "StartingOffsets": '{"a":{"0":23,"1":-2},"b":{"0":-1}}',
            "maxoffsetspertrigger": " 10 ",
            "includeHeaders": "TRUE",
            "failOnDataLoss": "false",
            "pylog.Fetch.Max.Wait.Ms": "100",
        },
        streaming=True,
    )
    assert options.bootstrap == (Address("a", 1), Address("::1", 2))
    assert options.topics == ("a", "b")
    assert options.starting == {"a": {0: 23, 1: -2}, "b": {0: -1}}
    assert options.max_offsets_per_trigger == 10
    assert options.include_headers
    assert not options.fail_on_data_loss
    assert options.client["fetch.max.wait.ms"] == 100


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("startingOffset", "startingOffsets"),
        ("subscibe", "subscribe"),
        ("bootstrap.servers", "pylog.bootstrap.servers"),
        ("pylog.bootstrap.server", "pylog.bootstrap.servers"),
        ("failOnDataloss ", "failOnDataLoss"),
        ("pylog.linger", "pylog.linger.ms"),
        ("kafka.linger.ms", "pylog.linger.ms"),
        ("kafka.request.timeout.ms", "pylog.request.timeout.ms"),
    ],
)
def test_a_misspelt_option_names_the_nearest(name: str, nearest: str) -> None:
    with pytest.raises(errors.UnknownOption) as error:
        check_names({**READ, name: "x"})
    refused(error, name, nearest, "'x'")


def test_an_option_like_no_other_and_a_path() -> None:
    with pytest.raises(errors.UnknownOption) as error:
        check_names({"zzzzzzzzzz": "1"})
    refused(error, "zzzzzzzzzz='1'", "no option of this format")
    with pytest.raises(errors.UnknownOption) as error:
        check_names({"path": "flights"})
    refused(error, "path='flights'", "subscribe", "topic")


@pytest.mark.parametrize(
    "name",
    [
        "subscribePattern",
        "assign",
        "startingTimestamp",
        "startingOffsetsByTimestamp",
        "startingOffsetsByTimestampStrategy",
        "endingTimestamp",
        "endingOffsetsByTimestamp",
        "minOffsetsPerTrigger",
        "maxTriggerDelay",
        "minPartitions",
        "maxRecordsPerPartition",
        "groupIdPrefix",
        "kafkaConsumer.pollTimeoutMs",
        "fetchOffset.numRetries",
        "fetchOffset.retryIntervalMs",
        "pylog.group.id",
    ],
)
def test_options_of_sparks_connector_that_come_later(name: str) -> None:
    for spelled in (name, name.lower()):
        with pytest.raises(errors.OptionNotOffered) as error:
            check_source({**READ, spelled: "0"})
        refused(error, f"{name}='0'", "not offer", ";")


@pytest.mark.parametrize(
    "name", ["auto.offset.reset", "key.deserializer", "enable.auto.commit", "partitioner"]
)
def test_settings_that_the_connector_decides(name: str) -> None:
    for prefix in ("pylog.", "kafka."):
        with pytest.raises(errors.InvalidOption) as error:
            check_names({prefix + name: "x"})
        refused(error, prefix + name, "decides this itself")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"maxOffsetsPerTrigger": "0"}, ["maxOffsetsPerTrigger='0'", "at least 1"]),
        ({"maxOffsetsPerTrigger": "-1"}, ["maxOffsetsPerTrigger='-1'"]),
        ({"maxOffsetsPerTrigger": "abc"}, ["maxOffsetsPerTrigger='abc'"]),
        ({"maxOffsetsPerTrigger": "1_000"}, ["'1_000'"]),
        ({"maxOffsetsPerTrigger": "1.5"}, ["'1.5'"]),
        ({"maxOffsetsPerTrigger": str(2**63)}, [str(2**63)]),
        ({"includeHeaders": "yes"}, ["includeHeaders='yes'", "true or false"]),
        ({"failOnDataLoss": "1"}, ["failOnDataLoss='1'", "true or false"]),
        ({"subscribe": " , "}, ["subscribe=' , '", "names no topic"]),
        ({"subscribe": "a,b/c"}, ["subscribe='a,b/c'", "contains '/'"]),
        ({"pylog.bootstrap.servers": ""}, ["pylog.bootstrap.servers=''", "empty"]),
        ({"pylog.bootstrap.servers": "host"}, ["'host' has no port", "host:port"]),
        ({"pylog.bootstrap.servers": "a:1,b:x"}, ["'b:x'", "'x'"]),
        ({"kafka.bootstrap.servers": "other:1"}, ["'h:9092'", "'other:1'", "differ"]),
        ({"startingOffsets": "last"}, ["startingOffsets='last'", "earliest, latest, or JSON"]),
        ({"pylog.fetch.max.wait.ms": "soon"}, ["pylog.fetch.max.wait.ms='soon'", "whole number"]),
        ({"pylog.isolation.level": "dirty"}, ["read_committed"]),
    ],
)
def test_wrong_values(options: dict[str, str], words: list[str]) -> None:
    with pytest.raises(errors.InvalidOption) as error:
        source_options({**READ, **options}, streaming=True)
    refused(error, *words)


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
    with pytest.raises(errors.OptionNotApplicable) as error:
        check_source({**READ, "topic": "a"})
    refused(error, "topic='a'", "subscribe")
    with pytest.raises(errors.OptionNotApplicable) as error:
        source_options({**READ, "endingOffsets": "latest"}, streaming=True)
    refused(error, "endingOffsets='latest'", "AvailableNow")
    with pytest.raises(errors.OptionNotApplicable) as error:
        source_options({**READ, "pylog.linger.ms": "1"}, streaming=True)
    refused(error, "pylog.linger.ms='1'", "source")
    with pytest.raises(errors.OptionNotApplicable) as error:
        sink_options({**WRITE, "startingOffsets": "latest"})
    refused(error, "startingOffsets='latest'", "source")
    with pytest.raises(errors.OptionNotApplicable) as error:
        sink_options({**WRITE, "pylog.check.crcs": "true"})
    refused(error, "pylog.check.crcs", "sink")


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
    for setting, value in (("acks", "1"), ("enable.idempotence", "false")):
        with pytest.raises(errors.InvalidOption) as error:
            sink_options({**WRITE, f"pylog.{setting}": value})
        refused(error, f"pylog.{setting}", "leave the option out")
    with pytest.raises(errors.InvalidOption) as error:
        sink_options({**WRITE, "topic": "a b"})
    refused(error, "topic='a b'", "contains ' '")


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
