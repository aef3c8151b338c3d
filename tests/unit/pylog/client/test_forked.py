"""Clients in a forked child, which has none of their threads: named errors, and nothing waits.
Programs that the parent starts do start.
"""

from __future__ import annotations

import asyncio
import copy
import os
import pickle
import subprocess
import sys
import warnings
from collections.abc import Callable
from typing import Any

import pytest

from pylog import AdminClient, Consumer, Producer, errors
from pylog.aio import AsyncAdminClient, AsyncConsumer, AsyncProducer
from tests.fakes.fake_cluster import FakeCluster

FAILED, FINE = 1, 0
PROGRAMS = """
import os, subprocess, sys
from pylog import Producer

with Producer(bootstrap_servers=sys.argv[1:]) as producer:
    producer.send("t", b"x").result(30)
    print({subprocess.run(["true"], preexec_fn=os.getpid).returncode for _ in range(100)})
"""


def in_child(check: Callable[[], None]) -> int:
    """The exit status of the check in a forked child."""
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

            made = cluster.streams[1].connections, cluster.streams[1].call_connections
            assert in_child(check) == FINE
            producer.send("t", b"z").result(30)  # the parent's go on
            assert [r.value for r in consumer.poll(30)] == [b"z"]
            assert admin.list_topics() == ["t"]
            assert made == (cluster.streams[1].connections, cluster.streams[1].call_connections)


@pytest.mark.parametrize("kind", [Producer, Consumer, AdminClient])
def test_a_child_is_refused_clients_where_its_parent_has_had_one(
    kind: type[Producer | Consumer | AdminClient],
) -> None:
    AdminClient(bootstrap_servers="somewhere:9092").close()

    def check() -> None:
        with pytest.raises(errors.ForkedProcess, match=r"start it by .*spawn"):
            kind(bootstrap_servers="somewhere:9092")

    assert in_child(check) == FINE


def test_programs_start_while_clients_live() -> None:
    """As PySpark starts its Java gateway: by fork, with Python run before the program."""
    with FakeCluster(1) as cluster:
        cluster.create_topic("t")
        done = subprocess.run(
            [sys.executable, "-c", PROGRAMS, *cluster.bootstrap_servers],
            capture_output=True,
            text=True,
            check=False,
        )
    assert (done.stdout, done.stderr) == ("{0}\n", "")


@pytest.mark.parametrize("kind", [Producer, Consumer, AdminClient])
def test_clients_stay_in_their_process(kind: type[Producer | Consumer | AdminClient]) -> None:
    """As multiprocessing and Spark's functions would take one along."""
    with kind(bootstrap_servers="somewhere:9092") as client:
        words = rf"cannot pickle <{kind.__name__} somewhere:9092>.* make a {kind.__name__} in the"
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            with pytest.raises(TypeError, match=words):
                pickle.dumps({"client": client}, protocol)


@pytest.mark.parametrize("kind", [Producer, Consumer, AdminClient])
def test_clients_show_where_they_belong_to(kind: type[Producer | Consumer | AdminClient]) -> None:
    client = kind(bootstrap_servers="somewhere:9092")
    assert repr(client) == f"<{kind.__name__} somewhere:9092>"
    client.close()
    assert repr(client) == f"<{kind.__name__} somewhere:9092 closed>"


@pytest.mark.parametrize("kind", [AsyncProducer, AsyncConsumer, AsyncAdminClient])
def test_their_twins_do_the_same(kind: Any) -> None:
    async def use() -> None:
        async with kind(bootstrap_servers="somewhere:9092") as client:
            assert repr(client) == f"<{kind.__name__} somewhere:9092>"
            for copies in (pickle.dumps, copy.copy, copy.deepcopy):
                with pytest.raises(TypeError, match=f"cannot pickle <{kind.__name__} somewhere"):
                    copies(client)
        assert repr(client) == f"<{kind.__name__} somewhere:9092 closed>"

    asyncio.run(use())
