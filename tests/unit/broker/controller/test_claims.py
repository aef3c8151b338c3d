"""Claims: the broker that a task becomes."""

from __future__ import annotations

from pylog import errors
from pylog.model import NO_BROKER_EPOCH, BrokerId
from pylog_broker.controller.claims import RETRY_MS
from pylog_broker.controller.settings import ControllerSettings
from pylog_broker.metadata.image import MetadataImage
from pylog_broker.metadata.messages import (
    BrokerClaim,
    BrokerDirectory,
    BrokerRegistered,
    BrokerUnregistered,
    ClaimBroker,
    Failure,
)
from tests.fakes.controller_shell import ControllerShell, Incarnation


def directory(broker: int, *, name: str = "", locked: bool = False) -> BrokerDirectory:
    return BrokerDirectory(
        BrokerId(broker), name or f"directory-{broker}", "", "boot", True, locked
    )


class Tasks:
    """Tasks that claim from one controller; each finds the directories that it is given."""

    def __init__(self, shell: ControllerShell | None = None, *, expected: int = 3) -> None:
        self.shell = shell or ControllerShell(
            settings=ControllerSettings(expected_brokers=expected)
        )

    def ask(self, task: str, *directories: BrokerDirectory) -> object:
        return self.shell.call("claim_broker", ClaimBroker(task, f"host-of-{task}", directories))

    def claim(self, task: str, *directories: BrokerDirectory) -> tuple[int, str | None] | None:
        """(id, directory), or None when the task is to wait."""
        answer = self.ask(task, *directories)
        assert isinstance(answer, BrokerClaim), answer
        if answer.retry_after_ms:
            assert answer.retry_after_ms == RETRY_MS
            return None
        return answer.broker_id, answer.directory_id

    def run(self, task: str, broker: int, name: str = "") -> Incarnation:
        """The task registers as the broker that it was granted."""
        request = self.shell.registration(
            broker, incarnation_id=task, directory_id=name or f"directory-{broker}"
        )
        answer = self.shell.call("register_broker", request)
        assert isinstance(answer, BrokerRegistered), answer
        incarnation = Incarnation(BrokerId(broker), answer.broker_epoch, task)
        self.shell.open(incarnation)
        self.shell.progress(incarnation)
        return incarnation


def restarted(shell: ControllerShell) -> Tasks:
    """The same cluster after a restart of everything."""
    image = MetadataImage.from_records(
        shell.controller.image.records(), shell.controller.image.offset
    )
    return Tasks(ControllerShell(image, settings=shell.settings, now_ms=shell.now_ms + 5_000))


def full(expected: int = 3) -> Tasks:
    """A cluster whose brokers have all registered."""
    tasks = Tasks(expected=expected)
    for number in range(1, expected + 1):
        assert tasks.claim(f"t{number}") == (number, None)
        tasks.run(f"t{number}", number)
    return tasks


def test_a_new_cluster_gives_ids_from_one_without_waiting() -> None:
    tasks = Tasks()
    assert tasks.claim("a") == (1, None)
    assert tasks.claim("b") == (2, None)
    assert tasks.claim("c") == (3, None)


def test_the_same_task_gets_the_same_answer() -> None:
    tasks = Tasks()
    assert tasks.claim("a") == (1, None)
    assert tasks.claim("a") == (1, None)
    tasks.run("a", 1)
    assert tasks.claim("a") == (1, "directory-1")


def test_a_spare_task_waits_until_a_slot_is_free() -> None:
    tasks = full()
    assert tasks.claim("spare") is None
    tasks.shell.perform(tasks.shell.controller.task_ended(tasks.shell.now_ms, "t2"))
    assert tasks.claim("spare", directory(2)) == (2, "directory-2")


def test_a_spare_task_of_a_new_cluster_waits() -> None:
    tasks = Tasks(expected=1)
    assert tasks.claim("a") == (1, None)
    assert tasks.claim("b") is None


def test_permuted_roots_find_their_broker_at_once() -> None:
    tasks = restarted(full().shell)
    for task, broker in (("x", 3), ("y", 1), ("z", 2)):
        assert tasks.claim(task, directory(broker)) == (broker, f"directory-{broker}")


def test_a_claim_tells_which_registration_would_be_replaced() -> None:
    first = full()
    tasks = restarted(first.shell)
    answer = tasks.ask("x", directory(3))
    assert isinstance(answer, BrokerClaim)
    assert answer.broker_epoch == first.shell.controller.image.brokers[BrokerId(3)].broker_epoch
    new = Tasks().ask("t")
    assert isinstance(new, BrokerClaim)
    assert new.broker_epoch == NO_BROKER_EPOCH


def test_tasks_that_share_a_root_get_different_directories() -> None:
    tasks = restarted(full().shell)
    found = [directory(1), directory(2), directory(3)]
    assert tasks.claim("x", *found) == (1, "directory-1")
    assert tasks.claim("y", *found) == (2, "directory-2")
    assert tasks.claim("z", *found) == (3, "directory-3")
    assert tasks.claim("spare", *found) is None


def test_a_locked_directory_is_not_granted() -> None:
    tasks = restarted(full().shell)
    assert tasks.claim("x", directory(1, locked=True), directory(2)) == (2, "directory-2")
    assert tasks.claim("y", directory(1, locked=True)) is None
    assert tasks.claim("y", directory(1)) == (1, "directory-1")


def test_without_its_directory_a_task_waits_and_then_replaces_the_missing_broker() -> None:
    tasks = restarted(full().shell)
    assert tasks.claim("x", directory(1)) == (1, "directory-1")
    assert tasks.claim("y", directory(2)) == (2, "directory-2")
    one, two = tasks.run("x", 1), tasks.run("y", 2)
    assert tasks.claim("z") is None
    tasks.shell.advance(9_900, alive=(one, two))
    assert tasks.claim("z") is None
    tasks.shell.advance(200, alive=(one, two))
    assert tasks.claim("z") == (3, None)


def test_the_wait_ends_early_when_the_missing_directory_shows_up_elsewhere() -> None:
    tasks = restarted(full().shell)
    assert tasks.claim("z") is None
    tasks.shell.advance(5_000)
    for task, broker in (("w", 1), ("x", 2), ("y", 3)):
        assert tasks.claim(task, directory(broker)) == (broker, f"directory-{broker}")
    tasks.shell.advance(5_100)
    assert tasks.claim("z") is None  # and z is a spare one


def test_a_grown_cluster_gives_new_ids_when_no_known_broker_is_missing() -> None:
    shell = full(2).shell
    image = MetadataImage.from_records(
        shell.controller.image.records(), shell.controller.image.offset
    )
    tasks = Tasks(ControllerShell(image, settings=ControllerSettings(expected_brokers=3)))
    assert tasks.claim("z") is None  # 1 and 2 may be about to come
    assert tasks.claim("x", directory(1)) == (1, "directory-1")
    assert tasks.claim("y", directory(2)) == (2, "directory-2")
    assert tasks.claim("z") == (3, None)


def test_a_directory_that_never_registered_is_taken_up_again() -> None:
    tasks = Tasks()
    assert tasks.claim("x", directory(2, name="made-before-a-crash")) == (2, "made-before-a-crash")
    assert tasks.claim("y") == (1, None)


def test_the_directory_of_a_broker_that_was_given_up_puts_out_no_other() -> None:
    """Broker 2 has gone for good, its directory is still there, and brokers are one fewer now."""
    before = full(4)
    before.shell.perform(before.shell.controller.task_ended(before.shell.now_ms, "t2"))
    assert isinstance(before.shell.call("unregister_broker", BrokerId(2)), BrokerUnregistered)
    settings = ControllerSettings(expected_brokers=3)
    image = before.shell.controller.image
    tasks = Tasks(ControllerShell(image, settings=settings, now_ms=before.shell.now_ms + 5_000))
    seen = {number: directory(number) for number in range(1, 5)}
    for task, broker in (("a", 1), ("b", 3), ("c", 4)):
        assert tasks.claim(task, *seen.values()) == (broker, f"directory-{broker}")
        seen[broker] = directory(broker, locked=True)
        tasks.run(task, broker)
    assert tasks.claim("spare", *seen.values()) is None


def test_an_old_directory_of_a_broker_is_taken_only_when_the_right_one_is_missing() -> None:
    tasks = restarted(full(1).shell)
    assert tasks.claim("x", directory(1, name="older")) is None
    tasks.shell.advance(10_100)
    assert tasks.claim("x", directory(1, name="older")) == (1, "older")


def test_a_free_lock_in_the_grace_proves_the_old_process_dead() -> None:
    tasks = Tasks(expected=1)
    tasks.claim("old")
    old = tasks.run("old", 1)
    assert tasks.claim("new", directory(1)) is None  # the stream still stands: look again soon
    tasks.shell.broken(old)
    assert tasks.claim("new", directory(1)) == (1, "directory-1")
    assert tasks.run("new", 1).epoch > old.epoch


def with_a_free_id() -> tuple[Tasks, Incarnation, Incarnation]:
    """Two of three brokers run; the third one is unregistered."""
    tasks = full()
    one, two = (Incarnation(BrokerId(n), tasks.shell.epoch_of(n), f"t{n}") for n in (1, 2))
    tasks.shell.perform(tasks.shell.controller.task_ended(tasks.shell.now_ms, "t3"))
    assert tasks.shell.call("unregister_broker", BrokerId(3)) == BrokerUnregistered(BrokerId(3))
    return tasks, one, two


def test_a_task_with_a_brokers_free_directory_waits_for_its_id_and_gets_no_new_one() -> None:
    """Else its replicas stay unused on a host that is another broker."""
    tasks, one, _ = with_a_free_id()
    assert tasks.claim("new", directory(1)) is None
    tasks.shell.advance(200)
    assert tasks.claim("new", directory(1)) is None
    tasks.shell.broken(one)
    assert tasks.claim("new", directory(1)) == (1, "directory-1")
    assert tasks.claim("another", directory(1)) is None  # the grant is young
    tasks.run("new", 1)
    assert tasks.claim("another", directory(1, locked=True)) == (3, None)


def test_a_copy_of_a_running_brokers_directory_keeps_a_task_waiting_for_a_while_only() -> None:
    tasks, one, two = with_a_free_id()
    assert tasks.claim("new", directory(1)) is None
    tasks.shell.advance(9_900, alive=(one, two))
    assert tasks.claim("new", directory(1)) is None
    tasks.shell.advance(200, alive=(one, two))
    assert tasks.claim("new", directory(1)) == (3, None)


def test_a_grant_that_nobody_uses_is_given_to_another() -> None:
    tasks = restarted(full(1).shell)
    assert tasks.claim("x", directory(1)) == (1, "directory-1")
    assert tasks.claim("y", directory(1, locked=True)) is None
    tasks.shell.advance(30_100)
    assert tasks.claim("y", directory(1)) == (1, "directory-1")
    answer = tasks.shell.call("register_broker", tasks.shell.registration(1, incarnation_id="x"))
    assert isinstance(answer, Failure)
    assert answer.code == errors.DuplicateBrokerRegistration.code
    assert "granted to the incarnation y" in answer.message


def test_a_granted_directory_that_nobody_locks_is_soon_granted_again() -> None:
    """The start that it was granted to has failed: its disk is full."""
    tasks = restarted(full(1).shell)
    assert tasks.claim("x", directory(1)) == (1, "directory-1")
    assert tasks.claim("y", directory(1)) is None
    tasks.shell.advance(2_000)
    assert tasks.claim("y", directory(1, locked=True)) is None  # it is being opened
    assert tasks.claim("y", directory(1)) == (1, "directory-1")
    assert tasks.claim("x", directory(1)) is None


def test_an_empty_replica_that_never_came_gives_way_to_the_directory() -> None:
    """The start without it has failed, or its disk was mounted meanwhile."""
    tasks = restarted(full(1).shell)
    assert tasks.claim("x") is None
    tasks.shell.advance(10_100)
    assert tasks.claim("x") == (1, None)
    assert tasks.claim("y", directory(1)) is None
    tasks.shell.advance(2_000)
    assert tasks.claim("y", directory(1, name="older")) is None
    assert tasks.claim("y", directory(1, locked=True)) is None
    assert tasks.claim("y", directory(1)) == (1, "directory-1")
    answer = tasks.shell.call("register_broker", tasks.shell.registration(1, incarnation_id="x"))
    assert isinstance(answer, Failure)
    assert "granted to the incarnation y" in answer.message


def test_the_end_of_a_task_frees_its_grant() -> None:
    tasks = restarted(full(1).shell)
    tasks.claim("x", directory(1))
    tasks.shell.perform(tasks.shell.controller.task_ended(tasks.shell.now_ms, "x"))
    assert tasks.claim("y", directory(1)) == (1, "directory-1")
    answer = tasks.ask("x", directory(1))
    assert isinstance(answer, Failure)
    assert answer.code == errors.StaleBrokerEpoch.code


def test_a_foreign_directory_is_refused_with_what_to_do() -> None:
    tasks = Tasks()
    foreign = BrokerDirectory(BrokerId(1), "d", "another-cluster", "boot", True)
    answer = tasks.ask("x", foreign)
    assert isinstance(answer, Failure)
    assert answer.code == errors.InconsistentClusterId.code
    assert "belongs to cluster another-cluster" in answer.message
    assert "another data directory" in answer.message


def test_a_broker_that_may_still_run_after_a_controller_start_is_not_given_away() -> None:
    shell = full().shell
    image = MetadataImage.from_records(
        shell.controller.image.records(), shell.controller.image.offset
    )
    settings = ControllerSettings(expected_brokers=3, claim_wait_ms=0)
    tasks = Tasks(ControllerShell(image, settings=settings))
    assert tasks.claim("x") is None
    tasks.shell.advance(5_900)
    assert tasks.claim("x") is None
    tasks.shell.advance(200)
    assert tasks.claim("x") == (1, None)


def test_a_registered_broker_may_repeat_itself_although_another_task_was_granted_its_id() -> None:
    tasks = Tasks(expected=1)
    tasks.claim("old")
    old = tasks.run("old", 1)
    tasks.shell.broken(old)
    assert tasks.claim("new", directory(1)) == (1, "directory-1")
    assert tasks.run("old", 1).epoch == old.epoch


def test_a_late_copy_of_a_claim_keeps_nobody_from_the_directory_of_who_has_registered() -> None:
    """The copy arrives when the process that sent it is dead, and before the next one asks."""
    tasks = Tasks(expected=2)
    tasks.claim("old")
    tasks.shell.broken(tasks.run("old", 1))
    assert tasks.claim("old", directory(1)) == (1, "directory-1")
    assert tasks.claim("new", directory(1)) == (1, "directory-1")


def test_a_late_copy_of_a_claim_takes_no_grant_from_the_next_incarnation() -> None:
    tasks = Tasks(expected=1)
    tasks.claim("old")
    tasks.shell.broken(tasks.run("old", 1))
    assert tasks.claim("new", directory(1)) == (1, "directory-1")
    assert tasks.claim("old", directory(1)) == (1, "directory-1")
    tasks.run("new", 1)
