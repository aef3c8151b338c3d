"""A listener's view of its connections: newcomers, idle ones, and answers in their order."""

from __future__ import annotations

import asyncio
from collections import deque

from pylog_broker.net.connection import Slot, take_ready
from pylog_broker.net.connections import IdleClose, Newcomers


class Peer:
    """A connection; the test says what it does."""

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.received = 0
        self.is_idle = True
        self.ended = ""

    def close(self) -> None:
        self.ended = "closed"
        self.is_idle = False

    def give_way(self) -> None:
        self.ended = "gave way"


def test_newcomers_give_way_the_oldest_first_and_end_at_their_second_look() -> None:
    async def main() -> None:
        late: list[Peer] = []
        newcomers: Newcomers[Peer] = Newcomers(5.0, late.append)
        assert not newcomers.make_room()
        first, second, third = Peer(), Peer(), Peer()
        for peer in (first, second, third):
            newcomers.add(peer)
        assert newcomers.make_room()
        assert [peer.ended for peer in (first, second, third)] == ["gave way", "", ""]
        newcomers.look()
        newcomers.stop()
        fresh = Peer()
        newcomers.add(fresh)
        newcomers.discard(second)
        newcomers.look()
        newcomers.stop()
        assert late == [third]
        newcomers.look()
        newcomers.stop()
        assert late == [third, fresh]
        assert not newcomers.make_room()

    asyncio.run(main())


def test_those_without_work_close_and_those_that_did_something_stay() -> None:
    async def main() -> None:
        idle, busy, working = Peer(), Peer(), Peer()
        working.is_idle = False
        close: IdleClose[Peer] = IdleClose({idle, busy, working}, 60_000)
        close.look()
        assert not any(peer.ended for peer in (idle, busy, working))
        close.seconds_max = 0
        close.stop()
        idle.received += 1  # counts from here on
        for _ in range(2):
            busy.received += 1
            close.look()
            close.stop()
        assert (idle.ended, working.ended) == ("closed", "")

    asyncio.run(main())


def test_nothing_is_looked_at_without_a_limit() -> None:
    close: IdleClose[Peer] = IdleClose(set(), -1)
    close.start()  # needs no loop


def test_answers_are_taken_in_order_as_far_as_they_are_there() -> None:
    slots = deque([Slot(), Slot(), Slot()])
    first, second, third = slots
    second.answer = [b"2"]
    assert take_ready(slots) == []
    first.answer = [b"1", b"one"]
    assert take_ready(slots) == [b"1", b"one", b"2"]
    assert [*slots] == [third]
    third.answer = []
    assert take_ready(slots) == []
    assert not slots
