"""A Spark standalone cluster on this machine: a master and workers, each with a data root."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyspark

from pylog.clock import SYSTEM_CLOCK
from tests.verify.kills import free_port
from tests.verify.spark_cluster import ROOT, alive, descendants

SPARK_HOME = Path(pyspark.__file__).parent
START_SECONDS_MAX = 40.0


class StandaloneSpark:
    """Use as a context manager. Workers count from 0; `cores[k]` is what worker k offers. Master
    and workers run by `spark-conf/standalone.conf`, with a secret that applications must have.
    """

    def __init__(self, folder: Path, cores: Sequence[int]) -> None:
        self._folder = folder
        self._cores = cores
        self._port = free_port()
        self._page = free_port()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.url = f"spark://127.0.0.1:{self._port}"
        self.secret = secrets.token_hex(32)
        self.rest_port = free_port()
        """The port of submissions without a secret, if it were open."""
        self._properties = folder / "standalone.conf"
        self._properties.touch(0o600)
        self._properties.write_text(
            f"{(ROOT / 'spark-conf/standalone.conf').read_text()}\n"
            f"spark.authenticate.secret {self.secret}\n"
            f"spark.master.rest.port {self.rest_port}\n"
        )

    def root(self, worker: int) -> Path:
        """The data root of the executors of one worker."""
        return self._folder / f"root-{worker}"

    def __enter__(self) -> StandaloneSpark:
        try:
            self._spawn(
                "master",
                "org.apache.spark.deploy.master.Master",
                *("--host", "127.0.0.1", "--port", str(self._port)),
                *("--webui-port", str(self._page)),
                *("--properties-file", str(self._properties)),
            )
            self._wait_for_workers(0)
            for worker in range(len(self._cores)):
                self.start_worker(worker, wait=False)
            self._wait_for_workers(len(self._cores))
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start_worker(self, worker: int, *, wait: bool = True) -> None:
        """Start a worker, for the first time or again."""
        before = self.live_workers() if wait else 0
        self._spawn(
            f"worker-{worker}",
            "org.apache.spark.deploy.worker.Worker",
            *("--host", "127.0.0.1", "--port", str(free_port())),
            *("--webui-port", str(free_port())),
            *("--cores", str(self._cores[worker]), "--memory", "8g"),
            *("--work-dir", str(self._folder / f"work-{worker}")),
            *("--properties-file", str(self._properties)),
            self.url,
            data_root=self.root(worker),
        )
        if wait:
            self._wait_for_workers(before + 1)

    def kill_worker(self, worker: int) -> None:
        """SIGKILL of the worker and of everything below it, as when its host dies."""
        process = self._processes.pop(f"worker-{worker}")
        below = [pid for pid, _, _ in descendants(process.pid)]
        process.kill()
        process.wait()
        for pid in below:
            if alive(pid):
                os.kill(pid, signal.SIGKILL)

    def live_workers(self) -> int:
        """The number of workers that the master has, from its page."""
        return int(self._state()["aliveworkers"])

    def applications(self) -> list[str]:
        """The names of the applications that run, or did."""
        state = self._state()
        return [each["name"] for each in [*state["activeapps"], *state["completedapps"]]]

    def _state(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"http://127.0.0.1:{self._page}/json/", timeout=5) as page:
            state: dict[str, Any] = json.load(page)
            return state

    def logs(self) -> str:
        """The ends of all logs, for a failure's message."""
        files = [*self._folder.glob("*.log"), *self._folder.glob("work-*/app-*/*/stderr")]
        return "\n".join(
            f"--- {file}\n{file.read_text(errors='replace')[-1500:]}" for file in files
        )

    def close(self) -> None:
        """End all of it."""
        for name in sorted(self._processes, reverse=True):  # workers first
            process = self._processes[name]
            left = [pid for pid, _, _ in descendants(process.pid)]
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            deadline = SYSTEM_CLOCK.monotonic_ms() + 8_000
            while any(map(alive, left)) and SYSTEM_CLOCK.monotonic_ms() < deadline:
                SYSTEM_CLOCK.sleep(0.1)
            for pid in filter(alive, left):
                os.kill(pid, signal.SIGKILL)
        self._processes.clear()

    def _spawn(
        self,
        name: str,
        main: str,
        *arguments: str,
        data_root: Path | None = None,
    ) -> None:
        environment = {
            **os.environ,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
            "PYSPARK_PYTHON": sys.executable,
        }
        environment.pop("PYLOG_DATA_DIR", None)
        if data_root is not None:
            environment["PYLOG_DATA_DIR"] = str(data_root)
        with (self._folder / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                [str(SPARK_HOME / "bin" / "spark-class"), main, *arguments],
                cwd=self._folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _wait_for_workers(self, count: int) -> None:
        deadline = SYSTEM_CLOCK.monotonic_ms() + START_SECONDS_MAX * 1000
        while True:
            try:
                if self.live_workers() >= count:
                    return
            except (OSError, json.JSONDecodeError):
                pass  # the master is not there yet, or its page has no figures yet
            assert SYSTEM_CLOCK.monotonic_ms() < deadline, self.logs()
            SYSTEM_CLOCK.sleep(0.1)
