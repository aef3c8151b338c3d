"""The state that all pages share: the snapshot, the clients, and limits on concurrent work."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pylog import errors
from pylog.clock import SYSTEM_CLOCK, Clock
from pylog.console.avro import AvroError, Schema
from pylog.console.guard import Token
from pylog.console.options import READS_MAX, TAILS_MAX, VIEWERS_MAX, ConsoleOptions
from pylog.console.polling import Knowledge

if TYPE_CHECKING:
    from pylog.client.admin.admin import AdminClient
    from pylog.client.consumer.async_consumer import AsyncConsumer
    from pylog.client.consumer.consumer import Consumer
    from pylog.client.producer.producer import Producer

T = TypeVar("T")
CALLS_MAX: Final = 8
"""Questions to the cluster at the same time, for pages that need more than the poller asks."""
WAIT_SECONDS: Final = 5.0
"""For others to be through."""


@dataclass(slots=True)
class Clients:
    """The ways in which pages get a client; tests give fakes."""

    admin: AdminClient
    open_consumer: Callable[..., Consumer]
    open_async_consumer: Callable[..., AsyncConsumer]
    open_producer: Callable[..., Producer]


def clients_of(options: ConsoleOptions) -> Clients:
    """Clients for the cluster; the administrator is made at once."""
    from pylog.client.admin.admin import AdminClient
    from pylog.client.consumer.async_consumer import AsyncConsumer
    from pylog.client.consumer.consumer import Consumer
    from pylog.client.producer.producer import Producer

    def with_client(kind: Callable[..., T]) -> Callable[..., T]:
        return lambda *args, **kwargs: kind(*args, **{**options.client, **kwargs})

    return Clients(
        AdminClient(**options.client),
        with_client(Consumer),
        with_client(AsyncConsumer),
        with_client(Producer),
    )


class Places:
    """A number of places, of which each user takes one."""

    def __init__(self, what: str, most: int) -> None:
        self._what = what
        self._most = most
        self.taken = 0

    @property
    def are_taken(self) -> bool:
        """Whether there is none left."""
        return self.taken >= self._most

    @contextmanager
    def one(self) -> Iterator[None]:
        """A place, to the end of the block. ThrottlingQuotaExceeded while there is none."""
        if self.are_taken:
            raise errors.ThrottlingQuotaExceeded(
                f"there are {self.taken} {self._what}, which is the most; close one of them"
            )
        self.taken += 1
        try:
            yield
        finally:
            self.taken -= 1


class Hub:
    """Owned by the server's loop; the poller's threads call `on_change` alone."""

    def __init__(
        self,
        options: ConsoleOptions,
        clients: Clients,
        knowledge: Knowledge,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.options = options
        self.clients = clients
        self.knowledge = knowledge
        self.clock = clock
        self.token = Token()
        self.touch: Callable[[], None] = lambda: None
        """Tells the poller that somebody looks."""
        self.viewers = Places("open pages that are kept up to date", VIEWERS_MAX)
        self.tails = Places("topics that are followed", TAILS_MAX)
        self.stopping = asyncio.Event()
        self.schemas = {topic: _schema(topic, text) for topic, text in options.schemas.items()}
        self._changed = asyncio.Event()
        self._reads = asyncio.Semaphore(READS_MAX)
        self._calls = asyncio.Semaphore(CALLS_MAX)
        self._threads = ThreadPoolExecutor(READS_MAX + CALLS_MAX, "console")

    def listen(self) -> None:
        """Have viewers learn of changes, on the loop that runs."""
        loop = asyncio.get_running_loop()

        def tell() -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._tell)

        self.knowledge.on_change = tell

    def _tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def changed(self, timeout_s: float) -> bool:
        """True when something became known, False after `timeout_s`."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._changed.wait()
        except TimeoutError:
            return False
        return True

    async def rest(self, seconds: float) -> None:
        """Return after so long, or when the console stops."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.stopping.wait()

    async def ask(self, call: Callable[[], T]) -> T:
        """The result of a blocking question to the cluster. ThrottlingQuotaExceeded while too many
        are under way.
        """
        return await self._elsewhere(call, self._calls)

    async def read(self, call: Callable[[], T]) -> T:
        """The result of a blocking read of a topic."""
        return await self._elsewhere(call, self._reads)

    def close(self) -> None:
        """Take no more questions; those that are under way end by their own time."""
        self.knowledge.on_change = lambda: None
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _elsewhere(self, call: Callable[[], T], places: asyncio.Semaphore) -> T:
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                await places.acquire()
        except TimeoutError:
            raise errors.ThrottlingQuotaExceeded(
                "as many pages as may ask the cluster at the same time do so already; try again "
                "when one of them is through"
            ) from None
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, call)
        finally:
            places.release()


def _schema(topic: str, text: str) -> Any:
    try:
        return Schema(text)
    except AvroError as error:
        raise errors.InvalidConfig(f"the Avro schema of {topic}: {error}") from None
