"""Answers that clients do not take are bounded over all of them."""

from __future__ import annotations

from pylog import errors
from pylog_broker.api.answer_memory import SMALL_BYTES, TAKEN_BYTES_MIN, AnswerMemory

MIB = 1 << 20


class Client:
    """Asked for an answer of `size`; takes it when the test says so."""

    def __init__(self, memory: AnswerMemory, size: int) -> None:
        self.memory = memory
        self.size = size
        self.unsent_bytes = 0

    def ask(self) -> bool:
        if self.memory.is_full or not self.memory.fits(self.size):
            self.memory.wait(self)
            return False
        self.left(self.size)
        return True

    def left(self, size: int) -> None:
        self.unsent_bytes = size
        self.memory.hold(self, size)

    def resume(self) -> None:
        self.ask()

    def drop(self, fault: errors.PylogError) -> None:
        raise AssertionError


def test_answers_wait_for_those_that_nobody_takes() -> None:
    memory = AnswerMemory(10 * MIB)
    clients = [Client(memory, 4 * MIB) for _ in range(5)]
    assert [client.ask() for client in clients] == [True, True, False, False, False]
    assert (memory.unsent, memory.waiting) == (8 * MIB, 3)
    clients[0].left(0)
    assert [client.unsent_bytes // MIB for client in clients] == [0, 4, 4, 0, 0]
    memory.forget(clients[1])
    assert [client.unsent_bytes // MIB for client in clients[2:]] == [4, 4, 0]


def test_one_answer_above_the_limit_is_given_and_small_ones_always() -> None:
    memory = AnswerMemory(MIB)
    assert Client(memory, 50 * MIB).ask()
    assert memory.is_full
    assert memory.fits(SMALL_BYTES)
    assert not memory.fits(SMALL_BYTES + 1)


def test_a_look_sees_what_was_taken() -> None:
    memory = AnswerMemory(MIB)
    client, other = Client(memory, MIB), Client(memory, MIB)
    client.ask()
    assert not other.ask()
    client.unsent_bytes = 0
    assert memory.look() == []
    assert other.unsent_bytes == MIB


def test_who_takes_next_to_nothing_while_others_wait_is_closed() -> None:
    memory = AnswerMemory(2 * MIB)
    still, slow, other = (Client(memory, MIB) for _ in range(3))
    still.ask()
    slow.ask()
    assert memory.look() == memory.look() == []  # nobody waits
    assert not other.ask()
    assert memory.look() == []
    slow.unsent_bytes -= TAKEN_BYTES_MIN
    assert memory.look() == [still]
    memory.forget(still)
    assert (other.unsent_bytes, memory.waiting) == (MIB, 0)
    assert memory.unsent == 2 * MIB - TAKEN_BYTES_MIN
