from __future__ import annotations

import pytest

from pylog import errors
from pylog.testing.pipelines import Pipeline, pipelines_in


def test_a_chain_is_read_with_what_the_file_says_once() -> None:
    text = """
SERVERS = "h:1"
LIMIT: int = 100
common = {"kafka.bootstrap.servers": SERVERS, "groupIdPrefix": "etl"}
frame = (
    spark.readStream.format("kafka")
    .options(**common, subscribe="a")
    .option("maxOffsetsPerTrigger", LIMIT).option("failOnDataLoss", False).option("x", -1)
    .load()
)
"""
    options = {
        "kafka.bootstrap.servers": "h:1",
        "groupIdPrefix": "etl",
        "subscribe": "a",
        "maxOffsetsPerTrigger": 100,
        "failOnDataLoss": False,
        "x": -1,
    }
    assert pipelines_in(text) == [Pipeline(6, "readStream", options)]


def test_what_only_the_program_knows() -> None:
    text = """
servers = "a:1"
servers = "b:1"
def each(frame, batch):
    (frame.write.mode(how).format("kafka").option("kafka.bootstrap.servers", servers)
        .option("topic", f"t{batch}").options(**more()).save())
"""
    [found] = pipelines_in(text)
    assert found == Pipeline(
        5,
        "write",
        unknown=["kafka.bootstrap.servers", "topic"],
        mode_is_known=False,
        partial=True,
    )


def test_modes_and_formats_in_either_place() -> None:
    text = """
frame.write.save(format="kafka", mode="append", topic="a")
frame.writeStream.outputMode("update").format("pylog").option("topic", "a").option("topic", "b").start()
frame.writeStream.start(format="kafka", outputMode="complete", queryName="q")
spark.read.format("parquet").load("x")
spark.read.load("x")
frame.write.format("kafka").format("parquet").save("x")
nothing("kafka").format("kafka")
"""  # noqa: E501
    assert pipelines_in(text) == [
        Pipeline(2, "write", {"topic": "a"}, mode="append"),
        Pipeline(3, "writeStream", {"topic": "b"}, output_mode="update"),
        Pipeline(4, "writeStream", output_mode="complete"),
    ]


def test_a_dictionary_in_itself_ends() -> None:
    text = 'a = {**a, "topic": "t"}\nframe.write.format("kafka").options(**a).save()'
    assert pipelines_in(text) == [Pipeline(2, "write", {"topic": "t"}, partial=True)]
    text = 'a = b\nb = a\nframe.write.format("kafka").option("topic", a).save()'
    assert pipelines_in(text) == [Pipeline(3, "write", unknown=["topic"])]


@pytest.mark.parametrize("text", ["def", "\0", "(" * 5_000, "x = " + "-" * 200_000 + "1"])
def test_what_is_no_python_is_told(text: str) -> None:
    with pytest.raises(errors.InvalidConfig, match="this is no Python"):
        pipelines_in(text)
