"""An event loop in simulated time: in order, a moment later, and gone with its process."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

import pytest

from pylog import errors
from tests.sim.rpc import Actor, Machine
from tests.sim.scheduler import Scheduler
from tests.sim.sim_loop import SimLoop
from tests.sim.violation import Violation
from tests.sim.workers import Pool


class World:
    """A process with a loop."""

    def __init__(self, seed: int = 1) -> None:
        self.scheduler = Scheduler(seed)
        self.actor = Actor(Machine("b1", self.scheduler, 0))
        pool = Pool(self.actor, self.scheduler.rng("pool"), lambda: 5.0)
        self.loop = SimLoop(self.actor, pool, self.scheduler.rng("loop"))
        self.told: list[object] = []

    def run(self, us: int = 1_000_000) -> None:
        self.scheduler.run_until(self.scheduler.now_us + us)

    def begin(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        return self.loop.create_task(work)


def test_what_is_asked_for_runs_in_order_and_later() -> None:
    world = World()
    for number in range(20):
        world.loop.call_soon(world.told.append, number)
    assert world.told == []
    world.run()
    assert world.told == list(range(20))


def test_the_same_seed_gives_the_same_times() -> None:
    def times(seed: int) -> list[int]:
        world = World(seed)
        for _ in range(5):
            world.loop.call_soon(lambda: world.told.append(world.scheduler.now_us))
        world.run()
        return world.told  # type: ignore[return-value]

    assert times(3) == times(3) != times(4)


def test_a_timer_comes_when_its_time_is_up_and_not_when_it_was_taken_back() -> None:
    world = World()
    world.loop.call_later(0.1, world.told.append, "kept")
    gone = world.loop.call_later(0.1, world.told.append, "taken back")
    gone.cancel()
    world.run(99_000)
    assert world.told == []
    world.run(2_000)
    assert (world.told, gone.cancelled()) == (["kept"], True)


def test_a_task_waits_for_a_future() -> None:
    world = World()
    answered = world.loop.create_future()

    async def ask() -> None:
        world.told.append(await answered)

    world.begin(ask())
    world.run()
    assert world.told == []
    answered.set_result("it is")
    world.run()
    assert world.told == ["it is"]


def test_work_beside_the_loop_comes_back_to_it() -> None:
    world = World()

    def fails(why: str) -> None:
        raise OSError(why)

    async def ask() -> None:
        world.told.append(await world.loop.run_in_executor(None, str.upper, "done"))
        try:
            await world.loop.run_in_executor(None, fails, "no room")
        except OSError as error:
            world.told.append(str(error))

    world.begin(ask())
    world.run()
    assert world.told == ["DONE", "no room"]


def test_a_process_that_died_runs_nothing_more() -> None:
    world = World()
    answered = world.loop.create_future()

    async def ask() -> None:
        world.told.append(await answered)

    task = world.begin(ask())
    world.run()
    world.loop.call_soon(world.told.append, "soon")
    world.actor.alive = False
    answered.set_result("too late")
    world.run()
    assert (world.told, task.done()) == ([], False)
    world.loop.call_exception_handler({"message": "a task is gone", "exception": OSError()})


def test_what_nobody_awaits_fails_the_run() -> None:
    world = World()
    with pytest.raises(Violation, match="never retrieved: OSError"):
        world.loop.call_exception_handler(
            {"message": "an exception was never retrieved", "exception": OSError("why")}
        )


def test_a_fault_in_a_task_fails_the_run_though_another_task_would_swallow_it() -> None:
    world = World()

    async def fails() -> None:
        raise Violation("I7", "seen too early")

    async def swallows() -> None:
        with suppress(Violation):
            await world.loop.create_task(fails())

    world.begin(swallows())
    with pytest.raises(Violation, match="seen too early"):
        world.run()


def test_an_error_of_the_product_is_for_who_awaits_the_task() -> None:
    world = World()

    async def refuses() -> None:
        raise errors.NotCoordinator("elsewhere")

    async def asks() -> None:
        with suppress(errors.NotCoordinator):
            await world.loop.create_task(refuses())
        world.told.append("refused")

    world.begin(asks())
    world.run()
    assert world.told == ["refused"]


def test_a_task_may_wait_for_a_time_only() -> None:
    world = World()

    async def wait() -> None:
        try:
            async with asyncio.timeout(0.1):
                await asyncio.Event().wait()
        except TimeoutError:
            world.told.append(world.loop.time())

    asyncio._set_running_loop(world.loop)  # type: ignore[arg-type]
    try:
        world.begin(wait())
        world.run(99_000)
        assert world.told == []
        world.run(5_000)
    finally:
        asyncio._set_running_loop(None)
    (at_s,) = world.told
    assert isinstance(at_s, float)
    assert 0.1 <= at_s < 0.105
