from __future__ import annotations

import logging

import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

from pylog_connector import datasource
from pylog_connector.datasource import LINES_MAX, PylogDataSource
from pylog_connector.option_names import options_of_sinks, options_of_sources
from pylog_connector.option_verdicts import (
    Becomes,
    OptionVerdict,
    Use,
    guessed_use,
    option_verdicts,
)

READ = {"kafka.bootstrap.servers": "h:1", "subscribe": "a"}
WRITE = {"kafka.bootstrap.servers": "h:1", "topic": "a"}


def becomes(verdicts: list[OptionVerdict]) -> dict[str, Becomes]:
    return {one.option: one.becomes for one in verdicts}


def reasons(verdicts: list[OptionVerdict]) -> dict[str, str]:
    return {one.option: one.because for one in verdicts if one.becomes is Becomes.REFUSED}


def test_everything_is_told_at_once_in_the_order_given() -> None:
    options = {
        **READ,
        "kafka.auto.offset.reset": "earliest",
        "startingOffsets": "last",
        "groupIdPrefix": "etl",
        "maxOffsetsPerTrigger": "0",
        "kafka.request.timeout.ms": "-5",
        "kafka.ssl.key.password": "hunter2",
        "startingOffset": "latest",
    }
    found = option_verdicts(options, Use.READ_STREAM)
    assert [one.option for one in found] == list(options)
    assert [one.becomes for one in found[:2]] == [Becomes.WORKS] * 2
    told = reasons(found)
    assert told["kafka.auto.offset.reset"].endswith("use startingOffsets")
    assert told["startingOffsets"].startswith("use earliest, latest")
    assert told["maxOffsetsPerTrigger"].startswith("it must be a whole number of at least 1")
    assert told["kafka.request.timeout.ms"] == "it must be a whole number from 1 to 2147483647"
    assert "leave the option out" in told["kafka.ssl.key.password"]
    assert told["startingOffset"] == "did you mean startingOffsets?"
    assert becomes(found)["groupIdPrefix"] is Becomes.WITHOUT_EFFECT
    assert "hunter2" not in str(found)


def test_what_is_missing_is_told_unless_it_was_refused() -> None:
    assert reasons(option_verdicts({"failOnDataLoss": "x"}, Use.READ_STREAM)).keys() == {
        "failOnDataLoss", "pylog.bootstrap.servers", "subscribe",
    }  # fmt: skip
    wrong = {"kafka.bootstrap.servers": "nowhere", "subscribePattern": "a("}
    assert reasons(option_verdicts(wrong, Use.READ)).keys() == set(wrong)


def test_a_verdict_depends_on_the_use() -> None:
    options = {**READ, "endingOffsets": "latest", "maxOffsetsPerTrigger": "5"}
    batch = becomes(option_verdicts(options, Use.READ))
    stream = becomes(option_verdicts(options, Use.READ_STREAM))
    assert batch["endingOffsets"] is Becomes.WORKS
    assert batch["maxOffsetsPerTrigger"] is Becomes.WITHOUT_EFFECT
    assert stream["endingOffsets"] is Becomes.REFUSED
    assert stream["maxOffsetsPerTrigger"] is Becomes.WORKS
    sink = {**WRITE, "idempotencyKey": "day 7", "includeHeaders": "true", "kafka.acks": "1"}
    assert becomes(option_verdicts(sink, Use.WRITE_STREAM)) == {
        "kafka.bootstrap.servers": Becomes.WORKS,
        "topic": Becomes.WORKS,
        "idempotencyKey": Becomes.REFUSED,
        "includeHeaders": Becomes.WITHOUT_EFFECT,
        "kafka.acks": Becomes.WITHOUT_EFFECT,
    }
    assert becomes(option_verdicts(sink, Use.WRITE, mode="append"))["idempotencyKey"] is (
        Becomes.WORKS
    )


@pytest.mark.parametrize("mode", [None, "error", "errorifexists", "ignore", "default", "truncate"])
def test_save_modes_that_spark_withholds_have_a_line_to_write(mode: str | None) -> None:
    told = reasons(option_verdicts(WRITE, Use.WRITE, mode=mode))
    assert told["mode"].endswith("write .mode('append')")


def test_output_modes() -> None:
    told = reasons(option_verdicts(WRITE, Use.WRITE_STREAM, output_mode="Update"))
    assert ".foreachBatch(lambda frame, _: " in told["outputMode"]
    for mode in ("append", "complete", None):
        assert reasons(option_verdicts(WRITE, Use.WRITE_STREAM, output_mode=mode)) == {}


def test_overwriting_is_as_the_format_decides() -> None:
    [verdict] = [
        one for one in option_verdicts(WRITE, Use.WRITE, mode="overwrite") if one.option == "mode"
    ]
    assert verdict.becomes is Becomes.WORKS or "append" in verdict.because


def test_an_overwrite_without_exactly_once_is_refused() -> None:
    plain = {**WRITE, "Pylog.Exactly.Once": "FALSE"}
    [refused] = [
        one for one in option_verdicts(plain, Use.WRITE, mode="overwrite") if one.option == "mode"
    ]
    assert refused.becomes is Becomes.REFUSED
    assert "mode('append')" in refused.because


def test_of_unknown_values_the_names_are_judged() -> None:
    unknown = ["kafka.bootstrap.servers", "subscribe", "kafka.auto.offset.reset", "groupIdPrefix"]
    assert becomes(option_verdicts({}, Use.READ_STREAM, unknown=unknown)) == {
        "kafka.bootstrap.servers": Becomes.WORKS,
        "subscribe": Becomes.WORKS,
        "kafka.auto.offset.reset": Becomes.REFUSED,
        "groupIdPrefix": Becomes.WITHOUT_EFFECT,
    }


@pytest.mark.parametrize("use", Use)
@pytest.mark.parametrize("value", ["", "x", "-1", '{"a":{"0":-9}}', "kafka", "true"])
def test_any_option_with_any_value_gets_a_verdict(use: Use, value: str) -> None:
    for name in {*options_of_sources(), *options_of_sinks(), "path", "é", "kafka.", "x" * 300}:
        options = {**(WRITE if use.is_write else READ), name: value}
        found = option_verdicts(options, use, mode="append")
        assert [one.option for one in found[: len(options)]] == list(options)
        together = option_verdicts({**options, "topic": value, "assign": value}, use)
        assert {one.option for one in together} >= {name, "topic", "assign"}


def test_the_use_is_guessed() -> None:
    assert guessed_use(READ) is Use.READ_STREAM
    assert guessed_use({**READ, "endingoffsets": "latest"}) is Use.READ
    assert guessed_use(WRITE) is Use.WRITE
    assert guessed_use({**WRITE, "checkpointLocation": "/c"}) is Use.WRITE_STREAM


def test_the_format_writes_a_line_for_each_option_without_effect(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(datasource, "_told", set())
    with caplog.at_level(logging.WARNING):
        source = PylogDataSource({**READ, "groupidprefix": "etl", "kafka.acks": "1"})
        assert caplog.messages == []
        source.streamReader(source.schema())
    assert caplog.messages == [
        "groupIdPrefix is taken without effect: no group shares a query's partitions among its "
        "tasks",
        "kafka.acks is taken without effect: it is for writes, and a source has no use for it",
    ]


def test_the_batches_of_a_stream_do_not_write_the_line_again(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark makes the writer of a stream for each batch, in a process that it keeps."""
    told: set[str] = set()
    monkeypatch.setattr(datasource, "_told", told)
    schema = StructType([StructField("value", BinaryType())])
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            PylogDataSource({**WRITE, "kafka.acks": "1"}).streamWriter(schema, False)
        PylogDataSource({**WRITE, "kafka.acks": "0", "groupIdPrefix": "etl"}).writer(schema, False)
    assert caplog.messages == [
        "kafka.acks is taken without effect: the sink loses nothing, which needs all",
        "groupIdPrefix is taken without effect: no group shares a query's partitions among its "
        "tasks",
    ]
    told.update(str(number) for number in range(LINES_MAX))
    PylogDataSource({**WRITE, "subscribe": "a"}).streamWriter(schema, False)
    assert len(told) == 1
