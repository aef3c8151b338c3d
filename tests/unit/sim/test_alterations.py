"""Requests to alter ISRs travel as calls do, unless a strike holds them back."""

from __future__ import annotations

from functools import partial

from pylog.model import BrokerEpoch, BrokerId
from pylog_broker.metadata.messages import AlterPartition
from tests.sim.alterations import Alterations
from tests.sim.net import Deliver, Net, NetParameters
from tests.sim.scheduler import Scheduler

REQUEST = AlterPartition(BrokerId(1), BrokerEpoch(5), ())


def test_a_request_that_nobody_holds_arrives_once() -> None:
    scheduler = Scheduler(1)
    alterations = Alterations(Net(scheduler, NetParameters()))
    arrived: list[str] = []
    alterations.post(REQUEST, "b1", "ctl", partial(arrived.append, "it"))
    scheduler.run_until(60_000_000)
    assert arrived == ["it"]


def test_a_request_that_is_held_arrives_when_and_as_often_as_its_holder_says() -> None:
    scheduler = Scheduler(1)
    alterations = Alterations(Net(scheduler, NetParameters()))
    arrived: list[str] = []
    held: list[tuple[AlterPartition, Deliver]] = []

    def hold(request: AlterPartition, deliver: Deliver) -> bool:
        held.append((request, deliver))
        return True

    alterations.hold = hold
    alterations.post(REQUEST, "b1", "ctl", partial(arrived.append, "it"))
    scheduler.run_until(60_000_000)
    ((request, deliver),) = held
    assert (request, arrived) == (REQUEST, [])
    deliver()
    deliver()
    assert arrived == ["it", "it"]
