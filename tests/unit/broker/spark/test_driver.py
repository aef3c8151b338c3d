"""The events that end the driver, without Spark."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys

import pytest
from pyspark import SparkConf

from pylog_broker.spark.driver import Driver
from pylog_broker.spark.settings import parse_settings


class FakeHead:
    """Serves until it is told to stop, or until its metadata log fails."""

    def __init__(self) -> None:
        self.log_failed = asyncio.Event()

    async def serve_until(self, stop: asyncio.Event) -> bool:
        waits = [asyncio.ensure_future(event.wait()) for event in (stop, self.log_failed)]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
        return self.log_failed.is_set()


def new_driver() -> Driver:
    settings = parse_settings({}, submit_dir="/somewhere", master="local[2]")
    return Driver(settings, SparkConf(loadDefaults=False), jvm_pid=1)


def test_a_metadata_log_that_fails_ends_the_driver_with_an_error() -> None:
    async def main() -> int:
        head = FakeHead()
        head.log_failed.set()
        async with asyncio.timeout(10):
            return await new_driver().until_stopped(head)

    assert asyncio.run(main()) == 1


def test_a_stop_ends_it_without_one() -> None:
    async def main() -> int:
        driver = new_driver()
        serving = asyncio.ensure_future(driver.until_stopped(FakeHead()))
        await asyncio.sleep(0)
        driver.stop("told to")
        async with asyncio.timeout(10):
            return await serving

    assert asyncio.run(main()) == 0


LATE = """
import os, sys, threading
from pyspark import SparkConf
from pylog_broker.spark.driver import Driver
from pylog_broker.spark.settings import parse_settings

class Runtime:
    def halt(self, status):
        print("told to halt with", status, flush=True)
        if sys.argv[3] == "hangs":
            threading.Event().wait()

settings = parse_settings({}, submit_dir="/somewhere", master="local[2]")
driver = Driver(settings, SparkConf(loadDefaults=False), jvm_pid=int(sys.argv[1]))
driver._jvm = os.pidfd_open(int(sys.argv[1]))
driver._runtime = Runtime()
driver._only_spark_is_left = sys.argv[2] == "spark"
driver._end_now()
"""


@pytest.mark.parametrize(
    ("left", "answers", "status", "told"),
    [
        ("spark", "halts", 0, "told to halt with 0"),
        ("spark", "hangs", 0, "told to halt with 0"),
        ("brokers", "halts", 1, ""),
    ],
)
def test_a_late_stop_ends_both_halves(left: str, answers: str, status: int, told: str) -> None:
    jvm = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        command = [sys.executable, "-c", LATE, str(jvm.pid), left, answers]
        driver = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert (driver.returncode, driver.stdout.strip()) == (status, told), driver.stderr
        assert jvm.wait(30) == -signal.SIGKILL
    finally:
        jvm.terminate()
        jvm.wait()
