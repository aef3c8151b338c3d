"""A controller, and brokers with networks of their own, of which links are cut.

In a network of this process's own (`unshare --net`): a bridge with the controller and the clients
on it, and one broker behind each of its links. Needs root and `ip`; `deaf` and `mute` need `tc`.
"""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.fakes.waiting import eventually

HERE: Final = "10.77.0.10"
GATEWAY: Final = f"{HERE}:9092"


def _run(*command: str, inside: int | None = None) -> None:
    into = [] if inside is None else ["nsenter", "-t", str(inside), "-n"]
    subprocess.run([*into, *command], check=True)


class Host:
    """A broker's process, in a network of its own with one link to the bridge."""

    def __init__(self, number: int, command: list[str], log: Path) -> None:
        self.address = f"10.77.0.{number}"
        self.link = f"hub{number}"
        waits = ["unshare", "--net", "sh", "-c", 'read _; exec "$@"', "sh", *command]
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                waits, stdin=subprocess.PIPE, stderr=output, stdout=output
            )
        pid = self.process.pid
        own = Path("/proc/self/ns/net").readlink()
        eventually(10, lambda: Path(f"/proc/{pid}/ns/net").readlink() != own, "a network")
        _run(
            "ip", "link", "add", self.link, "type", "veth", "peer", "name", "way", "netns", f"{pid}"
        )
        _run("ip", "link", "set", self.link, "master", "bridge", "up")
        _run("ip", "link", "set", "lo", "up", inside=pid)
        _run("ip", "addr", "add", f"{self.address}/24", "dev", "way", inside=pid)
        _run("ip", "link", "set", "way", "up", inside=pid)
        assert self.process.stdin is not None
        self.process.stdin.write(b"\n")
        self.process.stdin.close()

    def cut(self) -> None:
        """Reach nobody, and be reached by nobody."""
        _run("ip", "link", "set", self.link, "down")

    def join(self) -> None:
        """Be as before `cut`."""
        _run("ip", "link", "set", self.link, "up")

    def lose(self, other: Host, *, lost: bool) -> None:
        """Send nothing to another host; or again."""
        verb = "add" if lost else "del"
        _run("ip", "route", verb, "blackhole", f"{other.address}/32", inside=self.process.pid)

    def deaf(self, *, is_deaf: bool) -> None:
        """Nothing that others send arrives here; or again. Nobody is told."""
        self._drop(self.link, None, drops=is_deaf)

    def mute(self, *, is_mute: bool) -> None:
        """Nothing that is sent here arrives anywhere; or again. Nobody is told."""
        self._drop("way", self.process.pid, drops=is_mute)

    def _drop(self, link: str, inside: int | None, *, drops: bool) -> None:
        # A token bucket that holds less than any packet: there may be no netem.
        kind = ("tbf", "rate", "8bit", "burst", "1b", "limit", "1b") if drops else ()
        verb = "add" if drops else "del"
        _run("tc", "qdisc", verb, "dev", link, "root", *kind, inside=inside)


class CutNetwork:
    """The controller at `GATEWAY`, and three brokers. Use as a context manager."""

    def __init__(self, folder: Path, settings: Mapping[str, str]) -> None:
        self.folder = folder
        self._secret = folder / "secret"
        self._settings = {"broker.claim.wait.ms": "0", **settings}
        self._processes: list[subprocess.Popen[bytes]] = []
        self.hosts: dict[int, Host] = {}
        """By the numbers of their addresses, which are not those of the brokers on them."""

    def __enter__(self) -> Self:
        self._secret.write_text(secrets.token_hex(32))
        self._secret.chmod(0o600)
        _run("ip", "link", "set", "lo", "up")
        _run("ip", "link", "add", "bridge", "type", "bridge")
        _run("ip", "addr", "add", f"{HERE}/24", "dev", "bridge")
        _run("ip", "link", "set", "bridge", "up")
        try:
            command = self._python(
                "pylog_broker.head", "controller", "--brokers", "3", "--listen", GATEWAY
            )
            with (self.folder / "controller.log").open("wb") as log:
                self._processes.append(subprocess.Popen(command, stderr=log, stdout=log))
            for number in (1, 2, 3):
                address = f"10.77.0.{number}"
                command = self._python(
                    "pylog_broker.node", f"host-{number}", "--controller", GATEWAY,
                    "--listen", f"{address}:9092", "--replication-listen", f"{address}:9093",
                    "--stream-listen", f"{address}:9094",
                )  # fmt: skip
                host = Host(number, command, self.folder / f"host-{number}.log")
                self.hosts[number] = host
                self._processes.append(host.process)
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()

    def kill(self) -> None:
        """End all processes at once."""
        for process in self._processes:
            process.send_signal(signal.SIGKILL)
            process.wait()

    def _python(self, module: str, name: str, *arguments: str) -> list[str]:
        settings = [
            argument
            for key, value in self._settings.items()
            for argument in ("--config", f"{key}={value}")
        ]
        return [
            sys.executable, "-m", module, "--data-dir", str(self.folder / name),
            "--allow-plaintext", "--secret-file", str(self._secret),
            "--parent-pid", str(os.getpid()), *settings, *arguments,
        ]  # fmt: skip
