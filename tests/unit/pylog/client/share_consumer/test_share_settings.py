"""The settings that a share consumer takes, and those that it refuses by name."""

from __future__ import annotations

from typing import Any

import pytest

from pylog import AcknowledgeType, Record, ShareConsumer, errors
from tests.fakes.fake_cluster import FakeCluster
from tests.unit.pylog.client.test_forked import in_child

WHERE = "127.0.0.1:1"


def made(**config: Any) -> ShareConsumer:
    return ShareConsumer(**{"bootstrap_servers": WHERE, "group_id": "g", **config})


@pytest.mark.parametrize("group", [None, "", 7, b"g"])
def test_a_group_is_needed(group: Any) -> None:
    with pytest.raises(errors.InvalidGroupId, match="a share group's name is a text"):
        made(group_id=group)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"share_acknowledgement_mode": "manual"}, "implicit, explicit"),
        ({"share_acquire_mode": "some"}, "batch_optimized, record_limit"),
        ({"max_poll_records": 0}, "max_poll_records"),
        ({"auto_offset_reset": "earliest"}, "set share.auto.offset.reset there"),
        ({"isolation_level": "read_committed"}, "set share.isolation.level there"),
        ({"enable_auto_commit": True}, "share groups have no such thing"),
        ({"group_instance_id": "i"}, "share groups have no such thing"),
        ({"max_pol_records": 1}, "max_poll_records"),
    ],
)
def test_settings_that_make_no_sense_are_named(config: dict[str, Any], words: str) -> None:
    with pytest.raises(errors.InvalidConfig, match=words):
        made(**config)


def test_wrong_calls_are_told_by_name() -> None:
    record = Record.of("t", 0, 1)
    with made(share_acknowledgement_mode="explicit") as consumer:
        with pytest.raises(errors.InvalidRequest, match="not subscribed to any topics"):
            consumer.poll(0)
        for topics in (7, [7], [""], ["a/b"]):
            with pytest.raises(errors.PylogError):
                consumer.subscribe(topics)  # type: ignore[arg-type]
        with pytest.raises(errors.InvalidRequest, match="give an AcknowledgeType"):
            consumer.acknowledge(record, 1)  # type: ignore[arg-type]
        with pytest.raises(errors.InvalidRequest, match="give a record of a poll"):
            consumer.acknowledge(b"r", AcknowledgeType.ACCEPT)  # type: ignore[arg-type]
        with pytest.raises(errors.InvalidRequest, match="t-0 at offset 1 cannot be acknowledged"):
            consumer.acknowledge(record)
        with pytest.raises(errors.InvalidRequest, match="give a callable"):
            consumer.set_acknowledgement_commit_callback(7)  # type: ignore[arg-type]
        with pytest.raises(errors.InvalidRequest, match="give a number of seconds"):
            consumer.commit(timeout="soon")  # type: ignore[arg-type]
        assert consumer.commit() == {}
        consumer.commit_async()
        assert consumer.subscription() == set()
        assert consumer.acquisition_lock_timeout_ms() is None
    with pytest.raises(errors.ClientClosed):
        consumer.subscription()


def test_acknowledging_is_for_the_explicit_mode() -> None:
    with made() as consumer, pytest.raises(errors.InvalidRequest, match="='explicit'"):
        consumer.acknowledge(Record.of("t", 0, 1))


def test_nobody_that_answers_is_told_in_time() -> None:
    with made(bootstrap_timeout_ms=300, default_api_timeout_ms=1_000) as consumer:
        consumer.subscribe("t")
        with pytest.raises(errors.BootstrapFailed):
            consumer.poll(10)


def test_a_forked_child_is_told_whose_the_consumer_is() -> None:
    with FakeCluster(1) as cluster, made(bootstrap_servers=cluster.bootstrap_servers) as consumer:

        def check() -> None:
            with pytest.raises(errors.ClientClosed, match="which forked this one"):
                consumer.poll(0)
            consumer.close()

        assert in_child(check) == 0
