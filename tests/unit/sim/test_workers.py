"""Work beside a simulated process's loop: in turn with it, and gone with its process."""

from __future__ import annotations

import random
from collections.abc import Callable

from tests.sim.disk import Disk
from tests.sim.files import SimFiles
from tests.sim.rpc import Actor, Machine
from tests.sim.scheduler import Scheduler
from tests.sim.workers import Pool

SECOND_US = 1_000_000


class World:
    """A process whose files wait."""

    def __init__(self, seed: int = 1) -> None:
        self.scheduler = Scheduler(seed)
        self.actor = Actor(Machine("b1", self.scheduler, 0))
        self.pool = Pool(self.actor, self.scheduler.rng("pool"), lambda: 5.0)
        self.files = SimFiles(Disk(), rng=random.Random(1))
        self.files.pool = self.pool
        self.handle = self.files.open("/data/f", create=True)
        self.told: list[object] = []

    def sync(self, times: int = 3) -> Callable[[], str]:
        def work() -> str:
            for number in range(times):
                self.told.append(number)
                self.files.fsync(self.handle)
            return "done"

        return work

    def run(self, us: int = SECOND_US) -> None:
        self.scheduler.run_until(self.scheduler.now_us + us)


def test_the_loop_goes_on_while_a_thread_waits_for_the_disk() -> None:
    world = World()
    world.pool.run("sync", world.sync(), world.told.append)
    for at_us in range(0, 60_000, 1_000):
        world.scheduler.at(at_us, world.told.append, "loop")
    world.run()
    work = [what for what in world.told if what != "loop"]
    assert work == [0, 1, 2, "done"]
    assert "loop" in world.told[world.told.index(0) : world.told.index(2)]


def test_the_same_seed_gives_the_same_turns() -> None:
    def turns() -> list[int]:
        world = World(7)
        found: list[int] = []
        for name in "ab":
            world.pool.run(name, world.sync(), lambda _: found.append(world.scheduler.now_us))
        world.run()
        return found

    assert turns() == turns()


def test_what_the_work_raises_is_told() -> None:
    world = World()
    fault = OSError("no")

    def work() -> None:
        raise fault

    world.pool.run("sync", work, world.told.append)
    world.run()
    assert world.told == [fault]


def test_a_process_that_dies_takes_its_threads_with_it() -> None:
    world = World()
    world.pool.run("sync", world.sync(), world.told.append)
    while 0 not in world.told:
        world.scheduler.step()
    assert world.pool.under_way == ["sync"]
    world.pool.abandon()
    world.actor.alive = False
    world.run()
    assert world.told == [0]
    assert world.pool.under_way == []


def test_an_end_waits_for_what_runs_and_drops_the_rest() -> None:
    world = World()
    world.pool.run("first", world.sync(), world.told.append)
    while 0 not in world.told:
        world.scheduler.step()
    world.pool.run("second", world.sync(), world.told.append)
    world.pool.end(lambda: world.told.append("ended"))
    world.run()
    assert world.told == [0, 1, 2, "done", "ended"]


def test_work_at_a_disk_that_stalls_goes_on_when_it_answers_again() -> None:
    world = World()
    world.pool.run("sync", world.sync(), world.told.append, "a log")
    while 0 not in world.told:
        world.scheduler.step()
    world.pool.is_stalled = True
    world.run()
    assert world.told == [0]
    assert (world.pool.subjects("sync"), world.pool.subjects("start")) == (["a log"], [])
    world.pool.is_stalled = False
    world.run()
    assert world.told == [0, 1, 2, "done"]
    assert world.pool.subjects("sync") == []
