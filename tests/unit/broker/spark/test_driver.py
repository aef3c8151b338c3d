"""The events that end the driver, without Spark."""

from __future__ import annotations

import asyncio

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
