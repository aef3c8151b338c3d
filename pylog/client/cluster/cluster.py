"""A client's connections: channels by address, bootstrap, and metadata kept fresh.

Everything here belongs to the loop; other threads come in by `LoopThread.run` or `.call`. The
`metadata` may be read from any thread: its values are frozen and replaced as a whole.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import Any, Final, TypeVar

from pylog import errors
from pylog.client.background import LoopThread, logger
from pylog.client.cluster.cluster_settings import ClusterSettings
from pylog.client.cluster.denials import Denial, confirm, controller_of, denied_in
from pylog.client.cluster.framed_calls import FramedCalls
from pylog.client.cluster.framed_ports import FramedPorts, StreamWay
from pylog.client.cluster.metadata import (
    Address,
    BrokerInfo,
    ClusterMetadata,
    TopicInfo,
    addresses_to_ask,
)
from pylog.client.cluster.server import Server
from pylog.client.cluster.wire import metadata_request, snapshot_of
from pylog.clock import SYSTEM_CLOCK, Clock
from pylog.rpc import apis, streams
from pylog.rpc.channel import connected_within, idle_at_most, reconnecting
from pylog.rpc.v1 import log_pb2, stream_pb2

ASK_NEXT_AFTER_S: Final = 0.3
"""One address that swallows packets must not hold up the others."""
METADATA_ANSWER_S_MAX: Final = 10.0
WHOLE_ATTEMPT_S: Final = 0.1
"""An attempt that had less time, because a deadline was near, says less than the one before it."""

T = TypeVar("T")


class Cluster:
    """Keeps `metadata` fresh and tells `on_change` after each refresh, on the loop."""

    def __init__(
        self,
        thread: LoopThread,
        settings: ClusterSettings,
        *,
        clock: Clock = SYSTEM_CLOCK,
        rng: random.Random | None = None,
        on_change: Callable[[list[TopicInfo]], None] | None = None,
    ) -> None:
        self.thread = thread
        self.settings = settings
        self.clock = clock
        self.rng = rng or random.Random()
        self.metadata = ClusterMetadata()
        self.topics: dict[str, None] = {}
        """Topics that this client uses; each refresh asks for all of them."""
        self.all_topics = False
        """Whether refreshes ask for every topic of the cluster (a subscription by pattern)."""
        self.faults: dict[Address, str] = {}
        """The error with which each address answered last."""
        self.denied: dict[str, Denial] = {}
        """Topics that the cluster does not know."""
        self.gave_up: errors.PylogError | None = None
        """No address could be reached within `bootstrap.timeout.ms`, or the answer is too large;
        until one answers."""
        self._unreached_since_ms: int | None = None
        """The time since when addresses are tried of which none has answered yet."""
        self._strangers: dict[str, int] = {}
        """Topics that are in `topics` only because so many calls ask for them."""
        self._told: tuple[str, int, int] | None = None
        """The most that a server knew that answered; only of calls that go forward."""
        self._on_change = on_change
        self._servers: dict[tuple[Address, int | None], Server] = {}
        self._gateway: Address | None = None  # that answered last; only with routing by gateway
        self._wanted: asyncio.Event | None = None
        self._news: asyncio.Event | None = None  # a topic that nobody has asked for yet
        self._task: asyncio.Task[None] | None = None
        self._waiters: list[asyncio.Future[None]] = []  # for a refresh that has not begun yet
        self._first_waiters: list[asyncio.Future[None]] = []  # for the first answer at all
        self._asking = False  # a refresh is under way
        self._closing: set[asyncio.Task[None]] = set()
        self._closed = False
        self._ports = FramedPorts(
            settings.reconnect_backoff_ms,
            settings.reconnect_backoff_max_ms,
            settings.setup_timeout_ms,
            settings.setup_timeout_max_ms,
        )

    # ---- servers ------------------------------------------------------------------------------

    def server(self, address: Address) -> Server:
        """The server at an address; its channel connects at the first call."""
        return self._server(address, None)

    def _server(self, address: Address, broker: int | None) -> Server:
        server = self._servers.get((address, broker))
        if server is None:
            if self._closed:  # a call that waited to be tried again
                raise errors.ClientClosed("the client is closed")
            settings = self.settings
            options = [
                *reconnecting(settings.reconnect_backoff_ms, settings.reconnect_backoff_max_ms),
                *idle_at_most(settings.connections_max_idle_ms),
                *connected_within(min(settings.setup_timeout_ms, settings.setup_timeout_max_ms)),
            ]
            server = self._servers[address, broker] = Server(address, broker, options)
        return server

    def broker(self, broker: int) -> Server | None:
        """A live broker's server, None when metadata does not have it."""
        info = self.metadata.brokers.get(broker)
        return self.server_of(info) if info is not None else None

    def server_of(self, broker: BrokerInfo) -> Server:
        """The way to a broker that metadata told of."""
        if self.settings.by_gateway:
            assert self._gateway is not None, "who told of the broker?"
            return self._server(self._gateway, broker.id)
        server = self.server(broker.address)
        before = server.framed
        if self.settings.framed and (before is None or before.broker != broker.id):
            idle_s = self.settings.connections_max_idle_ms / 1000
            server.framed = FramedCalls(broker.id, self, str(server), idle_s)
            if before is not None:
                self._let_go(before.close("another broker is there by now"))
        return server

    def _server_at(self, address: Address) -> Server:
        """The server at an address that metadata may have told of."""
        if not self.settings.by_gateway:
            for broker in self.metadata.brokers.values():
                if broker.address == address:
                    return self.server_of(broker)
        return self.server(address)

    def _let_go(self, closing: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(closing)
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def stream_way(self, broker: int, kind: stream_pb2.StreamKind) -> StreamWay | None:
        """The way to the broker's framed port; None when the broker is to be used over gRPC."""
        info = self.metadata.brokers.get(broker)
        if info is None or info.stream is None:
            return None
        if self.settings.by_gateway or not self.settings.framed:
            return None
        port = info.stream, info.epoch
        if self._ports.is_let_be(port, self.clock.monotonic_ms()):
            return None
        cluster, client = self.metadata.cluster_id, self.settings.client_id
        hello = streams.hello(kind, cluster, broker, client)
        connect_s = self._ports.connect_ms(port, self.rng.random()) / 1000
        return StreamWay(broker, info.epoch, info.stream, hello, connect_s)

    def stream_refused(self, way: StreamWay, reason: str) -> None:
        """The broker answers over gRPC, but its framed port cannot be had."""
        if self._ports.let_be(way.port, self.clock.monotonic_ms()):
            logger.warning(
                "broker %d is used over gRPC, which costs more processor time, because its stream "
                "port %s cannot be used: %s. Open the port, or set client_transport='grpc'",
                way.broker,
                way.address,
                reason,
            )

    def stream_rest_s(self, way: StreamWay) -> float:
        """The seconds to wait before the framed port is tried (`reconnect.backoff.ms`)."""
        return self._ports.rest_ms(way.port, self.clock.monotonic_ms()) / 1000

    def stream_broke(self, way: StreamWay) -> None:
        """An attempt to connect failed, or a connection broke."""
        self._ports.broke(way.port, self.clock.monotonic_ms(), self.rng.random())

    def stream_opened(self, way: StreamWay) -> None:
        """The framed port answered the greeting."""
        self._ports.greeted(way.port)

    def gateway(self) -> Server | None:
        """The server for administration; None when no server has named it."""
        address = self._gateway if self.settings.by_gateway else self.metadata.controller
        return self.server(address) if address is not None else None

    def start(self) -> None:
        """Begin to keep metadata fresh. On the loop."""
        if self._task is None and not self._closed:
            self._wanted, self._news = asyncio.Event(), asyncio.Event()
            self._task = asyncio.ensure_future(self._keep_fresh())

    async def close(self) -> None:
        """End the refreshing and close all channels."""
        self._closed = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        for waiter in (*self._waiters, *self._first_waiters):
            waiter.cancel()
        for server in self._servers.values():
            await server.close()
        self._servers.clear()
        await asyncio.gather(*self._closing, return_exceptions=True)

    # ---- metadata -----------------------------------------------------------------------------

    def refresh_soon(self, *topics: str) -> None:
        """Have metadata refreshed, with these topics from now on: at once where one of them has not
        been asked for yet.
        """
        is_news = not self.topics.keys() >= set(topics)
        self.topics.update(dict.fromkeys(topics))
        self.start()
        if self._wanted is not None:
            self._wanted.set()
        if is_news and self._news is not None:
            self._news.set()

    async def refresh(self, *topics: str) -> None:
        """Wait for one refresh that begins from now on; the caller bounds the time."""
        waiter = self._waits_in(self._waiters)
        self.refresh_soon(*topics)
        await waiter

    def _waits_in(self, waiters: list[asyncio.Future[None]]) -> asyncio.Future[None]:
        if self._closed:
            raise errors.ClientClosed("the client is closed")
        if not self._waiters and not self._first_waiters:
            self._unreached_since_ms = None  # a caller that begins to wait has the whole time
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiters.append(waiter)
        return waiter

    async def topic(self, name: str, timeout_ms: int) -> TopicInfo:
        """The topic as the cluster knows it.

        UnknownTopicOrPartition when the cluster denies it, BootstrapFailed when nobody answers; in
        both cases one that was not used before is forgotten, and not asked for again.
        """
        with self.asking(name):
            known = await self._topic(name, timeout_ms)
            self._strangers.pop(name, None)  # it is used from now on
            return known

    @contextlib.contextmanager
    def asking(self, name: str) -> Iterator[None]:
        """Keep the answers about a topic during a call, a denial above all; afterwards they are
        forgotten unless the topic turned out to exist.
        """
        if name not in self.topics:
            self._strangers.setdefault(name, 0)
        if name in self._strangers:
            self._strangers[name] += 1
        try:
            yield
        finally:
            if name in self._strangers:
                self._strangers[name] -= 1
                if not self._strangers[name]:
                    del self._strangers[name]
                    self.topics.pop(name, None)
                    self.denied.pop(name, None)

    async def _topic(self, name: str, timeout_ms: int) -> TopicInfo:
        deadline = self.clock.monotonic_ms() + timeout_ms
        asked = False  # what was denied before this call may have been created since
        while True:
            known = self.metadata.topics.get(name)
            if known is not None and name not in self.denied:
                return known
            denial = self.denied.get(name)
            if asked and denial is not None and denial.counts(timeout_ms):
                raise denial.error
            left_s = (deadline - self.clock.monotonic_ms()) / 1000
            try:
                async with asyncio.timeout(max(left_s, 0)):
                    await self.refresh(name)
                asked = True
            except TimeoutError:
                if name in self.denied:
                    raise self.denied[name].error from None
                raise self.unreachable(timeout_ms) from None

    async def connected(self, timeout_ms: int) -> None:
        """Return once any server answered; BootstrapFailed names each address and its fault."""
        if self.metadata.version:
            return
        waiter = self._waits_in(self._first_waiters)
        if not self._asking:
            self.refresh_soon()
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await waiter
        except TimeoutError:
            raise self.unreachable(timeout_ms) from None

    def unreachable(self, waited_ms: int) -> errors.BootstrapFailed:
        """No server answered for this long."""
        asked = dict.fromkeys([*self.settings.bootstrap, *self.faults])
        faults = "; ".join(f"{a}: {self.faults.get(a, 'no answer yet')}" for a in asked)
        return errors.BootstrapFailed(
            f"no server answered within {waited_ms / 1000:.3g} s: {faults}. Check "
            f"bootstrap_servers, and that the cluster runs"
        )

    async def _keep_fresh(self) -> None:
        assert self._wanted is not None
        assert self._news is not None
        failures = 0
        while not self._closed:
            if not failures:
                max_age_s = self.settings.metadata_max_age_ms / 1000
                # Not wait_for: before Python 3.12 it swallows a cancellation that comes together
                # with what it waits for, and `close` would wait for this task for ever.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(max_age_s):
                        await self._wanted.wait()
            self._wanted.clear()
            self._news.clear()
            waiters, self._waiters = self._waiters, []
            is_first, self._asking = not self.metadata.version, True
            try:
                if self._unreached_since_ms is None:
                    self._unreached_since_ms = self.clock.monotonic_ms()
                request = metadata_request(tuple(self.topics), all_topics=self.all_topics)
                response, sure = await self.ask_surely(request)
                self._learn(response, sure, all_topics=request.all_topics)
                self._unreached_since_ms = self.gave_up = None
            except BaseException as error:
                self._waiters = waiters + self._waiters  # for the next attempt, or for `close`
                self._asking = False
                if not isinstance(error, Exception):
                    raise
                failures += 1
                if isinstance(error, errors.MessageTooLarge):
                    self._tell_too_large(error, is_news=failures == 1)
                elif not isinstance(error, errors.BootstrapFailed):
                    logger.error("metadata could not be refreshed", exc_info=error)
                pause_s = self.settings.backoff_s(failures, self.rng.random())
                if not self.metadata.version:
                    pause_s = min(pause_s, self._bootstrap_left_s() or self._give_up())
                await asyncio.sleep(pause_s)
                continue
            failures = 0
            self._asking = False
            waiters, self._first_waiters = [*waiters, *self._first_waiters], []
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)
            if is_first:
                continue  # a client that begins asks for its topics next
            # A broken leader makes many ask at once, and again until the next one is elected. A
            # topic that nobody has asked for yet need not wait for that.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.settings.backoff_s(1, self.rng.random())):
                    await self._news.wait()

    def _bootstrap_left_s(self) -> float:
        """The seconds for which the bootstrap addresses may still give no answer; infinity once one
        has answered."""
        if self.metadata.version or self._unreached_since_ms is None:
            return math.inf
        waited_ms = self.clock.monotonic_ms() - self._unreached_since_ms
        return max(self.settings.bootstrap_timeout_ms - waited_ms, 0) / 1000

    def _give_up(self) -> float:
        """No address has answered in time: the calls that wait fail. A call that comes later waits
        anew, for whom the addresses are tried as before.
        """
        limit_ms = self.settings.bootstrap_timeout_ms
        self.gave_up = self.unreachable(limit_ms)
        self._unreached_since_ms = None
        self._tell_waiters(lambda: self.unreachable(limit_ms))
        return math.inf

    def _tell_too_large(self, error: errors.MessageTooLarge, *, is_news: bool) -> None:
        """Report metadata that no longer fit into an answer: they may again with fewer topics."""
        if is_news:
            logger.error("metadata could not be refreshed: %s", error)
        self.gave_up = error
        self._tell_waiters(lambda: errors.MessageTooLarge(str(error)))

    def _tell_waiters(self, fault: Callable[[], errors.PylogError]) -> None:
        """Each has an exception of its own, to raise it."""
        waiters = [*self._waiters, *self._first_waiters]
        self._waiters, self._first_waiters = [], []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_exception(fault())

    def _learn(
        self,
        response: log_pb2.MetadataResponse,
        sure: frozenset[str] = frozenset(),
        *,
        all_topics: bool,
    ) -> None:
        snapshot = snapshot_of(response)
        faulty = self.metadata.update(snapshot)
        now_ms = self.clock.monotonic_ms()
        for topic in snapshot.topics:
            if topic.error is None:
                self.denied.pop(topic.name, None)
            else:
                self._deny(topic.name, topic.error, now_ms, sure=topic.name in sure)
        if all_topics:
            for name in self.metadata.topics.keys() - {topic.name for topic in snapshot.topics}:
                missing = errors.UnknownTopicOrPartition(f"topic {name} does not exist")
                self._deny(name, missing, now_ms, sure=False)
        if not all(self.denied[name].counts() for name in self.denied.keys() & self.topics.keys()):
            self.refresh_soon()  # until it is known
        brokers = self.metadata.brokers.values()
        self._ports.keep((b.stream, b.epoch) for b in brokers if b.stream is not None)
        live = self._live()
        for key in [k for k, s in self._servers.items() if k not in live and not s.is_used]:
            self._let_go(self._servers.pop(key).close())
        if self._on_change is not None:
            try:
                self._on_change(faulty)
            except Exception:  # noqa: BLE001  refreshing must go on
                logger.exception("a metadata change could not be applied")

    def _deny(self, name: str, error: errors.PylogError, now_ms: int, *, sure: bool) -> None:
        before = self.denied.get(name)
        since_ms, was_sure = (now_ms, False) if before is None else (before.since_ms, before.sure)
        self.denied[name] = Denial(since_ms, now_ms, error.about(name), was_sure or sure)

    def _live(self) -> set[tuple[Address, int | None]]:
        """The servers that this client may need again."""
        live: set[tuple[Address, int | None]] = {(a, None) for a in self.settings.bootstrap}
        if self.settings.by_gateway and self._gateway is not None:
            live.update((self._gateway, broker) for broker in self.metadata.brokers)
            return live
        live.update((broker.address, None) for broker in self.metadata.brokers.values())
        if self.metadata.controller is not None:
            live.add((self.metadata.controller, None))
        return live

    async def ask_surely(
        self, request: log_pb2.MetadataRequest, *, forward: bool = False
    ) -> tuple[log_pb2.MetadataResponse, frozenset[str]]:
        """As `ask_any`; and the topics that are new to this client and for sure do not exist."""
        response = await self.ask_any(request, forward=forward)
        denied = denied_in(response, self.metadata.topics)
        if response.gateway:
            return response, frozenset(denied)
        doubtful = [n for n in denied if n not in self.denied or not self.denied[n].sure]
        gateway = controller_of(response)
        if not doubtful or gateway is None:
            return response, frozenset()
        return response, await confirm(response, doubtful, self.server(gateway))

    async def ask_any(
        self, request: log_pb2.MetadataRequest, *, forward: bool = False
    ) -> log_pb2.MetadataResponse:
        """The first answer of any server; BootstrapFailed when all refused, MessageTooLarge when
        one of them because of a size, which is the same for all.

        `forward`: a server that knows less than the one that answered before, as a broker does that
        was cut off, is believed only when no other answers within 0.3 s.
        """
        load = {address: server.load for (address, _), server in self._servers.items()}
        shuffle: Callable[[list[Address]], None] = self.rng.shuffle
        known = ClusterMetadata() if self.settings.by_gateway else self.metadata
        addresses = addresses_to_ask(known, self.settings.bootstrap, load, shuffle)
        request_s = self.settings.request_timeout_ms / 1000
        timeout_s = min(request_s, METADATA_ANSWER_S_MAX, self._bootstrap_left_s())
        asked: dict[asyncio.Task[log_pb2.MetadataResponse], Address] = {}
        self.faults = {a: f for a, f in self.faults.items() if a in addresses}
        too_large: BaseException | None = None
        behind: log_pb2.MetadataResponse | None = None
        try:
            remaining = iter(addresses)
            address = next(remaining, None)
            while True:
                if address is not None:
                    server = self._server_at(address)
                    asked[asyncio.ensure_future(self._ask(server, request, timeout_s))] = address
                address = next(remaining, None)
                is_waited_for = address is None and behind is None
                done, _ = await asyncio.wait(
                    asked,
                    timeout=None if is_waited_for else ASK_NEXT_AFTER_S,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                for task in done:
                    asker = asked.pop(task)
                    if task.exception() is None:
                        self.faults.pop(asker, None)
                        answer = task.result()
                        if not forward:
                            return answer
                        if not self._is_behind(answer):
                            self._told = _what_is_known(answer)
                            return answer
                        if behind is None or _what_is_known(behind) < _what_is_known(answer):
                            behind = answer
                        continue
                    if timeout_s >= WHOLE_ATTEMPT_S or asker not in self.faults:
                        self.faults[asker] = str(task.exception()).removeprefix(f"{asker}: ")
                    if isinstance(task.exception(), errors.MessageTooLarge):
                        too_large = task.exception()
                if address is None and behind is not None and not (asked and done):
                    self._told = _what_is_known(behind)
                    return behind
                if not asked and address is None:
                    if too_large is not None:
                        raise too_large
                    raise self.unreachable(round(timeout_s * 1000))
        finally:
            for task in asked:
                task.cancel()

    def _is_behind(self, answer: log_pb2.MetadataResponse) -> bool:
        """Whether this client was told by a server that knew more."""
        known = _what_is_known(answer)
        return self._told is not None and self._told[0] == known[0] and known < self._told

    async def _ask(
        self, server: Server, request: log_pb2.MetadataRequest, timeout_s: float
    ) -> log_pb2.MetadataResponse:
        response = await server.call(apis.METADATA, request, timeout_s)
        if self.settings.by_gateway:
            if not response.gateway:
                raise errors.BrokerUnreachable(
                    f"{server.address}: it is a broker and not the gateway, which client.routing="
                    "gateway asks for"
                )
            self._gateway = server.address
        return response

    # ---- calls with retries -------------------------------------------------------------------

    async def retrying(
        self, attempt: Callable[[float], Awaitable[T]], timeout_ms: int, what: str
    ) -> T:
        """Run `attempt(seconds left)` until it succeeds; retriable errors are tried again, with
        metadata refreshed where they ask for it. RequestTimedOut names `what` and the last fault.
        """
        deadline = self.clock.monotonic_ms() + timeout_ms
        attempts, last = 0, ""
        late = f"{what}: not done within {timeout_ms / 1000:.3g} s"
        await self.connected(timeout_ms)
        while True:
            attempts += 1
            left_s = (deadline - self.clock.monotonic_ms()) / 1000
            try:
                try_s = max(min(left_s, self.settings.request_timeout_ms / 1000), 0.001)
                async with asyncio.timeout(max(left_s, 0.001)):
                    return await attempt(try_s)
            except TimeoutError:
                told = "".join(f"; {a}: {fault}" for a, fault in self.faults.items())
                raise errors.RequestTimedOut(f"{late}{last}{told}") from None
            except errors.PylogError as error:
                if not error.retriable:
                    raise
                last = f"; last fault: {error.name}: {error}"
                wait_s = self.settings.backoff_s(attempts, self.rng.random())
                if self.clock.monotonic_ms() + wait_s * 1000 >= deadline:
                    if type(error) is errors.BootstrapFailed:
                        raise self.unreachable(timeout_ms) from None
                    raise errors.RequestTimedOut(f"{late}{last}") from error
                if error.refreshes_metadata:
                    self.refresh_soon()
                await asyncio.sleep(wait_s)


def _what_is_known(answer: log_pb2.MetadataResponse) -> tuple[str, int, int]:
    """The answerer's place in the history of its cluster's metadata."""
    return answer.cluster_id, answer.controller_epoch, answer.metadata_offset
