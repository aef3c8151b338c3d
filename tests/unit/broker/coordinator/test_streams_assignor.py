"""The sticky assignor: each task once, balanced, where it was; copies elsewhere."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from pylog_broker.coordinator.groups.streams.assignor import AssignedMember, assign_sticky
from pylog_broker.coordinator.groups.streams.tasks import NO_TASKS, TaskId, Tasks

STATEFUL = frozenset({"1"})


def all_tasks(tasks: dict[str, int], only: frozenset[str] | None = None) -> list[TaskId]:
    return [
        TaskId(name, number)
        for name, count in sorted(tasks.items())
        for number in range(count)
        if only is None or name in only
    ]


def check(
    members: dict[str, AssignedMember],
    tasks: dict[str, int],
    standbys: int,
    assigned: dict[str, Tasks],
) -> None:
    assert assigned.keys() == members.keys()
    active = [task for each in assigned.values() for task in each.active]
    assert sorted(active) == all_tasks(tasks)
    assert not any(each.warmup for each in assigned.values())
    by_process: dict[str, list[TaskId]] = {}
    for name, each in assigned.items():
        by_process.setdefault(members[name].process_id, []).extend(each.all())
    for held in by_process.values():
        assert len(set(held)) == len(held), "a process has a task twice"
    copies = Counter(task for each in assigned.values() for task in each.standby)
    wanted = min(standbys, len(by_process) - 1)
    for task in all_tasks(tasks, STATEFUL):
        assert copies.pop(task, 0) == wanted
    assert not copies, "a copy of a task without state"


SIZES = st.fixed_dictionaries({"0": st.integers(0, 12), "1": st.integers(0, 12)})
PROCESSES = st.lists(st.sampled_from("pqrs"), min_size=1, max_size=8)


@given(SIZES, PROCESSES, st.integers(0, 3), st.data())
def test_whatever_was_before_each_task_has_one_place(
    tasks: dict[str, int], processes: list[str], standbys: int, data: st.DataObject
) -> None:
    pool = all_tasks({"0": 14, "1": 14, "gone": 2})
    some = st.frozensets(st.sampled_from(pool), max_size=10)
    members = {
        f"m{n}": AssignedMember(process, Tasks(data.draw(some), data.draw(some), data.draw(some)))
        for n, process in enumerate(processes)
    }
    assigned = assign_sticky(members, tasks, STATEFUL, standbys)
    check(members, tasks, standbys, assigned)
    assert assign_sticky(members, tasks, STATEFUL, standbys) == assigned


@given(SIZES, st.integers(1, 6), st.integers(1, 3))
def test_members_alike_have_about_as_many_tasks(
    tasks: dict[str, int], processes: int, threads: int
) -> None:
    members = {
        f"m{p}-{t}": AssignedMember(f"p{p}") for p in range(processes) for t in range(threads)
    }
    assigned = assign_sticky(members, tasks, STATEFUL, 0)
    counts = [len(each.active) for each in assigned.values()]
    assert max(counts) - min(counts) <= 1
    stateful = [sum(task.subtopology_id == "1" for task in m.active) for m in assigned.values()]
    assert max(stateful) - min(stateful) <= 1


@given(SIZES, st.integers(1, 6), st.integers(0, 2))
def test_what_is_balanced_stays(tasks: dict[str, int], count: int, standbys: int) -> None:
    members = {f"m{n}": AssignedMember(f"p{n}") for n in range(count)}
    first = assign_sticky(members, tasks, STATEFUL, standbys)
    again = {name: AssignedMember(f"p{name[1:]}", first[name]) for name in members}
    second = assign_sticky(again, tasks, STATEFUL, standbys)
    assert {name: each.active for name, each in second.items()} == {
        name: each.active for name, each in first.items()
    }


def test_a_task_of_a_lost_member_goes_to_its_standby() -> None:
    tasks = {"1": 3}
    members = {f"m{n}": AssignedMember(f"p{n}") for n in range(3)}
    first = assign_sticky(members, tasks, STATEFUL, 1)
    lost = first["m0"].active
    left = {name: AssignedMember(f"p{name[1:]}", first[name]) for name in ("m1", "m2")}
    second = assign_sticky(left, tasks, STATEFUL, 1)
    for task in lost:
        (owner,) = [name for name, each in second.items() if task in each.active]
        assert task in first[owner].standby


def test_nobody_is_given_anything_where_there_is_nobody() -> None:
    assert assign_sticky({}, {"0": 3}, STATEFUL, 1) == {}
    members = {"m": AssignedMember("p", NO_TASKS)}
    assert assign_sticky(members, {}, STATEFUL, 1) == {"m": NO_TASKS}
