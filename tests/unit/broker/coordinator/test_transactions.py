"""Transactions, event by event, as Kafka's coordinator has them (KIP-98, KIP-890, KIP-939)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pylog.errors import (
    ConcurrentTransactions,
    InvalidProducerIdMapping,
    InvalidTransactionTimeout,
    InvalidTxnState,
    ProducerFenced,
    ThrottlingQuotaExceeded,
    TransactionAbortable,
    TransactionalIdAuthorizationFailed,
    TransactionalIdNotFound,
)
from pylog.model import Offset, TopicPartition
from pylog_broker.coordinator.expiry import Expiry
from pylog_broker.coordinator.runtime.decision import (
    CancelTimer,
    Decision,
    Reply,
    Send,
    SetTimer,
)
from pylog_broker.coordinator.transactions.codec import TransactionCodec
from pylog_broker.coordinator.transactions.config import TransactionConfig
from pylog_broker.coordinator.transactions.coordinator import (
    WAIT_MS_MAX,
    WAITING_MAX,
    TimeoutTimer,
    TransactionCoordinator,
)
from pylog_broker.coordinator.transactions.messages import (
    AddPartitions,
    EndTransaction,
    ListedTransaction,
    PartitionsAdded,
    ProducerBegun,
    SendMarkers,
    TransactionEnded,
    TransactionFilter,
)
from pylog_broker.coordinator.transactions.refusals import PROOF
from pylog_broker.coordinator.transactions.states import (
    FROM,
    IllegalTransition,
    TransactionState,
    check_transition,
)
from pylog_broker.coordinator.transactions.transaction import (
    EPOCH_MAX,
    LAST_EPOCH,
    NO_IDENTITY,
    Identity,
    Transaction,
    record_of,
    transaction_of,
)
from tests.fakes.transaction_shard import (
    TIMEOUT_MS,
    WALL_MS,
    A,
    B,
    C,
    T,
    TransactionShard,
    identity,
)

P = identity(1000, 0)
S = TransactionState


def open_transaction(shard: TransactionShard, *partitions: TopicPartition) -> Any:
    """The identity of a producer with an open transaction."""
    owner = shard.begin().identity
    shard.added(owner, *(partitions or (A, B)))
    return owner


def set_epoch(shard: TransactionShard, epoch: int, **fields: Any) -> None:
    """As if the producer had come so far."""
    now = shard.transaction()._replace(identity=identity(1000, epoch), **fields)
    shard.ask(lambda c, r: Decision([record_of(now)], [Reply(r, None)]))


def test_the_end_of_the_next_transaction_waits_for_the_markers_of_the_last() -> None:
    shard = TransactionShard()
    after = shard.ended(open_transaction(shard)).identity
    number = shard.end(after, commits=False)  # its first batch has come to no leader
    assert number not in shard.replies
    shard.write_markers()
    assert shard.replies[number] == TransactionEnded(after.next)
    shard.write_markers()
    assert shard.state() == "CompleteAbort"


# ---- refusals of a coordinator that may have been deposed ----------------------------------------


def adds(shard: TransactionShard, owner: Identity) -> int:
    return shard.add(owner, C)


def verifies(shard: TransactionShard, owner: Identity) -> int:
    return shard.add(owner, A, verify=True)


def ends(shard: TransactionShard, owner: Identity) -> int:
    return shard.end(owner, commits=False)


def begins(shard: TransactionShard, owner: Identity) -> int:
    return shard.init(owner)


REQUESTS = (adds, verifies, ends, begins)


@pytest.mark.parametrize("asks", REQUESTS)
def test_an_identity_that_is_not_known_yet_is_refused_by_a_coordinator_that_leads(
    asks: Callable[[TransactionShard, Identity], int],
) -> None:
    shard = TransactionShard()
    owner = open_transaction(shard)
    known, records = shard.transaction(), len(shard.log)
    shard.commits = False
    number = asks(shard, owner.next)
    assert number not in shard.replies, "a deposed coordinator would have refused its producer"
    assert shard.log[records:] == [TransactionCodec().encode(PROOF)]
    shard.commit()
    assert isinstance(shard.replies[number], ProducerFenced)
    assert shard.transaction() == known


@pytest.mark.parametrize("asks", REQUESTS)
def test_an_older_identity_is_refused_at_once(
    asks: Callable[[TransactionShard, Identity], int],
) -> None:
    shard = TransactionShard()
    owner = open_transaction(shard)
    set_epoch(shard, 2)
    records = len(shard.log)
    shard.commits = False
    assert isinstance(shard.replies[asks(shard, owner)], ProducerFenced)
    assert len(shard.log) == records


@pytest.mark.parametrize("asks", [adds, verifies, ends])
def test_an_id_that_is_not_known_yet_is_refused_by_a_coordinator_that_leads(
    asks: Callable[[TransactionShard, Identity], int],
) -> None:
    shard = TransactionShard()
    shard.commits = False
    number = asks(shard, P)
    assert number not in shard.replies
    shard.commit()
    assert isinstance(shard.replies[number], InvalidProducerIdMapping)
    assert shard.coordinator.transactions == {}


def test_refusals_leave_one_record_in_a_log_that_is_cleaned() -> None:
    shard = TransactionShard()
    known = open_transaction(shard)
    records = len(shard.log)
    for number in range(9):
        request = AddPartitions(f"invented {number}", identity(number, 0), (A,))
        refused = shard.answer(lambda c, r, request=request: c.add_partitions(WALL_MS, r, request))
        assert isinstance(refused, InvalidProducerIdMapping)
    assert isinstance(shard.ended(known.next), ProducerFenced)
    assert {key for key, _ in shard.log[records:]} == {TransactionCodec().encode(PROOF)[0]}
    shard.start()
    assert set(shard.coordinator.transactions) == {T}


def test_a_producer_id_that_is_not_known_yet_is_refused_by_a_coordinator_that_leads() -> None:
    shard = TransactionShard()
    open_transaction(shard)
    shard.commits = False
    number = shard.end(identity(7, 0))
    assert number not in shard.replies
    shard.commit()
    assert isinstance(shard.replies[number], InvalidProducerIdMapping)


def test_a_producer_id_of_before_is_refused_at_once() -> None:
    shard = TransactionShard()
    open_transaction(shard)
    set_epoch(shard, 0, previous_producer_id=7)
    shard.commits = False
    assert isinstance(shard.ended(identity(7, 0)), InvalidProducerIdMapping)


def test_a_commit_of_nothing_is_refused_by_a_coordinator_that_leads() -> None:
    shard = TransactionShard()
    shard.begin()
    shard.commits = False
    number = shard.end(P)
    assert number not in shard.replies, "a newer coordinator may know of its partitions"
    shard.commit()
    assert isinstance(shard.replies[number], InvalidTxnState)


def test_a_deposed_coordinator_refuses_nothing() -> None:
    shard = TransactionShard()
    owner = open_transaction(shard)
    shard.commits = False
    number = shard.end(owner.next)
    shard.log.pop()
    shard.commits = True
    shard.start()
    assert number not in shard.replies
    assert shard.ended(owner) == TransactionEnded(owner.next)


# ---- the table -----------------------------------------------------------------------------------


def test_the_table_of_transitions() -> None:
    legal = {(before, after) for after, befores in FROM.items() for before in befores}
    assert legal == {
        (S.EMPTY, S.EMPTY), (S.COMPLETE_COMMIT, S.EMPTY), (S.COMPLETE_ABORT, S.EMPTY),
        (S.EMPTY, S.ONGOING), (S.ONGOING, S.ONGOING),
        (S.COMPLETE_COMMIT, S.ONGOING), (S.COMPLETE_ABORT, S.ONGOING),
        (S.ONGOING, S.PREPARE_COMMIT), (S.PREPARE_COMMIT, S.COMPLETE_COMMIT),
        (S.ONGOING, S.PREPARE_ABORT), (S.PREPARE_ABORT, S.COMPLETE_ABORT),
        (S.ONGOING, S.PREPARE_EPOCH_FENCE), (S.PREPARE_EPOCH_FENCE, S.PREPARE_ABORT),
        (S.EMPTY, S.PREPARE_ABORT), (S.COMPLETE_COMMIT, S.PREPARE_ABORT),
        (S.COMPLETE_ABORT, S.PREPARE_ABORT), (S.COMPLETE_ABORT, S.COMPLETE_ABORT),
        (S.EMPTY, S.DEAD), (S.COMPLETE_COMMIT, S.DEAD), (S.COMPLETE_ABORT, S.DEAD),
    }  # fmt: skip


@pytest.mark.parametrize("before", S)
@pytest.mark.parametrize("after", S)
def test_any_other_move_is_a_defect_that_tells_its_story(
    before: TransactionState, after: TransactionState
) -> None:
    if before in FROM[after]:
        check_transition("t", before, after)
    else:
        with pytest.raises(IllegalTransition, match=f"{before.shown} -> {after.shown}"):
            check_transition("t", before, after)


def test_states_have_kafkas_names_and_numbers() -> None:
    assert [(each.value, each.shown) for each in S] == [
        (0, "Empty"), (1, "Ongoing"), (2, "PrepareCommit"), (3, "PrepareAbort"),
        (4, "CompleteCommit"), (5, "CompleteAbort"), (6, "Dead"), (7, "PrepareEpochFence"),
    ]  # fmt: skip


def test_a_record_there_and_back() -> None:
    transaction = Transaction(
        T, identity(7, 3), S.PREPARE_COMMIT, 5, frozenset({A, B, TopicPartition("x", 9)}), 6, 7, 2,
        identity(8, 0), P.producer_id,
    )  # fmt: skip
    assert transaction_of(*record_of(transaction)[:2]) == transaction
    empty = transaction._replace(state=S.EMPTY, partitions=frozenset())
    assert record_of(empty).value.transaction_partitions is None
    assert transaction_of(*record_of(empty)[:2]) == empty


# ---- a producer begins ---------------------------------------------------------------------------


def test_the_first_instance_gets_a_fresh_id_and_the_next_one_the_next_epoch() -> None:
    shard = TransactionShard()
    assert shard.begin() == ProducerBegun(P)
    assert shard.state() == "Empty"
    assert shard.begin() == ProducerBegun(P.next)
    assert shard.begin(transactional_id="other") == ProducerBegun(identity(1001, 0))


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_a_time_out_outside_of_its_limits(timeout_ms: int) -> None:
    shard = TransactionShard()
    with pytest.raises(InvalidTransactionTimeout, match=f"={timeout_ms}: .* 1 to 900000"):
        raise shard.begin(timeout_ms=timeout_ms)
    assert shard.log == []


def test_no_room_for_one_more_id() -> None:
    shard = TransactionShard(TransactionConfig(ids_max=1))
    shard.begin()
    with pytest.raises(ThrottlingQuotaExceeded, match="1 transactional ids are known"):
        raise shard.begin(transactional_id="other")
    assert shard.begin() == ProducerBegun(P.next)


def test_an_instance_renews_its_epoch_and_asks_again() -> None:
    shard = TransactionShard()
    shard.begin()
    assert shard.begin(P) == ProducerBegun(P.next)
    assert shard.begin(P) == ProducerBegun(P.next), "the answer was lost"
    assert shard.begin(P.next) == ProducerBegun(P.next.next)
    with pytest.raises(ProducerFenced):
        raise shard.begin(P)


def test_a_fenced_instance_cannot_renew_its_epoch() -> None:
    shard = TransactionShard()
    shard.begin()
    assert shard.begin() == ProducerBegun(P.next)
    with pytest.raises(ProducerFenced, match=r"epoch 0 .*now epoch 1"):
        raise shard.begin(P)
    with pytest.raises(ProducerFenced):
        raise shard.begin(identity(7, 0))


def test_a_new_instance_ends_the_transaction_of_the_old_one_first() -> None:
    shard = TransactionShard()
    old = open_transaction(shard)
    asked = shard.init()
    assert shard.state() == "PrepareAbort"
    assert asked not in shard.replies
    sent = SendMarkers(T, old.next, False, frozenset({A, B}), 2)
    assert shard.write_markers() == [sent]
    assert shard.replies[asked] == ProducerBegun(identity(1000, 2))
    assert shard.state() == "Empty"
    for late in (shard.added(old, C), shard.ended(old), shard.ended(old, commits=False)):
        assert isinstance(late, ProducerFenced)


def test_an_instance_that_recovers_ends_its_own_transaction_first() -> None:
    shard = TransactionShard()
    own = open_transaction(shard)
    asked = shard.init(own)
    shard.write_markers()
    assert shard.replies[asked] == ProducerBegun(own.next)
    assert shard.begin(own) == ProducerBegun(own.next), "the answer was lost"
    assert shard.added(own.next, A) == PartitionsAdded({A: None})


def test_who_waits_for_an_end_hears_of_it_in_time() -> None:
    shard = TransactionShard()
    open_transaction(shard)
    asked = [shard.init() for _ in range(WAITING_MAX + 1)]
    assert isinstance(shard.replies[asked[-1]], ConcurrentTransactions)
    shard.advance(WAIT_MS_MAX - 1)
    assert not shard.replies.keys() & set(asked[:-1])
    shard.advance(1)
    assert all(isinstance(shard.replies[each], ConcurrentTransactions) for each in asked)
    shard.write_markers()
    assert shard.begin() == ProducerBegun(identity(1000, 2))


def test_all_who_wait_go_on_one_after_the_other() -> None:
    shard = TransactionShard()
    open_transaction(shard)
    asked = [shard.init() for _ in range(3)]
    shard.write_markers()
    assert [shard.replies[each].identity.epoch for each in asked] == [2, 3, 4]


def test_one_abort_serves_all_attempts_to_begin() -> None:
    """The epoch goes up once, however often the answer is lost."""
    shard = TransactionShard()
    open_transaction(shard)
    for _ in range(4):
        shard.init()
        shard.advance(WAIT_MS_MAX)
    assert shard.transaction().identity == identity(1000, 1)


# ---- partitions ----------------------------------------------------------------------------------


def test_the_first_partition_opens_the_transaction() -> None:
    shard = TransactionShard()
    shard.begin()
    assert shard.added(P, A) == PartitionsAdded({A: None})
    assert shard.transaction().partitions == {A}
    assert shard.transaction().started_ms == WALL_MS
    records = len(shard.log)
    assert shard.added(P, A) == PartitionsAdded({A: None})
    assert len(shard.log) == records, "a repeat writes nothing"
    assert shard.added(P, A, B) == PartitionsAdded({A: None, B: None})
    assert shard.transaction().partitions == {A, B}


def test_who_may_add_partitions() -> None:
    shard = TransactionShard()
    with pytest.raises(InvalidProducerIdMapping, match="'t' is not known here"):
        raise shard.added(P, A)
    shard.begin()
    with pytest.raises(InvalidProducerIdMapping, match="belongs to producer id 1000, not to 7"):
        raise shard.added(identity(7, 0), A)
    with pytest.raises(ProducerFenced):
        raise shard.added(P.next, A)


def test_a_partition_is_verified() -> None:
    shard = TransactionShard()
    owner = open_transaction(shard, A)
    answer = shard.added(owner, A, B, version=1, verify=True)
    assert answer.partitions[A] is None
    assert isinstance(answer.partitions[B], TransactionAbortable)
    assert shard.transaction().partitions == {A}


def test_the_next_transaction_waits_for_the_end_of_the_last_one() -> None:
    shard = TransactionShard()
    owner = open_transaction(shard)
    assert shard.ended(owner) == TransactionEnded(owner.next)
    asked = shard.add(owner.next, C)
    assert asked not in shard.replies
    shard.write_markers()
    assert shard.replies[asked] == PartitionsAdded({C: None})
    assert shard.state() == "Ongoing"
    assert shard.transaction().partitions == {C}


@pytest.mark.parametrize("commits", [True, False])
def test_the_next_end_waits_behind_the_next_partitions(commits: bool) -> None:
    shard = TransactionShard()
    owner = open_transaction(shard)
    shard.ended(owner)
    added, ended = shard.add(owner.next, C), shard.end(owner.next, commits=commits)
    assert not {added, ended} & shard.replies.keys()
    shard.write_markers()
    assert shard.replies[added] == PartitionsAdded({C: None})
    assert shard.replies[ended] == TransactionEnded(owner.next.next)
    assert shard.write_markers() == [SendMarkers(T, owner.next.next, commits, frozenset({C}), 2)]


def test_an_end_that_waits_and_finds_no_transaction() -> None:
    shard = TransactionShard()
    owner = open_transaction(shard)
    shard.ended(owner)
    commit, abort = shard.end(owner.next), shard.end(owner.next, commits=False)
    shard.write_markers()
    assert isinstance(shard.replies[commit], InvalidTxnState)
    assert shard.replies[abort] == TransactionEnded(owner.next.next)


def test_a_transaction_has_so_many_partitions() -> None:
    shard = TransactionShard(TransactionConfig(partitions_max=2))
    owner = open_transaction(shard)
    with pytest.raises(TransactionAbortable, match="would have 3 partitions; the limit is 2"):
        raise shard.added(owner, C)
    assert shard.ended(owner) == TransactionEnded(owner.next)


def test_the_names_of_its_partitions_fit_into_one_record() -> None:
    shard = TransactionShard()
    owner = open_transaction(shard)
    many = [TopicPartition(f"{number:05}" + "x" * 200, 0) for number in range(6_000)]
    with pytest.raises(TransactionAbortable, match="6002 partitions"):
        raise shard.added(owner, *many)
    assert shard.added(owner, *many[:4_000]).partitions.keys() == set(many[:4_000])


# ---- ends ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("commits", [True, False])
def test_an_end_in_steps(commits: bool) -> None:
    shard = TransactionShard()
    owner = open_transaction(shard)
    shard.commits = False
    asked = shard.end(owner, commits=commits)
    assert shard.state() == ("PrepareCommit" if commits else "PrepareAbort")
    assert asked not in shard.replies
    assert shard.sent == [], "no marker before the decision is committed"
    shard.commit()
    assert shard.replies[asked] == TransactionEnded(owner.next)
    (markers,) = shard.sent
    assert markers == SendMarkers(T, owner.next, commits, frozenset({A, B}), 2)
    shard.tell_written(markers, A)
    shard.tell_written(markers, A)
    assert shard.state() == ("PrepareCommit" if commits else "PrepareAbort")
    shard.tell_written(markers, B)
    assert shard.state() == ("CompleteCommit" if commits else "CompleteAbort")
    records = len(shard.log)
    shard.tell_written(markers, A, B)
    assert len(shard.log) == records, "it is complete once"
    assert shard.transaction().identity == owner.next
    assert shard.transaction().partitions == frozenset()


def test_an_end_as_effects() -> None:
    coordinator = TransactionCoordinator(TransactionConfig())
    ongoing = Transaction(T, P, S.ONGOING, TIMEOUT_MS, frozenset({A}), 5, 6, 2)
    coordinator.replay(record_of(ongoing), Offset(0))
    prepared = ongoing._replace(identity=P.next, state=S.PREPARE_COMMIT, updated_ms=9)
    assert coordinator.end(9, 1, EndTransaction(T, P, True)) == Decision(
        [record_of(prepared)],
        [
            CancelTimer(TimeoutTimer(T)),
            Send(SendMarkers(T, P.next, True, frozenset({A}), 2)),
            Reply(1, TransactionEnded(P.next)),
        ],
    )


@pytest.mark.parametrize("commits", [True, False])
@pytest.mark.parametrize("complete", [True, False])
def test_an_end_that_is_asked_for_again_is_answered_by_what_was_decided(
    commits: bool, complete: bool
) -> None:
    shard = TransactionShard()
    owner = open_transaction(shard)
    shard.ended(owner, commits=commits)
    if complete:
        shard.write_markers()
    assert shard.ended(owner, commits=commits) == TransactionEnded(owner.next)
    with pytest.raises(InvalidTxnState, match="there is nothing to"):
        raise shard.ended(owner, commits=not commits)
    shard.start()
    assert shard.ended(owner, commits=commits) == TransactionEnded(owner.next)


def test_a_late_end_does_not_touch_the_next_transaction() -> None:
    shard = TransactionShard()
    owner = open_transaction(shard)
    shard.ended(owner)
    shard.write_markers()
    shard.added(owner.next, A)
    for commits in (True, False):
        assert isinstance(shard.ended(owner, commits=commits), ProducerFenced)
    assert shard.state() == "Ongoing"


def test_an_end_without_a_transaction() -> None:
    shard = TransactionShard()
    with pytest.raises(InvalidProducerIdMapping):
        raise shard.ended(P)
    shard.begin()
    with pytest.raises(InvalidTxnState, match="is Empty: there is nothing to commit"):
        raise shard.ended(P)
    assert shard.ended(P, commits=False) == TransactionEnded(P.next)
    assert shard.state() == "CompleteAbort"
    assert shard.sent == []
    assert shard.ended(P, commits=False) == TransactionEnded(P.next)


def test_two_ends_at_once() -> None:
    shard = TransactionShard()
    owner = open_transaction(shard)
    shard.commits = False
    commit, abort = shard.end(owner), shard.end(owner, commits=False)
    shard.commit()
    assert shard.replies[commit] == TransactionEnded(owner.next)
    assert isinstance(shard.replies[abort], InvalidTxnState)


def test_version_1_keeps_its_epoch() -> None:
    shard = TransactionShard()
    shard.begin()
    shard.added(P, A, version=1)
    assert shard.ended(P, version=1) == TransactionEnded(P)
    assert shard.ended(P, version=1) == TransactionEnded(P)
    with pytest.raises(InvalidTxnState):
        raise shard.ended(P, version=1, commits=False)
    assert shard.write_markers() == [SendMarkers(T, P, True, frozenset({A}), 1)]
    assert shard.ended(P, version=1) == TransactionEnded(P)
    shard.added(P, B, version=1)
    assert shard.ended(P, version=1, commits=False) == TransactionEnded(P)
    shard.write_markers()
    assert shard.state() == "CompleteAbort"
    with pytest.raises(InvalidTxnState):
        raise shard.ended(P, version=1)


def test_version_1_is_fenced_by_a_new_instance() -> None:
    shard = TransactionShard()
    shard.begin()
    shard.added(P, A, version=1)
    asked = shard.init()
    assert shard.write_markers() == [SendMarkers(T, P.next, False, frozenset({A}), 1)]
    assert shard.replies[asked] == ProducerBegun(P.next.next)
    assert isinstance(shard.ended(P, version=1), ProducerFenced)


# ---- epochs run out ------------------------------------------------------------------------------


def test_an_end_gives_another_id_before_the_epochs_run_out() -> None:
    shard = TransactionShard()
    shard.begin()
    set_epoch(shard, LAST_EPOCH)
    last, fresh = identity(1000, LAST_EPOCH), identity(1001, 0)
    shard.added(last, A)
    assert shard.ended(last) == TransactionEnded(fresh)
    assert shard.ended(last) == TransactionEnded(fresh)
    waits = shard.add(fresh, B)
    sent = SendMarkers(T, identity(1000, EPOCH_MAX), True, frozenset({A}), 2)
    assert shard.write_markers() == [sent]
    assert shard.replies[waits] == PartitionsAdded({B: None})
    assert shard.transaction().previous_producer_id == 1000
    assert shard.ended(fresh) == TransactionEnded(fresh.next)


def test_a_retry_is_known_across_the_change_of_id() -> None:
    shard = TransactionShard()
    shard.begin()
    set_epoch(shard, LAST_EPOCH)
    last, fresh = identity(1000, LAST_EPOCH), identity(1001, 0)
    shard.added(last, A)
    shard.ended(last)
    shard.write_markers()
    shard.start()
    assert shard.ended(last) == TransactionEnded(fresh)
    assert shard.begin(last) == ProducerBegun(fresh)


def test_a_beginning_gives_another_id_before_the_epochs_run_out() -> None:
    shard = TransactionShard()
    shard.begin()
    set_epoch(shard, LAST_EPOCH)
    last, fresh = identity(1000, LAST_EPOCH), identity(1001, 0)
    assert shard.begin(last) == ProducerBegun(fresh)
    assert shard.begin(last) == ProducerBegun(fresh)
    with pytest.raises(InvalidProducerIdMapping):
        raise shard.added(last, A)


def test_an_abort_without_the_producer_may_use_the_very_last_epoch() -> None:
    shard = TransactionShard()
    shard.begin()
    set_epoch(shard, LAST_EPOCH)
    last, fresh = identity(1000, LAST_EPOCH), identity(1001, 0)
    shard.added(last, A)
    shard.advance(TIMEOUT_MS)
    asked = shard.end(last, commits=False)
    assert asked not in shard.replies, "no client gets the very last epoch"
    (markers,) = shard.write_markers()
    assert markers.identity == identity(1000, EPOCH_MAX)
    assert shard.ended(last, commits=False) == TransactionEnded(fresh)
    assert shard.ended(last, commits=False) == TransactionEnded(fresh)
    assert shard.added(fresh, A) == PartitionsAdded({A: None})


def test_a_new_instance_behind_the_very_last_epoch() -> None:
    shard = TransactionShard()
    shard.begin()
    set_epoch(shard, LAST_EPOCH)
    shard.added(identity(1000, LAST_EPOCH), A)
    asked = shard.init()
    shard.write_markers()
    assert shard.transaction().identity == identity(1000, EPOCH_MAX)
    assert type(shard.replies[asked]).__name__ == "NeedsProducerId"
    assert shard.begin() == ProducerBegun(identity(1001, 0))


# ---- time ----------------------------------------------------------------------------------------


def test_a_transaction_that_stays_open_is_aborted_and_its_producer_goes_on() -> None:
    shard = TransactionShard()
    owner = open_transaction(shard)
    shard.advance(TIMEOUT_MS - 1)
    shard.added(owner, C)
    assert shard.state() == "Ongoing"
    shard.advance(1)
    assert shard.state() == "PrepareAbort"
    with pytest.raises(TransactionAbortable, match="longer than its time-out of 60000 ms"):
        raise shard.added(owner, A)
    with pytest.raises(InvalidTxnState, match="longer than its time-out"):
        raise shard.ended(owner)
    shard.write_markers()
    with pytest.raises(TransactionAbortable):
        raise shard.added(owner, A)
    assert shard.ended(owner, commits=False) == TransactionEnded(owner.next)
    assert shard.added(owner.next, A) == PartitionsAdded({A: None})


def test_a_transaction_that_ends_does_not_time_out() -> None:
    shard = TransactionShard()
    owner = open_transaction(shard)
    shard.ended(owner)
    shard.write_markers()
    shard.advance(2 * TIMEOUT_MS)
    assert shard.state() == "CompleteCommit"


def test_the_time_goes_on_under_a_new_coordinator() -> None:
    shard = TransactionShard()
    open_transaction(shard)
    shard.advance(TIMEOUT_MS - 1_000)
    shard.start()
    shard.advance(999)
    assert shard.state() == "Ongoing"
    shard.advance(1)
    assert shard.state() == "PrepareAbort"


def test_an_id_that_nobody_uses_is_forgotten() -> None:
    config = TransactionConfig(id_expiration_ms=1_000, expiration_interval_ms=600)
    shard = TransactionShard(config)
    owner = open_transaction(shard)
    shard.begin(transactional_id="other")
    shard.advance(1_200)
    assert shard.coordinator.transactions.keys() == {T}, "an open one stays"
    shard.ended(owner)
    shard.advance(5_000)
    assert shard.state() == "PrepareCommit"
    shard.write_markers()
    shard.advance(900)
    assert shard.state() == "CompleteCommit"
    shard.advance(700)
    assert shard.coordinator.transactions == {}
    assert shard.coordinator._live == {}
    shard.start()
    assert shard.coordinator.transactions == {}
    with pytest.raises(InvalidProducerIdMapping):
        raise shard.ended(owner)


def test_an_id_stays_when_the_clock_was_set_forward() -> None:
    """P18."""
    config = TransactionConfig(id_expiration_ms=1_000, expiration_interval_ms=600)
    shard = TransactionShard(config)
    shard.begin()
    trusted: dict[int, int | None] = {1_000: shard.wall_ms}
    shard.expiry = Expiry(trusted.get)
    shard.start()
    shard.advance(864_000_000)
    assert shard.coordinator.transactions.keys() == {T}
    trusted[1_000] = shard.wall_ms
    shard.advance(600)
    assert shard.coordinator.transactions == {}


def test_many_ids_are_forgotten_in_several_appends() -> None:
    config = TransactionConfig(id_expiration_ms=1_000, expiration_interval_ms=600)
    shard = TransactionShard(config)
    for number in range(20):
        shard.begin(transactional_id=f"{number:02}" + "x" * 30_000)
    shard.advance(1_300)
    assert shard.coordinator.transactions == {}


# ---- coordinators die ----------------------------------------------------------------------------


def test_a_successor_sends_the_markers_again() -> None:
    shard = TransactionShard()
    owner = open_transaction(shard)
    shard.ended(owner)
    (before,) = shard.sent
    shard.sent.clear()
    shard.start()
    assert shard.sent == [before]
    shard.write_markers()
    assert shard.state() == "CompleteCommit"


def test_a_decision_that_was_not_committed_waits_for_that_under_the_successor() -> None:
    shard = TransactionShard()
    owner = open_transaction(shard)
    shard.commits = False
    asked = shard.end(owner)
    shard._runtime.on_leadership_ended(0)
    shard.sent.clear()
    shard.epoch = type(shard.epoch)(shard.epoch + 1)
    shard._runtime = type(shard._runtime)(
        "__transaction_state", lambda _: TransactionCoordinator(shard.config), shard._codec,
        now_ms=shard.now_ms,
    )  # fmt: skip
    shard._perform(shard._runtime.on_leadership_began(shard.now_ms, 0, shard.epoch))
    shard._perform(shard._runtime.flush())
    assert shard.state() == "PrepareCommit"
    assert shard.sent == [], "what the predecessor wrote is not committed yet"
    shard.commit()
    assert len(shard.sent) == 1
    assert asked not in shard.replies


def test_an_abort_without_partitions_is_completed_by_the_successor() -> None:
    shard = TransactionShard()
    shard.begin()
    set_epoch(shard, 1, state=S.PREPARE_ABORT, version=2)
    shard.start()
    assert shard.state() == "CompleteAbort"


# ---- two-phase commit ----------------------------------------------------------------------------

TWO_PHASE = TransactionConfig(two_phase_commit=True)


@pytest.mark.parametrize("options", [{"two_phase": True}, {"keeps_prepared": True}])
def test_two_phase_commit_is_off(options: dict[str, bool]) -> None:
    shard = TransactionShard()
    with pytest.raises(TransactionalIdAuthorizationFailed, match="two-phase commit is off"):
        raise shard.begin(**options)


def test_a_prepared_transaction_does_not_time_out_and_a_new_instance_ends_it() -> None:
    shard = TransactionShard(TWO_PHASE)
    shard.begin(two_phase=True)
    shard.added(P, A)
    shard.advance(100 * TIMEOUT_MS)
    shard.start()
    shard.advance(100 * TIMEOUT_MS)
    assert shard.state() == "Ongoing"
    begun = shard.begin(two_phase=True, keeps_prepared=True)
    assert begun == ProducerBegun(P.next, ongoing=P)
    begun = shard.begin(two_phase=True, keeps_prepared=True)
    assert begun == ProducerBegun(P.next.next, ongoing=P)
    for old in (P, P.next):
        assert isinstance(shard.ended(old), ProducerFenced)
        assert isinstance(shard.added(old, A), ProducerFenced)
    with pytest.raises(InvalidTxnState, match="committed or aborted, and nothing else"):
        raise shard.added(begun.identity, A)
    shard.start()
    assert shard.ended(begun.identity) == TransactionEnded(identity(1000, 3))
    assert shard.write_markers() == [SendMarkers(T, P.next, True, frozenset({A}), 2)]
    assert shard.ended(begun.identity) == TransactionEnded(identity(1000, 3))
    assert shard.added(identity(1000, 3), A) == PartitionsAdded({A: None})


def test_a_kept_transaction_is_aborted_by_an_instance_that_does_not_keep_it() -> None:
    shard = TransactionShard(TWO_PHASE)
    shard.begin(two_phase=True)
    shard.added(P, A)
    shard.begin(two_phase=True, keeps_prepared=True)
    asked = shard.init()
    assert shard.write_markers() == [SendMarkers(T, P.next, False, frozenset({A}), 2)]
    assert shard.replies[asked] == ProducerBegun(identity(1000, 3))


def test_a_kept_transaction_of_the_last_epoch_is_ended_by_another_id() -> None:
    shard = TransactionShard(TWO_PHASE)
    shard.begin(two_phase=True)
    set_epoch(shard, LAST_EPOCH)
    last, fresh = identity(1000, LAST_EPOCH), identity(1001, 0)
    shard.added(last, A)
    begun = shard.begin(two_phase=True, keeps_prepared=True)
    assert begun == ProducerBegun(fresh, ongoing=last)
    assert shard.ended(fresh) == TransactionEnded(fresh.next)
    assert shard.write_markers()[0].identity == identity(1000, EPOCH_MAX)
    assert shard.transaction().identity == fresh.next


def test_nothing_is_kept_where_nothing_is_open() -> None:
    shard = TransactionShard(TWO_PHASE)
    begun = shard.begin(two_phase=True, keeps_prepared=True)
    assert begun == ProducerBegun(P, ongoing=NO_IDENTITY)


# ---- looking -------------------------------------------------------------------------------------


def test_a_transaction_is_described() -> None:
    shard = TransactionShard()
    with pytest.raises(TransactionalIdNotFound, match="'t'"):
        raise shard.answer(lambda c, r: c.describe(r, T))
    owner = open_transaction(shard)
    described = shard.answer(lambda c, r: c.describe(r, T))
    assert described == (T, "Ongoing", TIMEOUT_MS, WALL_MS, owner, (A, B))
    shard.ended(owner)
    shard.write_markers()
    described = shard.answer(lambda c, r: c.describe(r, T))
    assert described == (T, "CompleteCommit", TIMEOUT_MS, -1, owner.next, ())


def test_transactions_are_listed_by_filters() -> None:
    shard = TransactionShard()
    owner = open_transaction(shard)
    shard.begin(transactional_id="other")
    shard.advance(1_000)

    def listed(**wanted: Any) -> Any:
        chosen = TransactionFilter(**wanted)
        return shard.answer(lambda c, r: c.list_transactions(shard.wall_ms, r, chosen))

    one = ListedTransaction(T, owner.producer_id, "Ongoing")
    other = ListedTransaction("other", 1001, "Empty")
    assert listed() == [one, other]
    assert listed(states=frozenset({"Empty"})) == [other]
    assert listed(producer_ids=frozenset({1000})) == [one]
    assert listed(duration_ms=999) == [one]
    assert listed(duration_ms=1_000) == []


def test_timers_of_a_loaded_shard() -> None:
    coordinator = TransactionCoordinator(TransactionConfig())
    ongoing = Transaction(T, P, S.ONGOING, 100, frozenset({A}), 5, 6, 2)
    coordinator.replay(record_of(ongoing), Offset(0))
    assert coordinator.on_loaded(0, 45) == Decision(
        [],
        [SetTimer("expiry", 3_600_000), SetTimer(TimeoutTimer(T), 60)],
        is_atomic=False,
    )
