"""Processes of the simulation, and requests from one to another.

An `Actor` is one life of a process on a machine: what reaches it after its death is lost, what
reaches it while the machine is paused waits. An `Rpc` is one connection with requests and answers;
an answer of None means that its outcome is unknown. A `unary` call has no connection: it may be
lost, late or doubled both ways, the caller hears one answer or None.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.sim.net import Deliver, Net
from tests.sim.scheduler import US_PER_MS, Scheduler


class Machine:
    """The home of processes: it may be paused, and its clock began at some time of its own."""

    def __init__(self, name: str, scheduler: Scheduler, clock_offset_ms: int) -> None:
        self.name = name
        self.scheduler = scheduler
        self.paused = False
        self._clock_offset_ms = clock_offset_ms
        self._waiting: list[tuple[Actor, Callable[..., None], tuple[Any, ...]]] = []

    def now_ms(self) -> int:
        """The machine's monotonic clock."""
        return self._clock_offset_ms + self.scheduler.now_us // US_PER_MS

    def pause(self) -> None:
        """SIGSTOP: what arrives from now on waits."""
        self.paused = True

    def resume(self) -> None:
        """SIGCONT."""
        self.paused = False
        waiting, self._waiting = self._waiting, []
        for actor, fn, args in waiting:
            actor.hear(fn, *args)

    def defer(self, actor: Actor, fn: Callable[..., None], args: tuple[Any, ...]) -> None:
        """Run it when the machine goes on."""
        self._waiting.append((actor, fn, args))


class Actor:
    """One life of a process."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.alive = True

    @property
    def name(self) -> str:
        """Its address."""
        return self.machine.name

    def hear(self, fn: Callable[..., None], *args: Any) -> None:
        """Something happens to this process."""
        if not self.alive:
            return
        if self.machine.paused:
            self.machine.defer(self, fn, args)
        else:
            self.run(fn, *args)

    def run(self, fn: Callable[..., None], *args: Any) -> None:
        """One step of this process; subclasses check invariants around it."""
        fn(*args)

    def timer(self, delay_ms: float, fn: Callable[..., None], *args: Any) -> None:
        """Call `fn` in this process after a while."""
        self.machine.scheduler.after(int(delay_ms * US_PER_MS), self.hear, fn, *args)

    def cancelled(self, call: Call) -> None:
        """The caller of a request that is still open has gone away."""


class Call:
    """A request at its server: answer it once, or be told that nobody waits any more."""

    __slots__ = ("_rpc", "number", "open", "value")

    def __init__(self, rpc: Rpc, number: int, value: object) -> None:
        self._rpc = rpc
        self.number = number
        self.value = value
        self.open = True

    def answer(self, value: object) -> None:
        """Send the answer; nothing happens when the caller has gone."""
        if not self.open:
            return
        self.open = False
        self._rpc.send_answer(self, value)

    def answer_in_part(self, value: object) -> None:
        """Send one answer; others follow."""
        if self.open:
            self._rpc.send_part(self, value)

    @property
    def stream(self) -> Rpc:
        """The connection that the request came by."""
        return self._rpc


class Rpc:
    """One connection from `client` to `server`; requests and answers are FIFO each way."""

    def __init__(
        self,
        net: Net,
        client: Actor,
        server: Actor,
        on_broken: Callable[[], None] | None = None,
        on_server_broken: Callable[[], None] | None = None,
    ) -> None:
        self.client = client
        self.server = server
        self._on_broken = on_broken
        self._on_server_broken = on_server_broken
        self._pending: dict[int, Callable[[Any], None]] = {}
        self._calls: dict[int, Call] = {}
        self._next = 0
        self._connection = net.connect(
            client.name,
            server.name,
            lambda: client.hear(self._broken_at_client),
            lambda: server.hear(self._broken_at_server),
        )

    @property
    def open(self) -> bool:
        """Whether nothing is known to the contrary."""
        return self._connection.open

    @property
    def asking(self) -> bool:
        """Whether a request is on its way."""
        return self._connection.under_way(self.client.name)

    def request(
        self,
        handler: Callable[[Any, Call], None],
        value: object,
        on_answer: Callable[[Any], None],
        timeout_ms: float | None,
    ) -> None:
        """Have the server call `handler(value, call)`; `on_answer` hears the answer or None.

        A `timeout_ms` of None leaves it to the caller how long to wait.
        """
        number = self._next
        self._next += 1
        self._pending[number] = on_answer
        call = Call(self, number, value)
        self._connection.send(
            self.client.name, lambda: self.server.hear(self._serve, handler, value, call)
        )
        if timeout_ms is not None:
            self.client.timer(timeout_ms, self._expire, number)

    def _serve(self, handler: Callable[[Any, Call], None], value: object, call: Call) -> None:
        self._calls[call.number] = call
        handler(value, call)

    def send_answer(self, call: Call, value: object) -> None:
        """Send one answer to the client."""
        self._calls.pop(call.number, None)
        self._connection.send(
            self.server.name, lambda: self.client.hear(self._answered, call.number, value)
        )

    def send_part(self, call: Call, value: object) -> None:
        """Send an answer that others follow to the client."""
        self._connection.send(
            self.server.name, lambda: self.client.hear(self._answered_in_part, call.number, value)
        )

    def push(self, fn: Callable[..., None], *args: Any) -> None:
        """From the server to the client, without a request."""
        self._connection.send(self.server.name, lambda: self.client.hear(fn, *args))

    def tell(self, fn: Callable[..., None], *args: Any) -> None:
        """From the client to the server, without an answer."""
        self._connection.send(self.client.name, lambda: self.server.hear(fn, *args))

    def close(self) -> None:
        """The client gives up: open requests have an unknown outcome."""
        self._connection.close(self.client.name)
        self._broken_at_client()

    def refuse(self) -> None:
        """The server ends it, without a word to itself."""
        self._connection.close(self.server.name)

    def _answered(self, number: int, value: object) -> None:
        on_answer = self._pending.pop(number, None)
        if on_answer is not None:
            on_answer(value)

    def _answered_in_part(self, number: int, value: object) -> None:
        on_answer = self._pending.get(number)
        if on_answer is not None:
            on_answer(value)

    def _expire(self, number: int) -> None:
        if number in self._pending:
            self.close()

    def _broken_at_client(self) -> None:
        pending, self._pending = self._pending, {}
        for on_answer in pending.values():
            on_answer(None)
        on_broken, self._on_broken = self._on_broken, None
        if on_broken is not None:
            on_broken()

    def _broken_at_server(self) -> None:
        calls, self._calls = self._calls, {}
        for call in calls.values():
            call.open = False
            self.server.cancelled(call)
        if self._on_server_broken is not None:
            self._on_server_broken()


def unary(
    net: Net,
    client: Actor,
    server: Callable[[], Actor | None],
    handler: Callable[[Any, Any, Callable[[object], None]], None],
    value: object,
    on_answer: Callable[[Any], None],
    timeout_ms: float,
    post: Callable[[str, str, Deliver], None] | None = None,
) -> None:
    """One call to the process that is the server when it arrives: `handler(server, value,
    answer)`.

    `on_answer` hears the first answer, or None after `timeout_ms`. `post` takes the request to the
    server; None: the network does.
    """
    done = False
    target = server()
    address = target.name if target is not None else "nobody"

    def finish(answer: object) -> None:
        nonlocal done
        if not done:
            done = True
            on_answer(answer)

    def arrive() -> None:
        actor = server()
        if actor is not None:
            actor.hear(handler, actor, value, reply)

    def reply(answer: object) -> None:
        net.call(address, client.name, lambda: client.hear(finish, answer))

    if target is not None:
        (post or net.call)(client.name, address, arrive)
    client.timer(timeout_ms, finish, None)
