"""`LocalCluster`: a real cluster of broker processes on this machine, without Spark.

The processes are `python -m pylog_broker.head` and `python -m pylog_broker.node`: the code that
Spark hosts. They live in sessions of their own (Ctrl-C in a notebook does not reach them), watch
their owner's process and end with it. Ports are chosen once and stay the same over kill and start.
"""

from __future__ import annotations

import atexit
import contextlib
import ipaddress
import json
import os
import secrets
import select
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from pylog import errors
from pylog.client.arguments import mapping, several, shown, whole, whole_or_none
from pylog.clock import SYSTEM_CLOCK
from pylog.held_ports import HeldPorts
from pylog.private_folders import make_private, open_private, tighten
from pylog.temporary_folder import TemporaryFolder

START_SECONDS_MAX: Final = 60.0
STOP_SECONDS_MAX: Final = 20.0
CONSOLE_STOP_SECONDS_MAX: Final = 5.0
NODE_END_SECONDS: Final = 1.0
"""From the end of a broker's session to the end of its process."""
LOG_TAIL_BYTES: Final = 2000
NEW_BROKER: Final = 0
BROKERS_MAX: Final = 100
_SETTINGS: Final = "brokers' settings, such as {'min.insync.replicas': '2'}"
_QUICK: Final = {
    "group.initial.rebalance.delay.ms": "0",
    "group.streams.initial.rebalance.delay.ms": "0",
}
"""Settings unless others are given: nobody else is about to start a member of the group."""
PYTHON: Final = (sys.executable, "-P", "-m")
"""Without the current directory among the places of modules: a file there, `random.py`, would be
taken for the standard library's."""


_Ports = tuple[int, int, int]
"""The ports of one broker: for clients, for other brokers, for framed streams."""


def _gateway_address(listen: str | None) -> tuple[str, int]:
    """The host and port on which the gateway shall listen; InvalidConfig as `LocalCluster`
    documents it."""
    text = "127.0.0.1:0" if listen is None else listen
    host, _, number = text.rpartition(":") if isinstance(text, str) else ("", "", "")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not (number.isascii() and number.isdigit() and int(number) <= 65535):
        raise errors.InvalidConfig(f"listen={listen!r}: it must be host:port, such as 127.0.0.1:0")
    try:
        local = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        local = False
    if not local:
        raise errors.InvalidConfig(
            f"listen={listen!r}: a local cluster listens on loopback only, such as 127.0.0.1:9092; "
            "others reach brokers that spark-submit starts"
        )
    return host, int(number)


@dataclass(frozen=True, slots=True)
class EndedProcess:
    """A process of a cluster that does not run. `broker` None: the controller; `status`: its exit
    status, or a signal's number, negative; `log`: its log file.
    """

    name: str
    broker: int | None
    status: int
    log: Path


class _Process:
    """One started process, its log file, and the pipe on which it says that it is ready."""

    def __init__(self, name: str, command: Sequence[str], secret: str, log: Path) -> None:
        self.name = name
        self.log = log
        self.metrics = ""
        self._ready, ready_write = os.pipe()
        environment = dict(os.environ)
        environment["PYLOG_CLUSTER_SECRET"] = secret
        root = str(Path(__file__).parent.parent.absolute())
        path = environment.get("PYTHONPATH")
        environment["PYTHONPATH"] = f"{root}{os.pathsep}{path}" if path else root
        try:
            with open(log, "ab", opener=open_private) as output:
                self._process = subprocess.Popen(
                    [*command, "--ready-fd", str(ready_write)],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    env=environment,
                    pass_fds=[ready_write],
                    start_new_session=True,
                )
        except BaseException:
            os.close(self._ready)
            raise
        finally:
            os.close(ready_write)

    @property
    def running(self) -> bool:
        return self.status is None

    @property
    def status(self) -> int | None:
        """Its exit status; None while it runs."""
        return self._process.poll()

    def wait_ready(self, deadline_ms: int) -> dict[str, Any]:
        """The process's message when it serves; its own error, or one with its log's end."""
        said = b""
        ready = select.poll()  # unlike select(), takes descriptors above 1023
        ready.register(self._ready, select.POLLIN)
        while not said.endswith(b"\n"):
            wait_ms = max(0, deadline_ms - SYSTEM_CLOCK.monotonic_ms())
            if not ready.poll(wait_ms):
                raise errors.RequestTimedOut(
                    f"{self.name} was not ready in time; its log {self.log} ends:\n{self.tail()}"
                )
            data = os.read(self._ready, 65536)
            if not data:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(5)
                raise errors.BrokerNotAvailable(
                    f"{self.name} ended with status {self._process.poll()} before it was ready; "
                    f"its log {self.log} ends:\n{self.tail()}"
                )
            said += data
        answer: dict[str, Any] = json.loads(said)
        if "error" in answer:
            raise errors.from_code(int(answer["error"]), f"{self.name}: {answer['message']}")
        self.metrics = str(answer.get("metrics", ""))
        return answer

    def rename(self, name: str, log: Path) -> None:
        """Call the process and its log differently from now on."""
        self.name = name
        if log != self.log:
            self.log.replace(log)
            self.log = log

    def tail(self) -> str:
        """The end of the process's log."""
        with contextlib.suppress(OSError):
            return self.log.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace").strip()
        return ""

    def send(self, number: signal.Signals) -> None:
        """Send a signal, if it still runs."""
        if self.running:
            self._process.send_signal(number)

    def wait(self, seconds: float) -> bool:
        """Whether the process ended within `seconds`."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def end(self, number: signal.Signals, seconds: float) -> None:
        """Signal, wait, and kill when that took too long."""
        self.send(number)
        if number is signal.SIGKILL or not self.wait(seconds):
            self.send(signal.SIGKILL)
            self._process.wait()
        with contextlib.suppress(OSError):
            os.close(self._ready)
        self._ready = -1


class LocalCluster:
    """A running cluster; usable at once, until `close()` or the end of the `with` block.

    A temporary folder is removed on `close`, or, of an owner that was killed, by the next cluster
    with one; a given one stays and can be opened again. Methods
    return when what they say is done. Not for use from several threads at once.
    """

    def __init__(
        self,
        brokers: int = 1,
        data_dir: str | os.PathLike[str] | None = None,
        config: Mapping[str, str] | None = None,
        kafka_listener: bool = False,
        *,
        listen: str | None = None,
        racks: Iterable[str] = (),
        console: bool = False,
        console_allow_writes: bool = False,
    ) -> None:
        """`listen`: the gateway's address on this machine, `host:port`; None or port 0: a free
        port of 127.0.0.1. `racks`: of brokers 1, 2 and so on, again from the first after the last.
        `console`: web pages of the cluster at `console_url`, which only show unless
        `console_allow_writes`. Raises InvalidConfig and BrokerNotAvailable, which name what is
        wrong.
        """
        if find_spec("pylog_broker") is None:
            raise errors.ResourceNotFound(
                "LocalCluster starts brokers, which are not installed: pylog-client is the client "
                "alone; install pylog-spark in its place"
            )
        if kafka_listener:
            raise errors.NotOffered("kafka_listener=True: the Kafka listener is not offered yet")
        brokers = whole(brokers, "brokers", 1, BROKERS_MAX, errors.InvalidConfig)
        if not isinstance(data_dir, str | os.PathLike | None):
            raise errors.InvalidConfig(f"data_dir={shown(data_dir)}: give a path, or None")
        given = mapping({} if config is None else config, "config", _SETTINGS, errors.InvalidConfig)
        gateway = _gateway_address(listen)
        self._racks = _rack_names(racks)
        self._temporary: TemporaryFolder | None = None
        if data_dir is None:
            self._temporary = TemporaryFolder()
            data_dir = self._temporary.path
        self.data_dir = Path(data_dir).absolute()
        self._config = _QUICK | {str(key): _config_text(value) for key, value in given.items()}
        self._secret = secrets.token_hex(32)
        self._owner = os.getpid()
        self._head: _Process | None = None
        self._console: _Process | None = None
        self._console_writes = console_allow_writes
        self._console_port = 0
        self._nodes: dict[int, _Process] = {}
        self._held = HeldPorts()
        self._gateway_host, self._gateway_port = gateway
        self._ports: dict[int, _Ports] = {}
        self._closed = False
        atexit.register(self.close)
        try:
            self._gateway_port = self._hold_gateway(listen)
            self._make_folder()
            self._count = max(brokers, len(self._found()))
            self._start_all()
            if console or console_allow_writes:
                self._start_console()
        except BaseException:
            self.close()
            raise

    # ---- what it is -----------------------------------------------------------------------------

    @property
    def bootstrap_servers(self) -> str:
        """Gateway and brokers as `host:port`, separated by commas."""
        brokers = (f"127.0.0.1:{self._ports[id][0]}" for id in sorted(self._ports))
        return ",".join([self._gateway, *brokers])

    @property
    def _gateway(self) -> str:
        host = f"[{self._gateway_host}]" if ":" in self._gateway_host else self._gateway_host
        return f"{host}:{self._gateway_port}"

    @property
    def metrics_urls(self) -> dict[str | int, str]:
        """The address at which each process serves metrics, by broker id and `controller`, as
        `http://host:port`; empty unless the cluster was made with
        `config={"metrics.listen": "127.0.0.1:0"}`.
        """
        said: dict[str | int, str] = {}
        if self._head is not None and self._head.metrics:
            said["controller"] = f"http://{self._head.metrics}"
        said |= {id: f"http://{node.metrics}" for id, node in self._nodes.items() if node.metrics}
        return said

    @property
    def console_url(self) -> str | None:
        """The address of the web pages; None without `console=True`."""
        return f"http://127.0.0.1:{self._console_port}/" if self._console_port else None

    @property
    def kafka_bootstrap_servers(self) -> str:
        """Addresses for Kafka's own clients: not offered yet."""
        raise errors.NotOffered("the Kafka listener is not offered yet")

    @property
    def brokers(self) -> list[int]:
        """The ids of all brokers, running or not."""
        return sorted(self._nodes)

    def ended(self) -> list[EndedProcess]:
        """The controller and the brokers that do not run now, whoever ended them."""
        every: list[tuple[int | None, _Process | None]] = [(None, self._head)]
        every += sorted(self._nodes.items())
        return [
            EndedProcess(process.name, broker, process.status, process.log)
            for broker, process in every
            if process is not None and process.status is not None
        ]

    # ---- what one can do to it ------------------------------------------------------------------

    def kill(self, broker: int) -> None:
        """SIGKILL, which is like a crash."""
        self._node(broker).end(signal.SIGKILL, 0)

    def stop(self, broker: int) -> None:
        """Stop in order: leaders move first, logs are flushed, the clean marker is written."""
        node = self._node(broker)
        node.send(signal.SIGCONT)
        node.end(signal.SIGTERM, STOP_SECONDS_MAX)

    def start(self, broker: int) -> None:
        """Start a broker that was killed or stopped, on its old ports and directory."""
        if self._node(broker).running:
            raise errors.InvalidRequest(f"broker {broker} is running")
        self._nodes[broker].end(signal.SIGKILL, 0)  # lets go of its pipe
        self._nodes[broker] = self._spawn_node(broker, self._ports[broker])
        self._nodes[broker].wait_ready(self._deadline_ms())

    def pause(self, broker: int) -> None:
        """SIGSTOP: the process stands still, its connections stay."""
        self._node(broker).send(signal.SIGSTOP)

    def resume(self, broker: int) -> None:
        """SIGCONT."""
        self._node(broker).send(signal.SIGCONT)

    def kill_controller(self) -> None:
        """SIGKILL of the controller and gateway; brokers go on serving."""
        self._check_open()
        assert self._head is not None
        self._head.end(signal.SIGKILL, 0)

    def start_controller(self) -> None:
        """Start the controller again, on its old port."""
        self._check_open()
        if self._head is not None and self._head.running:
            raise errors.InvalidRequest("the controller is running")
        if self._head is not None:
            self._head.end(signal.SIGKILL, 0)
        self._head = self._spawn_head()
        self._head.wait_ready(self._deadline_ms())

    def restart(self) -> None:
        """Stop everything in order and start it again, on the same ports and directories."""
        self._check_open()
        self._stop_all()
        self._start_all()

    def close(self) -> None:
        """Stop everything in order; remove the folder if it was temporary. Idempotent."""
        # A forked child inherits this object, and must not end its parent's cluster.
        if self._closed or os.getpid() != self._owner:
            return
        self._closed = True
        atexit.unregister(self.close)
        if self._console is not None:
            self._console.end(signal.SIGTERM, CONSOLE_STOP_SECONDS_MAX)
        self._stop_all()
        self._held.close()
        if self._temporary is not None:
            self._temporary.remove()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._closed else self.bootstrap_servers
        return f"<LocalCluster {self.data_dir} {state}>"

    def _repr_html_(self) -> str:
        """For notebooks."""
        from pylog.html_tables import html_table

        title = f"LocalCluster in {self.data_dir}" + (", closed" if self._closed else "")
        head = [] if self._head is None else [("controller", self._gateway, self._head.running)]
        nodes = [
            (f"broker {id}", f"127.0.0.1:{self._ports[id][0]}", node.running)
            for id, node in sorted(self._nodes.items())
        ]
        every = head + nodes
        rows = ((name, at, "runs" if running else "does not run") for name, at, running in every)
        return html_table(title, ("process", "address", "state"), rows, len(every))

    def _make_folder(self) -> None:
        try:
            make_private(self.data_dir / "logs")
            tighten(self.data_dir / "logs")
        except OSError as error:
            raise errors.InvalidConfig(
                f"data_dir={str(self.data_dir)!r} cannot be used: {error.strerror}; give another "
                "folder"
            ) from error

    # ---- processes ------------------------------------------------------------------------------

    def _found(self) -> list[int]:
        """The ids of the brokers whose directories are in the folder, or below `log.dirs`."""
        entries = [
            Path(e.strip()) for e in self._config.get("log.dirs", "").split(",") if e.strip()
        ]
        found = set()
        for root in (self.data_dir, *(entry for entry in entries if entry.is_absolute())):
            for folder in root.glob("broker-*"):
                number = folder.name.removeprefix("broker-")
                inside = [folder / e for e in entries if not e.is_absolute()]
                metas = [place / "meta.properties" for place in (folder, *inside)]
                if number.isdigit() and any(meta.exists() for meta in metas):
                    found.add(int(number))
        return sorted(found)

    def _node(self, broker: int) -> _Process:
        self._check_open()
        number = whole_or_none(broker, 0)
        node = None if number is None else self._nodes.get(number)
        if node is None:
            raise errors.BrokerIdNotRegistered(
                f"there is no broker {shown(broker)}; there are {self.brokers}"
            )
        return node

    def _check_open(self) -> None:
        if self._closed:
            raise errors.ClientClosed("the cluster is closed")
        if os.getpid() != self._owner:
            raise errors.ClientClosed("the cluster belongs to the process that made it")

    def _deadline_ms(self) -> int:
        return SYSTEM_CLOCK.monotonic_ms() + int(START_SECONDS_MAX * 1000)

    def _start_all(self) -> None:
        """All processes at once: the brokers ask until the controller answers."""
        self._head = self._spawn_head()
        found = self._found()
        for broker in found:
            self._ports.setdefault(broker, self._new_ports())
        started = [(self._spawn_node(id, self._ports[id]), self._ports[id]) for id in found]
        for _ in range(self._count - len(found)):
            ports = self._new_ports()
            started.append((self._spawn_node(NEW_BROKER, ports), ports))
        deadline_ms = self._deadline_ms()
        try:
            self._head.wait_ready(deadline_ms)
            for node, ports in started:
                broker = int(node.wait_ready(deadline_ms)["broker"])
                self._nodes[broker], self._ports[broker] = node, ports
                node.rename(f"broker {broker}", self._log_file(f"broker-{broker}"))
        except BaseException:
            for node, _ in started:
                node.end(signal.SIGKILL, 0)
            raise

    def _start_console(self) -> None:
        """Its process gets no secret of the cluster: it is a client like any other."""
        self._console_port = self._held.any()
        command = [
            *PYTHON, "pylog.console", "--bootstrap-servers", self.bootstrap_servers,
            "--listen", f"127.0.0.1:{self._console_port}", "--parent-pid", str(self._owner),
            *(["--allow-writes"] if self._console_writes else []),
        ]  # fmt: skip
        self._console = _Process("the console", command, "", self._log_file("console"))
        self._console.wait_ready(self._deadline_ms())

    def _new_ports(self) -> _Ports:
        return self._held.any(), self._held.any(), self._held.any()

    def _hold_gateway(self, listen: str | None) -> int:
        if self._gateway_port == 0:
            return self._held.any()
        try:
            self._held.take(self._gateway_host, self._gateway_port)
        except OSError as error:
            raise errors.BrokerNotAvailable(
                f"listen={listen!r}: {error.strerror}; choose another port, or 0 for a free one"
            ) from None
        return self._gateway_port

    def _stop_all(self) -> None:
        """The controller tells all brokers to stop; a broker that was not in touch with it is told
        by signal.
        """
        nodes = [node for node in self._nodes.values() if node.running]
        for node in nodes:
            node.send(signal.SIGCONT)
        if self._head is not None and self._head.running:
            self._head.send(signal.SIGTERM)
            # It ends when every broker that it heard from has ended.
            self._head.wait(STOP_SECONDS_MAX)
            deadline_ms = SYSTEM_CLOCK.monotonic_ms() + int(NODE_END_SECONDS * 1000)
            for node in nodes:
                node.wait(max(0, deadline_ms - SYSTEM_CLOCK.monotonic_ms()) / 1000)
        for node in nodes:
            node.send(signal.SIGHUP)
        for node in self._nodes.values():
            node.end(signal.SIGHUP, STOP_SECONDS_MAX)
        if self._head is not None:
            self._head.end(signal.SIGTERM, STOP_SECONDS_MAX)

    def _common_arguments(self) -> list[str]:
        arguments = ["--data-dir", str(self.data_dir), "--parent-pid", str(self._owner)]
        for key, value in self._config.items():
            arguments += ["--config", f"{key}={value}"]
        return arguments

    def _spawn_head(self) -> _Process:
        command = [
            *PYTHON, "pylog_broker.head", "--brokers", str(self._count),
            "--listen", self._gateway, *self._common_arguments(),
        ]  # fmt: skip
        if "broker.claim.wait.ms" not in self._config:
            # All directories are in one folder: there is no other host to wait for.
            command += ["--config", "broker.claim.wait.ms=0"]
        return _Process("the controller", command, self._secret, self._log_file("controller"))

    def _log_file(self, name: str) -> Path:
        return self.data_dir / "logs" / f"{name}.log"

    def _spawn_node(self, broker: int, ports: _Ports) -> _Process:
        command = [
            *PYTHON, "pylog_broker.node",
            "--controller", self._gateway,
            "--listen", f"127.0.0.1:{ports[0]}", "--replication-listen", f"127.0.0.1:{ports[1]}",
            "--stream-listen", f"127.0.0.1:{ports[2]}",
            "--only-broker", str(broker), *self._common_arguments(),
        ]  # fmt: skip
        for rack in self._racks:
            command += ["--rack", rack]
        if broker == NEW_BROKER:
            log = self._log_file(f"broker-new-{ports[0]}")
            return _Process("a new broker", command, self._secret, log)
        log = self._log_file(f"broker-{broker}")
        return _Process(f"broker {broker}", command, self._secret, log)


def _config_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _rack_names(given: Iterable[str]) -> list[str]:
    racks = several(given, "racks", "a list of names", errors.InvalidConfig)
    for rack in racks:
        if not isinstance(rack, str) or not rack.strip():
            raise errors.InvalidConfig(f"racks: {shown(rack)} is no name of a rack")
    return racks
