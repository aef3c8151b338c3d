"""Clients in a forked child, which has none of their threads: named errors, and nothing waits."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable

import pytest

from pylog import AdminClient, Consumer, Producer, errors
from tests.fakes.fake_cluster import FakeCluster

FAILED, FINE = 1, 0


def in_child(check: Callable[[], None]) -> int:
    """How the check ended in a forked child."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # this process has threads
        child = os.fork()
    if not child:
        status = FAILED
        try:
            check()
            status = FINE
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_clients_of_a_parent_are_refused_in_its_child() -> None:
    with FakeCluster(1) as cluster:
        cluster.create_topic("t")
        where = cluster.bootstrap_servers
        with (
            Producer(bootstrap_servers=where) as producer,
            Consumer("t", bootstrap_servers=where, auto_offset_reset="earliest") as consumer,
            AdminClient(bootstrap_servers=where) as admin,
        ):
            producer.send("t", b"x").result(30)
            assert len(consumer.poll(30)) == 1
            assert admin.list_topics() == ["t"]

            def check() -> None:
                for call in (
                    lambda: producer.send("t", b"y"),
                    lambda: producer.send("new", b"y"),
                    producer.flush,
                    lambda: consumer.poll(0),
                    consumer.assignment,
                    admin.list_topics,
                ):
                    with pytest.raises(errors.ClientClosed, match="which forked this one"):
                        call()
                for client in (producer, consumer, admin):
                    client.close()

            assert in_child(check) == FINE
            producer.send("t", b"z").result(30)  # the parent's go on
            assert [r.value for r in consumer.poll(30)] == [b"z"]


@pytest.mark.parametrize("kind", [Producer, Consumer, AdminClient])
def test_clients_show_where_they_belong_to(kind: type[Producer | Consumer | AdminClient]) -> None:
    client = kind(bootstrap_servers="somewhere:9092")
    assert repr(client) == f"<{kind.__name__} somewhere:9092>"
    client.close()
    assert repr(client) == f"<{kind.__name__} somewhere:9092 closed>"
