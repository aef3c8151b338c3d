"""Producer ids: never twice, the next block before the last id is gone."""

from __future__ import annotations

import asyncio

import pytest

from pylog import errors
from pylog.model import ProducerId
from pylog_broker.metadata.messages import Failure, ProducerIdBlock
from pylog_broker.node.producer_ids import ProducerIds


class Blocks:
    """Deals blocks of ten; fails while `broken`."""

    def __init__(self) -> None:
        self.dealt = 0
        self.broken: errors.PylogError | Failure | None = None

    async def allocate(self) -> ProducerIdBlock | Failure:
        await asyncio.sleep(0)
        if isinstance(self.broken, Failure):
            return self.broken
        if self.broken is not None:
            raise self.broken
        self.dealt += 1
        return ProducerIdBlock(ProducerId(self.dealt * 100), 10)


def test_ids_are_dealt_once_and_in_order() -> None:
    async def test() -> None:
        ids = ProducerIds(Blocks().allocate)
        taken = await asyncio.gather(*(ids.take() for _ in range(25)))
        assert sorted(taken) == [*range(100, 110), *range(200, 210), *range(300, 305)]
        ids.stop()

    asyncio.run(test())


def test_a_prepared_block_serves_without_the_controller() -> None:
    async def test() -> None:
        blocks = Blocks()
        ids = ProducerIds(blocks.allocate)
        ids.prepare()
        while not blocks.dealt:
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        blocks.broken = errors.NetworkException()
        assert await ids.take() == 100
        ids.stop()

    asyncio.run(test())


def test_the_next_block_is_there_before_it_is_needed() -> None:
    async def test() -> None:
        blocks = Blocks()
        ids = ProducerIds(blocks.allocate)
        for _ in range(9):
            await ids.take()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert blocks.dealt == 2
        ids.stop()

    asyncio.run(test())


@pytest.mark.parametrize("broken", [errors.BrokerUnreachable("gone"), Failure(77, "refused")])
def test_without_a_controller_the_error_is_named_and_later_ids_come(
    broken: errors.PylogError | Failure,
) -> None:
    async def test() -> None:
        blocks = Blocks()
        blocks.broken = broken
        ids = ProducerIds(blocks.allocate)
        with pytest.raises(errors.CoordinatorNotAvailable, match=r"gone|refused"):
            await ids.take()
        blocks.broken = None
        assert await ids.take() == 100
        ids.stop()

    asyncio.run(test())
