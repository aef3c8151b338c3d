"""Tests of a pipeline with a real cluster, as they run in continuous integration.

`python -m pytest examples/test_pipeline.py`

pylog brings two fixtures, which pytest finds by itself: `pylog_cluster`, a running cluster of one
broker for the whole session, and `pylog_topic`, a new topic in it. Nothing is to be installed,
started or stopped besides, and a test has its topic for itself. The pipeline here counts words; put
your own in its place.
"""

from __future__ import annotations

from collections import Counter

from pylog import Consumer, LocalCluster, Producer
from pylog.testing import check_options


def count_words(bootstrap: str, topic: str, group: str) -> Counter[str]:
    """The pipeline under test: the words of the records that the group has not counted yet."""
    words: Counter[str] = Counter()
    with Consumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        for value in consumer.to_arrow()["value"].to_pylist():
            words.update(value.decode().split())
        consumer.commit()
    return words


def send(bootstrap: str, topic: str, *lines: str) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        for line in lines:
            producer.send(topic, line)


def test_words_are_counted(pylog_cluster: LocalCluster, pylog_topic: str) -> None:
    servers = pylog_cluster.bootstrap_servers
    send(servers, pylog_topic, "to be or", "not to be")
    assert count_words(servers, pylog_topic, "counted") == Counter(
        {"to": 2, "be": 2, "or": 1, "not": 1}
    )


def test_a_second_run_counts_what_is_new(pylog_cluster: LocalCluster, pylog_topic: str) -> None:
    servers = pylog_cluster.bootstrap_servers
    send(servers, pylog_topic, "one two")
    assert count_words(servers, pylog_topic, "again").total() == 2
    send(servers, pylog_topic, "three")
    assert count_words(servers, pylog_topic, "again") == Counter({"three": 1})


def test_a_broker_that_was_killed_has_kept_it(
    pylog_cluster: LocalCluster, pylog_topic: str
) -> None:
    servers = pylog_cluster.bootstrap_servers
    send(servers, pylog_topic, "kept")
    pylog_cluster.kill(1)
    pylog_cluster.start(1)
    assert count_words(servers, pylog_topic, "after") == Counter({"kept": 1})


def test_the_options_of_the_job_in_spark_are_taken() -> None:
    options = {"pylog.bootstrap.servers": "broker:9092", "subscribe": "lines", "minPartitions": 4}
    refused = [one for one in check_options(options) if one.becomes.value == "refused"]
    assert refused == []
