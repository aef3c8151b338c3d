"""The offsets that groups have committed. Pure.

A position is kept by group and partition, as a record of its own: the newest one counts, and
compaction keeps it. A commit without a group that exists makes a group without members (KIP-211
calls it simple). A position goes when its group is deleted, when somebody deletes it, with its
topic, and when nobody has needed it for `offsets.retention.minutes`. One that a transaction has
written goes with it, though the transaction is open yet: its commit does not bring it back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from pylog.errors import (
    GroupSubscribedToTopic,
    InvalidCommitOffsetSize,
    OffsetMetadataTooLarge,
    PylogError,
    UnstableOffsetCommit,
)
from pylog.model import LeaderEpoch, TopicPartition, topic_id_from_bytes, topic_id_to_bytes
from pylog_broker.coordinator.expiry import Expiry
from pylog_broker.coordinator.generated.offset_commit import OffsetCommitKey, OffsetCommitValue
from pylog_broker.coordinator.groups.config import GroupConfig
from pylog_broker.coordinator.groups.group import Group
from pylog_broker.coordinator.groups.messages import (
    CommittedOffset,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
    OffsetsCommitted,
    OffsetsDeleted,
    OffsetsFetched,
)
from pylog_broker.coordinator.runtime.decision import (
    DECISION_BYTES_MAX,
    Decision,
    Record,
    Reply,
    RequestId,
    TransactionEnd,
)

COMMIT_EXTRA_BYTES: Final = 80
"""The most bytes of a commit's record beside its texts."""

Positions = dict[TopicPartition, OffsetCommitValue]


class GroupOffsets:
    """All positions of one shard, and those that open transactions have written: they count when
    their transaction commits. Invariants: no group has an empty table; `_pending` and `_unstable`
    name the same.
    """

    def __init__(self, config: GroupConfig, expiry: Expiry) -> None:
        self._config = config
        self._expiry = expiry
        self._by_group: dict[str, Positions] = {}
        # producer id -> what its transaction has written; None where a later commit counts
        self._pending: dict[int, dict[OffsetCommitKey, OffsetCommitValue | None]] = {}
        self._unstable: dict[str, dict[TopicPartition, set[int]]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._by_group.values()))

    @property
    def group_ids(self) -> Collection[str]:
        """Groups that have positions."""
        return self._by_group.keys()

    def of(self, group_id: str) -> Positions:
        """The group's positions. To look at, not to change."""
        return self._by_group.get(group_id, {})

    def is_pending(self, group_id: str) -> bool:
        """Whether an open transaction has written positions of the group."""
        return group_id in self._unstable

    def replay(
        self, key: OffsetCommitKey, value: OffsetCommitValue | None, producer_id: int = -1
    ) -> None:
        """Takes in a record."""
        tp = TopicPartition(key.topic, key.partition)
        if producer_id >= 0:
            self._pending.setdefault(producer_id, {})[key] = value
            self._unstable.setdefault(key.group, {}).setdefault(tp, set()).add(producer_id)
            return
        for pending in self._unstable.get(key.group, {}).get(tp, ()):
            self._pending[pending][key] = None
        if value is None:
            self._forget_pending(key, tp)
        self._apply(key, value)

    def _forget_pending(self, key: OffsetCommitKey, tp: TopicPartition) -> None:
        """Open transactions no longer hold anything for that position."""
        for producer_id in self._unstable.get(key.group, {}).get(tp, set()).copy():
            written = self._pending[producer_id]
            del written[key]
            if not written:
                del self._pending[producer_id]
            self._settle(key.group, tp, producer_id)

    def _settle(self, group_id: str, tp: TopicPartition, producer_id: int) -> None:
        """Nothing of the producer is pending there any more."""
        unstable = self._unstable[group_id]
        unstable[tp].discard(producer_id)
        if not unstable[tp]:
            del unstable[tp]
            if not unstable:
                del self._unstable[group_id]

    def replay_end(self, end: TransactionEnd) -> set[str]:
        """Takes in the end of a producer's transaction; the groups that have new positions."""
        changed: set[str] = set()
        for key, value in self._pending.pop(end.producer_id, {}).items():
            self._settle(key.group, TopicPartition(key.topic, key.partition), end.producer_id)
            if end.commits and value is not None:
                self._apply(key, value)
                changed.add(key.group)
        return changed

    def _apply(self, key: OffsetCommitKey, value: OffsetCommitValue | None) -> None:
        tp = TopicPartition(key.topic, key.partition)
        if value is not None:
            self._by_group.setdefault(key.group, {})[tp] = value
            return
        positions = self._by_group.get(key.group)
        if positions is not None and positions.pop(tp, None) is not None and not positions:
            del self._by_group[key.group]

    # ---- requests, of groups that allow them -----------------------------------------------------

    def commit(self, wall_ms: int, request_id: RequestId, request: OffsetCommit) -> Decision:
        """`OffsetsCommitted`; each partition by itself has OffsetMetadataTooLarge, and all together
        InvalidCommitOffsetSize.
        """
        expires_ms = -1 if request.retention_ms < 0 else wall_ms + request.retention_ms
        decision = Decision()
        outcomes: dict[TopicPartition, PylogError | None] = {}
        for tp, committed in request.offsets.items():
            outcomes[tp] = fault = self._too_large(tp, committed.metadata)
            if fault is None:
                value = OffsetCommitValue(
                    offset=committed.offset,
                    leader_epoch=committed.leader_epoch,
                    metadata=committed.metadata,
                    commit_timestamp=wall_ms,
                    expire_timestamp=expires_ms,
                    topic_id=topic_id_to_bytes(committed.topic_id),
                )
                decision.records.append(Record(_key(request.group_id, tp), value))
        sound = {tp: each for tp, each in request.offsets.items() if outcomes[tp] is None}
        too_much = _too_much(request.group_id, sound)
        if too_much is not None:
            decision.records.clear()
            outcomes = {tp: fault or too_much for tp, fault in outcomes.items()}
        decision.effects.append(Reply(request_id, OffsetsCommitted(outcomes)))
        return decision

    def _too_large(self, tp: TopicPartition, metadata: str) -> OffsetMetadataTooLarge | None:
        limit = self._config.offset_metadata_max_bytes
        if len(metadata) <= limit:
            return None
        return OffsetMetadataTooLarge(
            f"{tp}: the metadata of the commit has {len(metadata)} characters, more than the "
            f"broker's offset.metadata.max.bytes={limit}"
        )

    def fetch(self, request_id: RequestId, request: OffsetFetch) -> Decision:
        """`OffsetsFetched`; where only what is stable is wanted, a partition that an open
        transaction has written has UnstableOffsetCommit.
        """
        positions = self.of(request.group_id)
        unstable = self._unstable.get(request.group_id, {}) if request.require_stable else {}
        wanted = request.partitions
        found: dict[TopicPartition, CommittedOffset | PylogError | None] = {}
        for tp in {**positions, **unstable} if wanted is None else wanted:
            found[tp] = _unstable(tp) if tp in unstable else _shown(positions.get(tp))
        return Decision(effects=[Reply(request_id, OffsetsFetched(found))])

    def delete(self, request_id: RequestId, request: OffsetDelete, group: Group | None) -> Decision:
        """`OffsetsDeleted`; a partition of a topic that members read has GroupSubscribedToTopic.
        `group`: None where only open transactions have written positions of it.
        """
        decision = Decision()
        positions = self._all_of(request.group_id)
        outcomes: dict[TopicPartition, PylogError | None] = {}
        for tp in request.partitions:
            outcomes[tp] = None
            if group is not None and group.subscribes_to(tp.topic):
                outcomes[tp] = GroupSubscribedToTopic(
                    f"group {request.group_id!r} reads {tp.topic}: stop its members first"
                )
            elif tp in positions:
                decision.records.append(Record(_key(request.group_id, tp), None))
        decision.effects.append(Reply(request_id, OffsetsDeleted(outcomes)))
        return decision

    # ---- what nobody asked for -------------------------------------------------------------------

    def forget_all(self, group_id: str) -> list[Record]:
        """Tombstones for all positions of a group."""
        return [Record(_key(group_id, tp), None) for tp in self._all_of(group_id)]

    def _all_of(self, group_id: str) -> dict[TopicPartition, None]:
        """Partitions of which the group has a position, or an open transaction has written one."""
        return dict.fromkeys([*self.of(group_id), *self._unstable.get(group_id, ())])

    def forget_topics(self, topics: Collection[str]) -> list[Record]:
        """Tombstones for all positions in topics that are gone."""
        return [
            Record(_key(group_id, tp), None)
            for group_id in dict.fromkeys([*self._by_group, *self._unstable])
            for tp in self._all_of(group_id)
            if tp.topic in topics
        ]

    def expired(self, wall_ms: int, group: Group) -> list[Record]:
        """Tombstones for the group's positions that nobody has needed for so long."""
        return [*self._expired(wall_ms, group)]

    def _expired(self, wall_ms: int, group: Group) -> Iterable[Record]:
        retention_ms = self._config.offsets_retention_ms
        unstable = self._unstable.get(group.group_id, {})
        for tp, position in self.of(group.group_id).items():
            if tp in unstable or group.subscribes_to(tp.topic):
                continue
            expires_ms = group.expires_at(position, retention_ms)
            if expires_ms is None:
                continue
            # A group that was used later keeps it for longer: more of the clock's past counts.
            kept_ms = expires_ms - position.commit_timestamp
            if self._expiry.has_come(wall_ms, expires_ms, kept_ms):
                yield Record(_key(group.group_id, tp), None)


def size_of(group_id: str, offsets: Mapping[TopicPartition, CommittedOffset]) -> int:
    """The bytes that the records of a commit take, at most."""
    each = COMMIT_EXTRA_BYTES + len(group_id.encode())
    return sum(
        each + len(tp.topic) + len(committed.metadata.encode()) for tp, committed in offsets.items()
    )


def _too_much(
    group_id: str, offsets: Mapping[TopicPartition, CommittedOffset]
) -> InvalidCommitOffsetSize | None:
    """The reason why these offsets cannot be committed together; None: they can."""
    size = size_of(group_id, offsets)
    if size <= DECISION_BYTES_MAX:
        return None
    return InvalidCommitOffsetSize(
        f"the commit of {len(offsets)} partitions takes {size} bytes, more than the "
        f"{DECISION_BYTES_MAX} that are written at once: commit fewer of them at a time, or with "
        "less metadata"
    )


def _key(group_id: str, tp: TopicPartition) -> OffsetCommitKey:
    return OffsetCommitKey(group_id, tp.topic, tp.partition)


def _unstable(tp: TopicPartition) -> UnstableOffsetCommit:
    return UnstableOffsetCommit(f"{tp}: an open transaction has written another position")


def _shown(value: OffsetCommitValue | None) -> CommittedOffset | None:
    if value is None:
        return None
    topic_id = topic_id_from_bytes(value.topic_id)
    return CommittedOffset(value.offset, LeaderEpoch(value.leader_epoch), value.metadata, topic_id)
