"""The life of a broker: registrations, sessions, fencing; and what elections follow."""

from __future__ import annotations

from typing import TypeVar

import pytest

from pylog import errors
from pylog.model import NO_BROKER_EPOCH, NO_LEADER, BrokerId, ControllerEpoch, Offset
from pylog_broker.controller.effects import Effect, RejectSession, Report, TellSession
from pylog_broker.controller.settings import ControllerSettings
from pylog_broker.metadata.image import MetadataImage
from pylog_broker.metadata.messages import BrokerRegistered, Failure, HeartbeatAccepted
from pylog_broker.metadata.records import Endpoint, Listener, usual_listeners
from tests.fakes.controller_shell import ControllerShell, Incarnation

B1 = BrokerId(1)
T = TypeVar("T", bound=Effect)


def three() -> tuple[ControllerShell, list[Incarnation]]:
    shell = ControllerShell()
    return shell, [shell.join(number) for number in (1, 2, 3)]


def restarted(
    shell: ControllerShell, settings: ControllerSettings | None = None
) -> ControllerShell:
    """The controller alone starts again on its log."""
    image = MetadataImage.from_records(
        shell.controller.image.records(), shell.controller.image.offset
    )
    return ControllerShell(image, settings=settings or shell.settings, now_ms=5)


def fenced(shell: ControllerShell, broker: int) -> bool:
    return shell.controller.image.brokers[BrokerId(broker)].fenced


def state(shell: ControllerShell) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    """(leader, ISR, ELR) of the only partition."""
    partition = shell.partition()
    return partition.leader, partition.isr, partition.eligible_leader_replicas


def refusal(shell: ControllerShell, broker: int, life: int = 1, **changes: object) -> Failure:
    answer = shell.call("register_broker", shell.registration(broker, life, **changes))
    assert isinstance(answer, Failure)
    return answer


def of_kind(shell: ControllerShell, kind: type[T]) -> list[T]:
    return [effect for effect in shell.others if isinstance(effect, kind)]


# ---- what ends a session ----------------------------------------------------------------------


def test_a_broken_stream_fences_after_the_grace() -> None:
    shell, (one, two, three_) = three()
    shell.create()
    shell.broken(one)
    shell.advance(290, alive=(two, three_))
    assert not fenced(shell, 1)
    shell.advance(20, alive=(two, three_))
    assert fenced(shell, 1)
    assert state(shell) == (2, (2, 3), ())


def test_since_when_a_broker_is_fenced_is_known_by_the_time_of_day() -> None:
    shell = ControllerShell(now_ms=1_000, wall_ms=5_000_000)
    one, two, three_ = (shell.join(number) for number in (1, 2, 3))

    def since_ms() -> int:
        return shell.controller.image.brokers[B1].fenced_since_ms

    assert since_ms() == 0
    shell.broken(one)
    shell.advance(310, alive=(two, three_))
    assert fenced(shell, 1)
    first = since_ms()
    assert 5_000_290 <= first <= 5_000_310
    shell.advance(5_000, alive=(two, three_))
    shell.call("register_broker", shell.registration(1, 2))  # it has not served since
    assert (fenced(shell, 1), since_ms()) == (True, first)
    image = MetadataImage.from_records(shell.controller.image.records(), Offset(99))
    assert image.brokers == shell.controller.image.brokers
    shell.join(1, 3)
    assert (fenced(shell, 1), since_ms()) == (False, 0)
    shell.call("register_broker", shell.registration(1, 4))  # the one that served is dead
    assert (fenced(shell, 1), since_ms()) == (True, 5_000_000 + shell.now_ms - 1_000)


def test_the_same_incarnation_may_come_back_within_the_grace() -> None:
    shell, (one, two, three_) = three()
    shell.create()
    before = shell.partition()
    shell.broken(one)
    shell.advance(250, alive=(two, three_))
    shell.open(one)
    shell.advance(2_000, alive=(one, two, three_))
    assert not fenced(shell, 1)
    assert shell.partition() == before


def test_an_old_stream_that_breaks_after_the_new_one_opened_means_nothing() -> None:
    shell, brokers = three()
    shell.open(brokers[0])
    shell.broken(brokers[0])
    shell.advance(1_000, alive=tuple(brokers))
    assert not fenced(shell, 1)


def test_the_end_of_a_task_fences_at_once_and_its_orphan_is_rejected() -> None:
    shell, (one, _, _) = three()
    shell.create()
    shell.others.clear()
    shell.lose(one)
    assert fenced(shell, 1)
    assert state(shell) == (2, (2, 3), ())
    assert [e.broker_epoch for e in of_kind(shell, RejectSession)] == [one.epoch]
    shell.others.clear()
    shell.open(one)
    shell.progress(one)
    assert [e.broker_epoch for e in of_kind(shell, RejectSession)] == [one.epoch]
    assert fenced(shell, 1)
    again = refusal(shell, 1)
    assert again.code == errors.StaleBrokerEpoch.code


def test_the_lease_is_the_last_resort() -> None:
    shell, (one, two, three_) = three()
    shell.create()
    shell.advance(5_900, alive=(two, three_))  # the stream of 1 stands, but it says nothing
    assert not fenced(shell, 1)
    shell.advance(200, alive=(two, three_))
    assert fenced(shell, 1)
    told = of_kind(shell, TellSession)[-1]
    assert (told.broker_id, told.fenced) == (B1, True)
    # It was only slow: under the same epoch it may serve again, but not lead at once.
    shell.progress(one)
    assert not fenced(shell, 1)
    assert state(shell) == (2, (2, 3), ())


def test_heartbeats_alone_keep_a_broker_alive() -> None:
    shell, brokers = three()
    shell.advance(20_000, alive=tuple(brokers))
    assert not any(fenced(shell, n) for n in (1, 2, 3))
    answer = shell.call("heartbeat", B1, brokers[0].epoch)
    assert answer == HeartbeatAccepted(ControllerEpoch(1), False)


def test_a_paused_controller_fences_nobody() -> None:
    # B-C4: what came in the pause waits in the sockets
    shell, brokers = three()
    shell.create()
    before = shell.partition()
    shell.broken(brokers[2])
    shell.now_ms += 30_000
    shell.perform(shell.controller.on_time(shell.now_ms))
    assert not any(fenced(shell, n) for n in (1, 2, 3))
    shell.open(brokers[2])
    shell.advance(1_000, alive=tuple(brokers))
    assert shell.partition() == before


def test_a_clock_that_goes_back_delays_but_breaks_nothing() -> None:
    shell, brokers = three()
    shell.now_ms -= 100_000
    shell.perform(shell.controller.on_time(shell.now_ms))
    shell.advance(5_900)
    assert not fenced(shell, 1)
    shell.advance(300, alive=tuple(brokers[1:]))
    assert fenced(shell, 1)


# ---- a start of the controller -----------------------------------------------------------------


def test_after_a_start_nobody_is_fenced_for_one_session_time_out() -> None:
    first, brokers = three()
    first.create()
    shell = restarted(first)
    shell.open(brokers[1])  # 1 and 3 have not called yet
    shell.advance(5_900, alive=(brokers[1],))
    assert not any(fenced(shell, n) for n in (1, 2, 3))
    assert state(shell) == (1, (1, 2, 3), ())
    shell.advance(200, alive=(brokers[1],))
    assert [fenced(shell, n) for n in (1, 2, 3)] == [True, False, True]
    assert state(shell) == (2, (2,), ())


def test_brokers_that_outlived_the_controller_are_left_alone() -> None:
    first, brokers = three()
    first.create()
    before = first.partition()
    shell = restarted(first)
    for broker in brokers:
        shell.open(broker)
        shell.progress(broker)
    shell.advance(20_000, alive=tuple(brokers))
    assert shell.partition() == before
    assert shell.log == [shell.log[0]]  # only the new controller epoch


def test_a_restart_of_everything_loses_nothing() -> None:
    # B-C5, Q-P10
    first, _ = three()
    first.create(config={"min.insync.replicas": "2"})
    old = first.partition()
    shell = restarted(first)
    lives = [shell.register(n, life=2) for n in (2, 3, 1)]
    assert state(shell) == (NO_LEADER, (), (3, 1))
    for life in lives:
        shell.open(life)
        shell.progress(life)
    leader, isr, elr = state(shell)
    assert (leader, isr, elr) == (3, (3,), (1,))
    assert shell.partition().leader_epoch > old.leader_epoch
    shell.alter([3, 1, 2])
    assert state(shell) == (3, (3, 1, 2), ())


def test_no_unclean_election_before_brokers_had_time_to_return() -> None:
    first, brokers = three()
    first.create(assignment={0: [1, 2]}, config={"unclean.leader.election.enable": "true"})
    first.alter([1])
    shell = restarted(first)
    shell.register(1, life=2)
    shell.open(brokers[1])
    shell.progress(brokers[1])
    shell.advance(5_800, alive=(brokers[1],))
    assert state(shell) == (NO_LEADER, (), (1,))
    shell.advance(300, alive=(brokers[1],))
    assert state(shell) == (2, (2,), ())


def test_brokers_that_have_not_come_yet_after_a_start_are_no_warnings() -> None:
    """A cluster that starts again: its brokers may take longer than a session."""
    first, _ = three()
    first.create()
    shell = restarted(first)
    shell.others.clear()
    three_ = shell.join(3, life=2)
    shell.advance(6_100, alive=(three_,))
    assert fenced(shell, 1)
    assert fenced(shell, 2)
    reports = [report.message for report in of_kind(shell, Report) if "not heard" in report.message]
    assert reports == ["brokers not heard yet since this start: 1, 2; others lead meanwhile"]
    assert not any("is fenced" in report.message for report in of_kind(shell, Report))
    shell.others.clear()
    shell.advance(6_100)
    assert [report.warning for report in of_kind(shell, Report)] == [True]


# ---- registration ------------------------------------------------------------------------------


def test_one_epoch_per_incarnation() -> None:
    # B-R26, KAFKA-16952
    shell, brokers = three()
    shell.create()
    before = shell.partition()
    assert shell.register(1).epoch == brokers[0].epoch
    assert shell.partition() == before
    assert not fenced(shell, 1)


def test_a_late_registration_of_an_earlier_incarnation_is_refused() -> None:
    # B-R26
    shell, _ = three()
    newer = shell.join(1, life=2)
    late = refusal(shell, 1, life=1)
    assert late.code == errors.StaleBrokerEpoch.code
    assert shell.controller.image.brokers[B1].broker_epoch == newer.epoch


def test_a_late_registration_replaces_nobody_after_a_controller_start_either() -> None:
    """The incarnations that have ended are forgotten then; the registration has the epoch that it
    meant to replace.
    """
    first, _ = three()
    first.create()
    late = first.registration(1, life=2, log_intact=False)
    first.register(1, life=2, log_intact=False)
    newer = first.join(1, life=3)
    shell = restarted(first)
    before = shell.partition()
    shell.open(newer)
    answer = shell.call("register_broker", late)
    assert isinstance(answer, Failure)
    assert answer.code == errors.StaleBrokerEpoch.code
    assert shell.controller.image.brokers[B1].broker_epoch == newer.epoch
    assert shell.partition() == before
    assert of_kind(shell, RejectSession) == []


def test_the_first_registration_of_a_directory_is_late_too() -> None:
    shell = ControllerShell()
    first = shell.registration(1)
    assert first.previous_broker_epoch == NO_BROKER_EPOCH
    shell.register(1)
    newer = shell.join(1, life=2)
    again = restarted(shell)
    assert isinstance(again.call("register_broker", first), Failure)
    assert again.call("register_broker", shell.registration(1, life=2)) == BrokerRegistered(
        newer.epoch, again.controller.controller_epoch
    )


def test_who_was_unregistered_registers_whatever_it_was_told() -> None:
    shell, (one, *_) = three()
    shell.lose(one)
    request = shell.registration(1, life=2)
    shell.call("unregister_broker", B1)
    assert isinstance(shell.call("register_broker", request), BrokerRegistered)


def test_a_new_incarnation_with_the_same_directory_is_accepted_at_once() -> None:
    # It holds the directory's lock, so the old process is gone, stream or not. (K41)
    shell, brokers = three()
    shell.create()
    shell.others.clear()
    epoch = shell.partition().leader_epoch
    newer = shell.register(1, life=2)
    assert newer.epoch > brokers[0].epoch
    assert fenced(shell, 1)
    assert state(shell) == (2, (2, 3), ())
    assert shell.partition().leader_epoch == epoch + 1
    assert [e.broker_epoch for e in of_kind(shell, RejectSession)] == [brokers[0].epoch]
    stale = shell.call("heartbeat", B1, brokers[0].epoch)
    assert isinstance(stale, Failure)
    assert stale.code == errors.StaleBrokerEpoch.code


def test_a_second_broker_of_the_same_id_waits_for_the_end_of_the_first() -> None:
    # B-R27
    shell, (one, two, three_) = three()
    shell.create()
    other = refusal(shell, 1, life=2, directory_id="another")
    assert other.code == errors.DuplicateBrokerRegistration.code
    assert "directory-1" in other.message
    shell.broken(one)
    assert refusal(shell, 1, life=2, directory_id="another").code == other.code
    shell.advance(310, alive=(two, three_))
    assert shell.register(1, life=2, directory_id="another").epoch > one.epoch


def test_after_a_controller_start_too() -> None:
    first, _ = three()
    shell = restarted(first)
    code = errors.DuplicateBrokerRegistration.code
    assert refusal(shell, 1, life=2, directory_id="another").code == code
    shell.advance(6_100)
    shell.register(1, life=2, directory_id="another")


def test_a_leader_that_comes_back_at_once_leads_under_a_new_epoch() -> None:
    # B-R28
    shell = ControllerShell()
    one = shell.join(1)
    shell.create(replication=1)
    shell.lose(one)
    shell.join(1, life=2)
    assert state(shell) == (1, (1,), ())
    assert shell.partition().leader_epoch == 2


HERE = Endpoint("h", 1)


def at(
    clients: Endpoint = HERE, brokers: Endpoint = HERE, streams: Endpoint | None = None
) -> tuple[Listener, ...]:
    return usual_listeners(clients, brokers, streams)


def named(name: str) -> Listener:
    return Listener(name, HERE, "grpc", "clients")


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"cluster_id": "other"}, errors.InconsistentClusterId, "another data directory"),
        ({"highest_controller_epoch": 9}, errors.StaleControllerEpoch, "old copy"),
        ({"broker_id": 0}, errors.InvalidRegistration, "not from 1"),
        ({"broker_id": 2_000_000}, errors.InvalidRegistration, "not from 1"),
        ({"incarnation_id": ""}, errors.InvalidRegistration, "no incarnation"),
        ({"directory_id": ""}, errors.InvalidRegistration, "needs exactly one"),
        ({"directory_id": "directory-2"}, errors.InvalidRegistration, "copy of it"),
        (
            {"listeners": at(clients=Endpoint("0.0.0.0", 1))},
            errors.InvalidRegistration,
            "0.0.0.0:1",
        ),
        ({"listeners": at(clients=Endpoint("::", 1))}, errors.InvalidRegistration, "[::]:1"),
        ({"listeners": at(clients=Endpoint("", 1))}, errors.InvalidRegistration, "host is empty"),
        ({"listeners": at(brokers=Endpoint("h", 0))}, errors.InvalidRegistration, "REPLICATION"),
        (
            {"listeners": at(streams=Endpoint("h", 0))},
            errors.InvalidRegistration,
            "of listener STREAMS",
        ),
        ({"listeners": at()[1:]}, errors.InvalidRegistration, "for clients that speaks grpc"),
        ({"listeners": at()[:1]}, errors.InvalidRegistration, "for brokers that speaks kafka"),
        ({"listeners": at() * 2}, errors.InvalidRegistration, "two listeners of the name CLIENTS"),
        ({"listeners": at() * 9}, errors.InvalidRegistration, "18 listeners; it may have 16"),
        ({"listeners": (named(""), *at())}, errors.InvalidRegistration, "a name has 1 to 64"),
        ({"listeners": (named("x" * 65), *at())}, errors.InvalidRegistration, "a name has 1 to 64"),
    ],
)
def test_registrations_that_are_refused(
    changes: dict[str, object], error: type[errors.PylogError], words: str
) -> None:
    # bad inputs 49 to 51
    shell = ControllerShell()
    shell.join(2)
    answer = refusal(shell, 1, **changes)
    assert answer.code == error.code
    assert words in answer.message


# ---- data that may be lost ---------------------------------------------------------------------


def test_a_new_directory_leaves_every_isr_before_it_is_unfenced() -> None:
    # B-C11
    shell, brokers = three()
    shell.create(config={"min.insync.replicas": "2"})
    shell.lose(brokers[2])
    shell.lose(brokers[0])
    assert state(shell) == (2, (2,), (1,))
    shell.register(1, life=2, directory_id="empty")
    assert state(shell) == (2, (2,), ())
    assert shell.partition().last_known_elr == ()
    assert shell.partition().emptied_replicas == (1,)
    assert shell.partition().directories == ("empty", "directory-2", "directory-3")
    shell.lose(brokers[1])
    shell.join(1, life=3, directory_id="empty")
    assert state(shell) == (NO_LEADER, (), (2,))  # the empty one may lead nothing


def test_the_leader_epoch_rises_where_an_unclean_broker_led() -> None:
    # B-R24
    shell, _ = three()
    shell.create()
    epoch = shell.partition().leader_epoch
    shell.register(1, life=2, log_intact=False)
    assert state(shell) == (2, (2, 3), ())
    assert shell.partition().leader_epoch == epoch + 1


def test_the_last_one_with_a_lost_tail_gives_way_to_an_eligible_one() -> None:
    # B-R23
    shell, brokers = three()
    shell.create(config={"min.insync.replicas": "2"})
    shell.lose(brokers[2])
    shell.lose(brokers[1])
    assert state(shell) == (1, (1,), (2,))
    shell.join(1, life=2, log_intact=False)
    assert state(shell) == (NO_LEADER, (), (2,))
    shell.join(2, life=2)
    assert state(shell) == (2, (2,), ())
    assert shell.partition().last_known_elr == (1,)


def test_with_all_tails_lost_the_partition_is_offline_rather_than_lossy() -> None:
    shell, brokers = three()
    shell.create()
    for broker in brokers:
        shell.lose(broker)
    for number in (1, 2, 3):
        shell.join(number, life=2, log_intact=False)
    assert state(shell) == (NO_LEADER, (), ())
    assert shell.partition().last_known_elr == (3,)


def test_an_only_replica_with_a_lost_tail_leads_but_loudly() -> None:
    shell = ControllerShell()
    one = shell.join(1)
    shell.create(replication=1)
    shell.lose(one)
    shell.others.clear()
    shell.join(1, life=2, log_intact=False)
    assert state(shell) == (1, (1,), ())
    warnings = [e for e in shell.others if getattr(e, "warning", False)]
    assert "only replica of 1 partitions" in warnings[0].message  # type: ignore[attr-defined]


def test_an_only_replica_in_a_new_directory_leads_nothing() -> None:
    shell = ControllerShell()
    one = shell.join(1)
    shell.create(replication=1)
    shell.lose(one)
    shell.join(1, life=2, directory_id="empty")
    assert state(shell) == (NO_LEADER, (), ())


def test_a_clean_broker_that_was_eligible_stays_so() -> None:
    shell, brokers = three()
    shell.create(config={"min.insync.replicas": "3"})
    shell.lose(brokers[0])
    assert state(shell) == (2, (2, 3), (1,))
    shell.join(1, life=2)
    assert state(shell) == (2, (2, 3), (1,))


# ---- the example of the book -------------------------------------------------------------------


def test_a_broker_is_lost_and_returns() -> None:
    # K24, K25, K42
    shell, brokers = three()
    shell.create(partitions=3)
    leaders = [shell.partition(number=n).leader for n in range(3)]
    lost = brokers[leaders[1] - 1]
    shell.lose(lost)
    led = [shell.partition(number=n).leader for n in range(3)]
    assert lost.broker_id not in led
    assert [led[0], led[2]] == [leaders[0], leaders[2]]
    shell.join(lost.broker_id, life=2)
    for number in range(3):
        isr = [*map(int, shell.partition(number=number).isr), int(lost.broker_id)]
        shell.alter(isr, number=number)
        assert shell.partition(number=number).isr[-1] == lost.broker_id
    assert [shell.partition(number=n).leader for n in range(3)] == led
