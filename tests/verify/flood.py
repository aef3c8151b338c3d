"""A flood of connections under load: `python -m tests.verify.flood [--short]`.

A cluster whose processes may have 1,024 files open, a steady load in a process of its own, 2,000
connections that say nothing, spread over every port, then 20,000 attempts at 500 a second from a
process with the lowest priority, in parts between which the load goes on without them. Prints what
the load noticed, how memory and logs grew, and a verdict; exit status 0 only when all limits hold.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import resource
import select
import socket
import statistics
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pylog import AdminClient, Consumer, LocalCluster, NewTopic, Producer
from pylog.clock import SYSTEM_CLOCK, ticks

ROOT: Final = Path(__file__).resolve().parent.parent.parent
FILES_MAX: Final = 1_024
TOPIC: Final = "under-flood"
PARTITIONS: Final = 6
SEND_EVERY_S: Final = 0.004
HELD_MAX: Final = 1_000
"""Attempts that are kept open at a time."""

P50_TIMES_MAX: Final = 1.2
P99_TIMES_MAX: Final = 2.0
GROWTH_MIB_MAX: Final = 50.0


@dataclass(frozen=True, slots=True)
class Plan:
    """The amounts of everything. `parts`: of the attempts, with as long a calm before each."""

    brokers: int
    idle: int
    attempts: int
    rate: int
    parts: int


FULL: Final = Plan(brokers=3, idle=2_000, attempts=20_000, rate=500, parts=4)
SHORT: Final = Plan(brokers=2, idle=600, attempts=2_000, rate=500, parts=2)


@dataclass(slots=True)
class Findings:
    """The measurements and faults of a run."""

    calm: list[tuple[float, float]] = field(default_factory=list)  # p50 and p99 of the load, ms
    flood: list[tuple[float, float]] = field(default_factory=list)
    failed: int = 0  # records
    offline: int = 0
    growth_mib: float = 0.0
    lines_a_second: float = 0.0  # of the process that wrote most
    dead: list[str] = field(default_factory=list)

    @property
    def times(self) -> tuple[float, float]:
        """The factors by which p50 and p99 were slower in the flood, by medians."""
        p50, p99 = (
            statistics.median(part[n] for part in self.flood)
            / statistics.median(part[n] for part in self.calm)
            for n in (0, 1)
        )
        return p50, p99

    def faults(self, *, with_times: bool) -> list[str]:
        """The limits that do not hold."""
        p50, p99 = self.times
        found = [f"{name} died" for name in self.dead]
        for what, value, limit in (
            ("replicas offline", self.offline, 0),
            ("records failed", self.failed, 0),
            ("MiB more", self.growth_mib, GROWTH_MIB_MAX),
            ("log lines a second", self.lines_a_second, 1.0),
            ("times the p50", p50 if with_times else 0, P50_TIMES_MAX),
            ("times the p99", p99 if with_times else 0, P99_TIMES_MAX),
        ):
            if value > limit:
                found.append(f"{value:.2f} {what}; the limit is {limit}")
        return found


# ---- processes of their own ---------------------------------------------------------------------


class Helper:
    """A process that waits for a line of JSON, does something, and answers with another."""

    def __init__(self, role: str, *, module: str = "tests.verify.flood", nice: int = 0) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, "--role", role],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([f"{ROOT}/src", f"{ROOT}"])},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: os.nice(nice) and None,
        )

    @property
    def pid(self) -> int:
        """The process."""
        return self._process.pid

    def tell(self, **what: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(what) + "\n")
        self._process.stdin.flush()

    def hear(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def end(self) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


def _told() -> Iterator[Any]:
    for line in sys.stdin:
        yield json.loads(line)


def _answer(what: Any) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def _connect(address: tuple[str, int]) -> socket.socket | None:
    raw = socket.socket()
    raw.setblocking(False)
    try:
        raw.connect_ex(address)
    except OSError:
        raw.close()
        return None
    return raw


def idle_role() -> None:
    """Opens connections, and holds them."""
    held: list[socket.socket] = []
    for told in _told():
        ports = told["ports"]
        for number in range(told["count"]):
            raw = _connect(("127.0.0.1", ports[number % len(ports)]))
            if raw is not None:
                held.append(raw)
            SYSTEM_CLOCK.sleep(0.001)
        _answer(len(held))


def attempts_role() -> None:
    """Connects so many times a second, and closes what is old."""
    held: list[socket.socket] = []
    for told in _told():
        ports, rate = told["ports"], told["rate"]
        began = ticks()
        for number in range(told["count"]):
            late = began + number / rate - ticks()
            if late > 0:
                SYSTEM_CLOCK.sleep(late)
            raw = _connect(("127.0.0.1", ports[number % len(ports)]))
            if raw is not None:
                held.append(raw)
            if len(held) > HELD_MAX:
                held.pop(0).close()
        _answer(ticks() - began)


class _Load:
    """Sends at a steady rate and reads it back; knows how long each record took."""

    def __init__(self, bootstrap: str) -> None:
        self.failed = 0
        self.times_ms: list[float] = []
        self._stop = threading.Event()
        self._producer = Producer(bootstrap_servers=bootstrap, acks="all", linger_ms=0)
        self._consumer = Consumer(TOPIC, bootstrap_servers=bootstrap, auto_offset_reset="latest")
        self._consumer.poll(1)
        self._threads = [threading.Thread(target=run) for run in (self._send, self._read)]
        for thread in self._threads:
            thread.start()

    def _send(self) -> None:
        number, began = 0, ticks()

        def done(_metadata: object, error: Exception | None) -> None:
            self.failed += error is not None

        while not self._stop.is_set():
            late = began + number * SEND_EVERY_S - ticks()
            if late > 0:
                SYSTEM_CLOCK.sleep(late)
            value = b"%.9f" % ticks() + bytes(100)
            self._producer.send(TOPIC, value, partition=number % PARTITIONS, on_delivery=done)
            number += 1

    def _read(self) -> None:
        while not self._stop.is_set():
            for record in self._consumer.poll(0.5):
                sent = float(record.value[:-100])
                self.times_ms.append((ticks() - sent) * 1000)

    def measured(self) -> tuple[float, float]:
        """p50 and p99 since the last call."""
        times, self.times_ms = sorted(self.times_ms), []
        return times[len(times) // 2], times[len(times) * 99 // 100]

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        self._producer.close()
        self._consumer.close()


def load_role() -> None:
    """Begins when told where; then answers with what was measured, as often as asked."""
    load: _Load | None = None
    for told in _told():
        if load is None:
            load = _Load(told["bootstrap"])
            _answer("runs")
        else:
            _answer([*load.measured(), load.failed])
    if load is not None:
        load.stop()


# ---- the flood ----------------------------------------------------------------------------------


def _ports(cluster: LocalCluster) -> list[int]:
    """The ports of all listeners."""
    found = [cluster._gateway_port]
    for ports in cluster._ports.values():
        found += ports
    found += [int(url.rpartition(":")[2]) for url in cluster.metrics_urls.values()]
    return found


def _memory_mib(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize() / (1 << 20)


def _log_lines(cluster: LocalCluster) -> dict[str, int]:
    """By process."""
    logs = sorted((cluster.data_dir / "logs").iterdir())
    return {log.name: log.read_bytes().count(b"\n") for log in logs}


def offline_replicas(cluster: LocalCluster) -> int:
    count = 0
    for who, url in cluster.metrics_urls.items():
        if who != "controller":
            with urllib.request.urlopen(f"{url}/metrics", timeout=30) as page:
                text = page.read().decode()
            (said,) = re.findall(r"^pylog_offline_replicas (\S+)$", text, re.MULTILINE)
            count += int(float(said))
    return count


def _rest(seconds: float) -> None:
    select.select([], [], [], seconds)


def _flood(plan: Plan, cluster: LocalCluster, helpers: dict[str, Helper]) -> Findings:
    findings = Findings()
    processes = {"controller": cluster._head, **cluster._nodes}
    pids = [process._process.pid for process in processes.values() if process is not None]
    with AdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.create_topics(NewTopic(TOPIC, PARTITIONS, plan.brokers))
    load, ports = helpers["load"], _ports(cluster)
    load.tell(bootstrap=cluster.bootstrap_servers)
    assert load.hear() == "runs"
    part_s = plan.attempts / plan.parts / plan.rate
    _rest(max(5.0, part_s))  # until all is warm
    before, lines, began = list(map(_memory_mib, pids)), _log_lines(cluster), ticks()
    helpers["idle"].tell(ports=ports, count=plan.idle)
    helpers["idle"].hear()
    load.tell()
    load.hear()
    for _ in range(plan.parts):
        _rest(part_s)
        load.tell()
        p50, p99, _ = load.hear()
        findings.calm.append((p50, p99))
        attempts = plan.attempts // plan.parts
        helpers["attempts"].tell(ports=ports, count=attempts, rate=plan.rate)
        helpers["attempts"].hear()
        load.tell()
        p50, p99, findings.failed = load.hear()
        findings.flood.append((p50, p99))
        now = map(_memory_mib, pids)
        growth = max(after - first for after, first in zip(now, before, strict=True))
        findings.growth_mib = max(findings.growth_mib, growth)
    more = [count - lines.get(name, 0) for name, count in _log_lines(cluster).items()]
    findings.lines_a_second = max(more) / (ticks() - began)
    findings.dead = [
        str(name) for name, process in processes.items() if process and not process.running
    ]
    findings.offline = offline_replicas(cluster)
    return findings


def flood(plan: Plan) -> Findings:
    """Run it. The files that this process may have open stay limited afterwards."""
    helpers = {
        "load": Helper("load"),
        "idle": Helper("idle"),
        "attempts": Helper("attempts", nice=19),
    }
    try:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, FILES_MAX), min(hard, FILES_MAX)))
        config = {"metrics.listen": "127.0.0.1:0"}
        with LocalCluster(plan.brokers, config=config) as cluster:
            try:
                return _flood(plan, cluster, helpers)
            finally:
                for helper in helpers.values():
                    helper.end()
    finally:
        for helper in helpers.values():
            helper.end()


def main() -> int:
    """Parse the arguments, flood, say what came of it."""
    parser = argparse.ArgumentParser(prog="python -m tests.verify.flood", description=__doc__)
    parser.add_argument("--short", action="store_true", help="a tenth of it, and no figures judged")
    parser.add_argument("--role", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.role:
        {"idle": idle_role, "attempts": attempts_role, "load": load_role}[arguments.role]()
        return 0
    findings = flood(SHORT if arguments.short else FULL)
    for name, parts in (("calm", findings.calm), ("flood", findings.flood)):
        shown = ", ".join(f"{p50:.2f}/{p99:.2f}" for p50, p99 in parts)
        print(f"{name}: p50/p99 in ms, by part: {shown}")
    p50, p99 = findings.times
    print(f"in the flood: {p50:.2f} times the p50, {p99:.2f} times the p99")
    print(
        f"replicas offline {findings.offline}, records failed {findings.failed}, memory "
        f"{findings.growth_mib:+.0f} MiB at most, {findings.lines_a_second:.2f} log lines a second"
    )
    faults = findings.faults(with_times=not arguments.short)
    print("\n".join(faults) if faults else "all limits hold")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
