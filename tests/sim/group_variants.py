"""Known bugs of groups, put in on purpose: of the coordinator, its runtime, and the members.

The rows cited (B-G..) are those of the reference of known bugs, each once in a real system.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from pylog.client.fetching.group_managers import GroupManagers
from pylog.client.membership import classic_membership, wire
from pylog.client.membership.assignors import CooperativeStickyAssignor, StickyAssignor
from pylog.client.membership.classic_membership import ClassicMembership
from pylog.client.membership.consumer_membership import ConsumerMembership
from pylog.client.membership.member_state import MemberState
from pylog.client.membership.messages import Effect, OffsetsFetched, ReadExactly
from pylog.model import LATEST_TIMESTAMP, OffsetAndMetadata, TopicPartition
from pylog_broker.coordinator.generated.offset_commit import OffsetCommitKey, OffsetCommitValue
from pylog_broker.coordinator.groups.classic.group import ClassicGroup, Member
from pylog_broker.coordinator.groups.classic.protocol import ClassicProtocol
from pylog_broker.coordinator.groups.consumer import protocol
from pylog_broker.coordinator.groups.consumer.group import ConsumerGroup, ConsumerMember
from pylog_broker.coordinator.groups.consumer.protocol import ConsumerProtocol
from pylog_broker.coordinator.groups.consumer.topics import NO_PARTITIONS, Partitions
from pylog_broker.coordinator.groups.offsets import GroupOffsets
from pylog_broker.coordinator.runtime.decision import Decision, Record, Reply
from pylog_broker.coordinator.runtime.runtime import CoordinatorRuntime
from pylog_broker.coordinator.runtime.shard import Leaving, Shard, ShardPhase
from pylog_broker.node import coordinators
from pylog_broker.replicated.state_machine import LogSlice
from tests.sim.swarm import Swarm
from tests.sim.variant import Variant

# ---- the coordinator -----------------------------------------------------------------------------

_production_reconciled = protocol.reconciled
_production_heartbeat = ClassicProtocol.heartbeat


def _any_caller(_group: object, _caller: object, **_how: object) -> None:
    return None


def _always_there(self: ClassicProtocol, request_id: int, request: Any) -> Decision:
    group = self._groups.get(request.group_id)
    if isinstance(group, ClassicGroup) and request.member_id in group.members:
        return _production_heartbeat(self, request_id, request)
    return Decision(effects=[Reply(request_id, None)])


def _as_if_free(
    member: ConsumerMember, target: Partitions, epoch: int, _is_free: object, owned: Any
) -> ConsumerMember:
    return _production_reconciled(member, target, epoch, lambda _partition: True, owned)


def _as_if_given_up(
    member: ConsumerMember, target: Partitions, epoch: int, is_free: Any, _owned: object
) -> ConsumerMember:
    return _production_reconciled(member, target, epoch, is_free, NO_PARTITIONS)


def _no_decision(_self: object, *_args: object) -> Decision:
    return Decision()


def _whoever_says_so(self: ClassicGroup, member_id: str, instance_id: str | None) -> Member:
    known = self.static.get(instance_id or "", member_id)
    return _production_check_id(self, known, instance_id)


_production_check_id = ClassicGroup.check_id


def _values_only(self: GroupOffsets, key: OffsetCommitKey, value: OffsetCommitValue | None) -> None:
    if value is not None:
        _production_offsets_replay(self, key, value)


_production_offsets_replay = GroupOffsets.replay


def _nothing_to_forget(_self: GroupOffsets, _topics: object) -> list[Record]:
    return []


def _nobody_reads(_group: object, _topic: str) -> bool:
    return False


# ---- its runtime ---------------------------------------------------------------------------------

_production_flush = Shard.flush
_production_slice_of = coordinators.slice_of


def replies_at_once(self: Shard[Any]) -> list[Leaving]:
    """A `Shard.flush` whose answers wait for nothing."""
    replies, self._replies = self._replies, []
    out = _production_flush(self)
    for reply in replies:
        out += self._leaves(reply)
    return out


def _loses_the_first(
    batches: Any, name: TopicPartition, from_offset: Any, next_offset: Any, codec: Any
) -> LogSlice[Record]:
    found = _production_slice_of(batches, name, from_offset, next_offset, codec)
    return replace(found, appends=found.appends[1:]) if from_offset else found


def loaded_by_the_first_slice(self: Shard[Any], read: LogSlice[Record], end: Any) -> bool:
    """A `Shard.load` that is content with what it gets first."""
    self._machine.load(read)
    self._commit()
    self._machine.lead(self.epoch, end)
    self.phase = ShardPhase.ACTIVE
    return True


def _nothing_failed(_self: object, *_args: object) -> list[Any]:
    return []


# ---- members -------------------------------------------------------------------------------------

_production_perform = GroupManagers._perform
_production_consumer_heartbeat = ConsumerMembership.on_heartbeat


def _behind_what_was_fetched(
    self: GroupManagers, _unread: object
) -> dict[TopicPartition, OffsetAndMetadata]:
    return {
        tp: OffsetAndMetadata(partition.fetch_offset)
        for tp, partition in self._positions.partitions.items()
        if partition.position is not None
    }


_production_hand_over = GroupManagers._hand_over


def _without_the_user(self: GroupManagers, now_ms: int) -> Any:
    done = _production_hand_over(self, now_ms)
    self._handovers[-1].commit = self.commits.commit_consumed(now_ms)
    return done


def _nothing_is_given_up(self: GroupManagers, effect: Any, effects: list[Effect]) -> None:
    if isinstance(effect, ReadExactly):
        kept = dict.fromkeys((*self._positions.partitions, *effect.partitions))
        effect = ReadExactly(tuple(kept))
    _production_perform(self, effect, effects)


def _whatever_was_asked(self: ConsumerMembership, now_ms: int, request: Any, answer: Any) -> None:
    self._in_flight = request
    _production_consumer_heartbeat(self, now_ms, request, answer)


def _keeps_what_is_gone(_self: ConsumerMembership, _partitions: object) -> None:
    pass


def _no_id(_self: GroupManagers, _tp: TopicPartition) -> str:
    return ""


_production_fetched = wire._fetched


def _whichever_topic_it_is_in(response: Any) -> OffsetsFetched:
    told = _production_fetched(response)
    return told._replace(partitions=tuple(one._replace(topic_id="") for one in told.partitions))


def _nothing_is_lost(_self: GroupManagers, _kept: tuple[TopicPartition, ...]) -> None:
    pass


def _awaits_nothing(_self: GroupManagers, _tp: TopicPartition) -> bool:
    return False


def _keeps_all(self: ClassicMembership, now_ms: int) -> None:
    self._become(MemberState.PREPARING_REBALANCE)


def _nothing_moves(*_of: object) -> set[str]:
    return set()


def _begins_at_the_end(self: GroupManagers, asked: Iterable[TopicPartition], _answer: Any) -> None:
    unstarted = self._positions.unstarted
    for tp in asked:
        if tp in unstarted:
            del unstarted[tp]
            self._positions.seek_to(self._positions.partitions[tp], LATEST_TIMESTAMP)


# ---- what more it takes --------------------------------------------------------------------------


def _with_members(
    *faults: str, protocols: tuple[tuple[str, ...], ...] = (), **more: Any
) -> Callable[[Swarm], Swarm]:
    """Several members of one group, to whom this happens often."""

    def leaning(swarm: Swarm) -> Swarm:
        groups = swarm.groups
        if groups is None:
            return swarm
        groups = replace(
            groups,
            groups=1,
            members=3,
            faults=faults or groups.faults,
            interval_ms=700.0,
            protocols=protocols or groups.protocols,
            **more,
        )
        return replace(swarm, groups=groups)

    return leaning


def _grown_under_members(swarm: Swarm) -> Swarm:
    """A topic grows when all members are there. Later none joins, or joins again, which would make
    their group look at its topics.
    """
    members = _with_members(
        "pause", protocols=CONSUMER, static_share=0.0, session_timeout_ms=20_000
    )
    return replace(
        members(swarm), faults=("grow",), fault_interval_ms=4_000.0, partitions=1, log_dirs=1
    )


def _among(*faults: str, then: Callable[[Swarm], Swarm]) -> Callable[[Swarm], Swarm]:
    """The same, with these faults of brokers and administrators."""

    def leaning(swarm: Swarm) -> Swarm:
        return replace(then(swarm), faults=faults, fault_interval_ms=900.0, log_dirs=1)

    return leaning


CLASSIC = (("classic",),)
CONSUMER = (("consumer",),)
COOPERATIVE = (("cooperative-sticky",),)
LEADERS_CHANGE = ("kill", "isolate", "stop", "kill_all")

GROUP_VARIANTS: dict[str, Variant] = {
    "commit_of_an_old_generation": Variant(
        "B-G1, B-G2: a commit is taken whatever generation or epoch it names",
        (
            (ClassicGroup, "check_commit", _any_caller),
            (ConsumerGroup, "check_commit", _any_caller),
        ),
        leaning=_with_members("stall", "pause", "replace", "crash"),
        caught_by=3,
        groups=True,
    ),
    "commit_answered_early": Variant(
        "I10: a coordinator answers before its record is committed",
        ((Shard, "flush", replies_at_once),),
        groups=True,
    ),
    "stranger_lives": Variant(
        "The heartbeat of a member that was put out is answered as if it were one",
        ((ClassicProtocol, "heartbeat", _always_there),),
        leaning=_among(
            "session_breaks",
            then=_with_members(
                "pause",
                protocols=CLASSIC,
                static_share=0.0,
                session_timeout_ms=900,
                max_poll_ms=60_000,
            ),
        ),
        caught_by=6,
        groups=True,
    ),
    "handed_on_before_it_was_free": Variant(
        "A partition is given to its next owner while the one before has it",
        ((protocol, "reconciled", _as_if_free),),
        leaning=_with_members("crash", "close", "resubscribe", protocols=CONSUMER),
        caught_by=3,
        groups=True,
    ),
    "revoked_without_a_word": Variant(
        "A member counts as having given up what it was just told to give up",
        ((protocol, "reconciled", _as_if_given_up),),
        leaning=_with_members("crash", "close", "resubscribe", protocols=CONSUMER),
        caught_by=3,
        groups=True,
    ),
    "epoch_stays": Variant(
        "A group's epoch does not go up when a topic grows",
        ((ConsumerProtocol, "on_topics_changed", _no_decision),),
        leaning=_grown_under_members,
        caught_by=4,
        groups=True,
    ),
    "offsets_lost_between_slices": Variant(
        "B-G9: the first record of each further slice is lost on load",
        ((coordinators, "slice_of", _loses_the_first),),
        leaning=_among(*LEADERS_CHANGE, then=_with_members(slice_bytes=150)),
        caught_by=3,
        groups=True,
    ),
    "tombstones_ignored": Variant(
        "B-G11: a position that was forgotten is there again by replay",
        ((GroupOffsets, "replay", _values_only),),
        leaning=_with_members("resubscribe", retention_ms=2_000),
        caught_by=4,
        groups=True,
    ),
    "static_member_not_replaced": Variant(
        "B-G7: of two members with one instance id the first is taken for the second",
        ((ClassicGroup, "check_id", _whoever_says_so),),
        leaning=_with_members("replace", protocols=CLASSIC, static_share=1.0),
        caught_by=3,
        groups=True,
    ),
    "no_session_after_a_load": Variant(
        "Members that a new coordinator finds in its log may be silent for ever",
        (
            (ClassicProtocol, "on_loaded", _no_decision),
            (ConsumerProtocol, "on_loaded", _no_decision),
        ),
        leaning=_among(*LEADERS_CHANGE, then=_with_members("crash", static_share=0.0)),
        caught_by=3,
        groups=True,
    ),
    "loaded_by_half": Variant(
        "A coordinator decides before it has read its log to the end",
        ((Shard, "load", loaded_by_the_first_slice),),
        leaning=_among(*LEADERS_CHANGE, then=_with_members(slice_bytes=150)),
        caught_by=3,
        groups=True,
    ),
    "failed_append_ignored": Variant(
        "A coordinator goes on on top of records that were not written",
        ((CoordinatorRuntime, "on_append_failed", _nothing_failed),),
        leaning=_among("disk_full", "isolate", then=_with_members()),
        caught_by=5,
        groups=True,
    ),
    "expired_with_members": Variant(
        "B-G8: a group goes though it has members",
        (
            (ClassicGroup, "is_unused", property(lambda _self: True)),
            (ConsumerGroup, "is_unused", property(lambda _self: True)),
        ),
        leaning=_with_members("resubscribe"),
        groups=True,
    ),
    "expired_while_read": Variant(
        "B-G8: positions expire though members read the topic",
        (
            (ClassicGroup, "subscribes_to", _nobody_reads),
            (ConsumerGroup, "subscribes_to", _nobody_reads),
        ),
        leaning=_with_members("stall", retention_ms=2_000),
        caught_by=6,
        groups=True,
    ),
    "positions_outlive_their_topic": Variant(
        "B-G16: a new topic is read from the position in the one before",
        (
            (GroupOffsets, "forget_topics", _nothing_to_forget),
            (wire, "_fetched", _whichever_topic_it_is_in),
        ),
        leaning=_among("recreate", "kill", then=_with_members("crash", "close")),
        caught_by=15,
        groups=True,
    ),
    "reads_the_next_topic_of_the_name": Variant(
        "A member goes on with a topic that was made anew, which another member may have",
        ((ConsumerMembership, "on_gone", _keeps_what_is_gone),),
        leaning=_among(
            "recreate", "kill", then=_with_members("stall", "close", protocols=CONSUMER)
        ),
        caught_by=38,
        groups=True,
    ),
    "reads_the_topic_before_of_the_name": Variant(
        "A member reads what its metadata have by the name of a topic that it was given",
        ((GroupManagers, "_awaits_topic", _awaits_nothing),),
        leaning=_among(
            "recreate", "kill", then=_with_members("stall", "close", protocols=CONSUMER)
        ),
        caught_by=24,
        groups=True,
    ),
    "commits_to_whatever_has_the_name": Variant(
        "A commit that is sent again counts for a topic that was made anew meanwhile",
        ((GroupManagers, "_read_topic_id", _no_id),),
        leaning=_among("recreate", "kill", then=_with_members("stall", "close")),
        caught_by=1,
        groups=True,
    ),
    "begins_in_whatever_has_the_name": Variant(
        "An offset counts in another topic of the name than the one that it was committed in",
        ((wire, "_fetched", _whichever_topic_it_is_in),),
        leaning=_among(
            "recreate",
            "kill",
            then=_with_members("crash", "close", "stall", protocols=CLASSIC, away_ms=300),
        ),
        caught_by=9,
        groups=True,
    ),
    "commits_nothing_of_what_was_lost": Variant(
        "A commit goes well though the partitions of what the user is done with were lost",
        ((GroupManagers, "_look_at_losses", _nothing_is_lost),),
        leaning=_with_members("stall", max_poll_ms=1_000),
        caught_by=25,
        groups=True,
    ),
    "commits_what_was_fetched": Variant(
        "B-G17, B-G20: a member commits behind what it has fetched, not what its user has had",
        ((GroupManagers, "_positions_behind", _behind_what_was_fetched),),
        groups=True,
    ),
    "hands_over_without_its_user": Variant(
        "B-G18: what is given up is committed before the user is done with it",
        ((GroupManagers, "_hand_over", _without_the_user),),
        leaning=_with_members("crash", "close", "restart"),
        caught_by=4,
        groups=True,
    ),
    "reads_what_was_revoked": Variant(
        "A member goes on to give out records of partitions that it has given up",
        ((GroupManagers, "_perform", _nothing_is_given_up),),
        leaning=_with_members("crash", "close", "restart"),
        groups=True,
    ),
    "old_answer_counts": Variant(
        "A member takes the answer to a heartbeat that it does not wait for",
        ((ConsumerMembership, "on_heartbeat", _whatever_was_asked),),
        leaning=_with_members("pause", "stall", "restart", protocols=CONSUMER),
        caught_by=3,
        groups=True,
    ),
    "eager_member_keeps": Variant(
        "A member joins the next generation with what its strategy has it give up",
        ((ClassicMembership, "_prepare", _keeps_all),),
        leaning=_with_members("crash", "close", "restart", protocols=CLASSIC),
        caught_by=3,
        groups=True,
    ),
    "moved_in_one_generation": Variant(
        "KIP-429: a partition that moves is its new owner's before the old one gave it up",
        ((CooperativeStickyAssignor, "assign", StickyAssignor.assign),),
        leaning=_with_members("crash", "close", protocols=CLASSIC, strategies=COOPERATIVE),
        caught_by=3,
        groups=True,
    ),
    "forgets_what_moves": Variant(
        "A static member that was to give partitions up starts again, and nobody ever has them",
        ((classic_membership, "_moving", _nothing_moves),),
        leaning=_with_members(
            "restart",
            "crash",
            "close",
            protocols=CLASSIC,
            strategies=COOPERATIVE,
            static_share=1.0,
        ),
        caught_by=18,
        groups=True,
    ),
    "reset_by_a_member_that_begins": Variant(
        "B-G9, B-G13: a member begins at the end and not where its group has committed",
        ((GroupManagers, "_begin", _begins_at_the_end),),
        leaning=_with_members("crash", "close"),
        groups=True,
    ),
}
