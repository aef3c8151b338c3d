"""The simulator's scheduler and network keep their own promises."""

from __future__ import annotations

from functools import partial

from tests.sim.net import Net, NetParameters
from tests.sim.scheduler import Scheduler, Trace


def network(seed: int, **parameters: float) -> tuple[Scheduler, Net]:
    scheduler = Scheduler(seed)
    return scheduler, Net(scheduler, NetParameters(**parameters))  # type: ignore[arg-type]


def nothing() -> None:
    pass


def test_events_run_in_order_of_time_then_of_posting() -> None:
    scheduler = Scheduler(1)
    seen: list[str] = []
    scheduler.at(5, seen.append, "b")
    scheduler.at(3, seen.append, "a")
    scheduler.at(5, seen.append, "c")
    scheduler.run_until(4)
    assert (seen, scheduler.now_us) == (["a"], 4)
    scheduler.run_until(10)
    assert (seen, scheduler.now_us) == (["a", "b", "c"], 10)


def test_sub_streams_do_not_disturb_each_other() -> None:
    one, two = Scheduler(7), Scheduler(7)
    one.rng("x").random()
    assert one.rng("y").random() == two.rng("y").random()
    assert one.rng("y").random() != one.rng("x").random()


def test_a_trace_keeps_the_newest_and_hashes_all() -> None:
    trace, other = Trace(keep=2), Trace(keep=2)
    for number in range(5):
        trace.add(number, "tick", (number,))
        other.add(number, "tick", (number if number != 1 else 9,))
    assert trace.lines() == other.lines()
    assert len(trace.lines()) == 2
    assert trace.hash != other.hash


def test_a_connection_is_in_order_even_with_late_messages() -> None:
    for seed in range(20):
        scheduler, net = network(seed, tail_share=0.3)
        seen: list[int] = []
        connection = net.connect("a", "b", nothing, nothing)
        for number in range(50):
            connection.send("a", partial(seen.append, number))
        scheduler.run_until(60_000_000)
        assert seen == list(range(50))


def test_a_reset_loses_a_tail_and_tells_both_sides_once() -> None:
    arrived = set()
    for seed in range(30):
        scheduler, net = network(seed)
        seen: list[int] = []
        told: list[str] = []
        connection = net.connect("a", "b", partial(told.append, "a"), partial(told.append, "b"))
        for number in range(10):
            connection.send("a", partial(seen.append, number))
        connection.reset()
        connection.send("a", partial(seen.append, 99))
        scheduler.run_until(60_000_000)
        assert seen == list(range(len(seen)))
        assert sorted(told) == ["a", "b"]
        arrived.add(len(seen))
    assert 0 in arrived
    assert 10 in arrived


def test_a_cut_holds_messages_back_one_way_until_it_heals() -> None:
    scheduler, net = network(1)
    seen: list[str] = []
    connection = net.connect("a", "b", nothing, nothing)
    net.cut("a", "b")
    connection.send("a", lambda: seen.append("to b"))
    connection.send("b", lambda: seen.append("to a"))
    scheduler.run_until(1_000_000)
    assert seen == ["to a"]
    net.heal()
    scheduler.run_until(2_000_000)
    assert seen == ["to a", "to b"]


def test_calls_may_be_lost_and_doubled() -> None:
    scheduler, net = network(1, drop=0.3, duplicate=0.3)
    seen: list[int] = []
    for number in range(200):
        net.call("a", "b", partial(seen.append, number))
    scheduler.run_until(60_000_000)
    assert len(set(seen)) < 200
    assert len(seen) > len(set(seen))


def test_a_dead_machine_is_noticed_only_by_time() -> None:
    scheduler, net = network(1)
    told: list[str] = []
    net.connect("a", "b", partial(told.append, "a"), partial(told.append, "b"))
    net.break_all_of("b", seen_by_peer=False)
    scheduler.run_until(19_000)
    assert told == []
    scheduler.run_until(9_000_000)
    assert told == ["a"]
