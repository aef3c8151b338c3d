"""A console over a cluster in this process, which asks when a test says so."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from pylog import Producer
from pylog.console.app import build_app
from pylog.console.hub import Hub, clients_of
from pylog.console.options import ConsoleOptions
from pylog.console.polling import ASKS, Knowledge, Poller
from tests.fakes.asgi_browser import AsgiBrowser
from tests.fakes.fake_cluster import FakeCluster


class World:
    """A cluster, the console's browser, and its poller without threads."""

    def __init__(self, cluster: FakeCluster, browser: AsgiBrowser, hub: Hub, poller: Poller):
        self.cluster = cluster
        self.browser = browser
        self.hub = hub
        self.poller = poller

    def learn(self, *parts: str) -> None:
        for part in parts or ASKS:
            self.poller.ask(part)

    def produce(self, topic: str, *values: bytes | None, **more: Any) -> None:
        with Producer(bootstrap_servers=self.cluster.bootstrap_servers) as producer:
            for value in values:
                producer.send(topic, value, **more)

    @property
    def token(self) -> dict[str, str]:
        return {"token": self.hub.token.text}


Open = Callable[..., World]


@pytest.fixture
def open_world() -> Iterator[Open]:
    with ExitStack() as stack:

        def make(*, brokers: int = 2, **options: Any) -> World:
            cluster = stack.enter_context(FakeCluster(brokers))
            client = {
                "bootstrap_servers": cluster.bootstrap_servers, "default_api_timeout_ms": 5_000,
            }  # fmt: skip
            made = ConsoleOptions(client, **options)
            clients = clients_of(made)
            stack.callback(clients.admin.close)
            knowledge = Knowledge()
            hubs: list[Hub] = []

            def build() -> Any:
                hubs.append(Hub(made, clients, knowledge))
                return build_app(hubs[0])

            browser = stack.enter_context(AsgiBrowser(build))
            return World(cluster, browser, hubs[0], Poller(clients.admin, knowledge))

        yield make


@pytest.fixture
def world(open_world: Open) -> World:
    return open_world()


@pytest.fixture
def writable(open_world: Open) -> World:
    return open_world(allow_writes=True)
