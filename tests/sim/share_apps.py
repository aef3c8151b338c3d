"""The share groups of a run: their members, and what befalls them.

A member comes and goes, crashes, ends with an error in the middle of records, is late to poll or to
acknowledge, is paused, loses its connections, or is forgotten while it goes on. At the end all are
good, and every group gets to the end of the topic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pylog.model import CONSUMER_OFFSETS
from pylog_broker.controller.settings import SHARE_GROUP_STATE, InternalTopic
from pylog_broker.coordinator.groups.config import GroupConfig
from pylog_broker.coordinator.share_state.coordinator import ShareStateConfig
from pylog_broker.group_settings import GroupSettings
from tests.sim.scheduler import US_PER_MS
from tests.sim.share_ghost import ShareGhost
from tests.sim.share_letters import DEAD_LETTERS
from tests.sim.share_members import ShareMember, ShareMemberSettings
from tests.sim.share_offsets import ShareOffsets

if TYPE_CHECKING:
    from tests.sim.cluster import Cluster
    from tests.sim.swarm import ShareSwarm

PAUSE_MS_MAX = 4_000
WRITE_MS = 1_500
"""The time for which a write of state may wait for other replicas."""


class _Place:
    """The place in a group of one member after the other."""

    def __init__(self, group_id: str, number: int) -> None:
        self.group_id = group_id
        self.number = number
        self.lives = 0
        self.member: ShareMember | None = None


class _Settings:
    """`SettingsByGroup`: the settings of each group of a run."""

    def __init__(self, swarm: ShareSwarm) -> None:
        self._by_isolation = [
            GroupSettings(
                share_session_timeout_ms=swarm.session_timeout_ms,
                share_heartbeat_interval_ms=swarm.heartbeat_ms,
                share_record_lock_duration_ms=swarm.lock_ms,
                share_delivery_count_limit=swarm.delivery_limit,
                share_partition_max_record_locks=swarm.locks_max,
                share_auto_offset_reset=swarm.reset,
                share_isolation_level=isolation,
                errors_deadletterqueue_topic_name=DEAD_LETTERS if swarm.dead_letters else "",
                errors_deadletterqueue_copy_record_enable=swarm.copies_dead_letters,
            )
            for isolation in swarm.isolation
        ]

    def of(self, group_id: str) -> GroupSettings:
        """The settings of the group of that number."""
        return self._by_isolation[int(group_id[1:]) % len(self._by_isolation)]


class ShareApps:
    """All of a cluster's."""

    def __init__(self, cluster: Cluster) -> None:
        swarm = cluster.swarm.shares
        assert swarm is not None
        self._cluster = cluster
        self._swarm = swarm
        self._rng = cluster.scheduler.rng("share applications")
        self.config = GroupConfig(
            offsets_retention_check_interval_ms=60_000,
            settings=_Settings(swarm),
        )
        self.broker_settings: dict[str, Any] = {
            "share_coordinator_snapshot_update_records_per_snapshot": swarm.updates_per_snapshot,
            "share_coordinator_cold_partition_snapshot_interval_ms": swarm.cold_ms,
            "share_coordinator_state_topic_prune_interval_ms": swarm.prune_ms,
            "share_coordinator_write_timeout_ms": WRITE_MS,
            "offsets_commit_timeout_ms": WRITE_MS,
            "errors_deadletterqueue_auto_create_topics_enable": True,
        }
        state = ShareStateConfig(swarm.updates_per_snapshot, swarm.cold_ms)
        self.ghost = ShareGhost(cluster, self.config, state)
        self._places = [
            _Place(f"s{group}", number)
            for group in range(swarm.groups)
            for number in range(swarm.members)
        ]
        self._members: list[ShareMember] = []
        self._emptied: set[str] = set()
        self._offsets = ShareOffsets(cluster, self) if swarm.alters else None
        self._is_over = False

    @property
    def topics(self) -> tuple[InternalTopic, ...]:
        """The settings of the topics of groups and of their state."""
        swarm = self._cluster.swarm
        config = {
            "compression.type": "producer",
            "min.insync.replicas": str(swarm.min_insync),
            "segment.bytes": str(swarm.segment_bytes),
            "file.delete.delay.ms": "1000",
            "delete.retention.ms": "1500",
            "message.timestamp.after.max.ms": str(2**63 - 1),
            "flush.messages": str(swarm.flush_messages),
            "flush.ms": str(swarm.flush_ms),
        }
        compacted = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.1"}
        deleted = {"cleanup.policy": "delete", "retention.ms": "-1"}
        factor, shares = swarm.replication_factor, self._swarm
        return (
            InternalTopic(CONSUMER_OFFSETS, shares.partitions, factor, config | compacted),
            InternalTopic(SHARE_GROUP_STATE, shares.state_partitions, factor, config | deleted),
        )

    # ---- members

    def start(self) -> None:
        """One member after the other."""
        for place in self._places:
            self._later(self._rng.expovariate(1 / 700), self._fill, place)
        if self._offsets is not None:
            self._offsets.start()
        self._next()

    def _later(self, wait_ms: float, fn: object, *args: object) -> None:
        self._cluster.scheduler.after(int(wait_ms * US_PER_MS), fn, *args)  # type: ignore[arg-type]

    def _fill(self, place: _Place) -> None:
        if place.member is not None and place.member.alive:
            return
        if place.group_id not in self._emptied:
            self._come(place)

    def _come(self, place: _Place) -> None:
        swarm, rng = self._swarm, self._rng
        place.lives += 1
        settings = ShareMemberSettings(
            group_id=place.group_id,
            explicit=rng.random() < 0.6,
            strict=rng.random() < 0.5,
            commits=rng.choice(("poll", "sync", "async")),
            max_poll_records=swarm.max_poll_records,
            max_poll_interval_ms=swarm.max_poll_ms,
            failing_share=swarm.failing_share,
            poll_ms=rng.choice((20.0, 100.0)),
            work_ms=rng.choice((2.0, 20.0, swarm.lock_ms / 2)),
        )
        name = f"{place.group_id}m{place.number}x{place.lives}"
        member = ShareMember(self._cluster, self, name, settings)
        self._cluster.scheduler.note("comes", name)
        place.member = member
        self._members.append(member)
        member.hear(member.start)
        if self._is_over:
            member.hear(member.settle)

    def empty(self, group_id: str) -> None:
        """All members of the group leave or die, and no others come before `fill`."""
        self._emptied.add(group_id)
        for place in self._places:
            member = place.member
            if place.group_id != group_id or member is None or not member.alive:
                continue
            if self._rng.random() < 0.5:
                member.crash()
            else:
                member.hear(member.close)

    def come_too_early(self, group_id: str) -> None:
        """A member comes though the group is to be without any."""
        places = [each for each in self._places if each.group_id == group_id]
        free = [each for each in places if each.member is None or not each.member.alive]
        if free and group_id in self._emptied:
            self._cluster.sometimes["shares: member came too early"] += 1
            self._come(self._rng.choice(free))

    def fill(self, group_id: str) -> None:
        """Members take the group's places again."""
        self._emptied.discard(group_id)
        for place in self._places:
            if place.group_id == group_id:
                self._later(self._away_ms(), self._fill, place)

    def ended(self, member: ShareMember) -> None:
        """A member has closed; another one comes, sooner or later."""
        for place in self._places:
            if place.member is member:
                self._later(self._away_ms(), self._fill, place)

    def _away_ms(self) -> float:
        return 50 if self._is_over else self._rng.expovariate(1 / self._swarm.away_ms)

    # ---- what befalls them

    def _next(self) -> None:
        self._later(self._rng.expovariate(1 / self._swarm.interval_ms), self._act)

    def _act(self) -> None:
        if self._is_over:
            return
        place = self._rng.choice(self._places)
        kind = self._rng.choice(self._swarm.faults)
        member = place.member
        if member is not None and member.alive:
            self._cluster.scheduler.note("to a member", kind, member.name)
            self._cluster.sometimes[f"shares: {kind}"] += 1
            self._strike(kind, place, member)
        self._next()

    def _strike(self, kind: str, place: _Place, member: ShareMember) -> None:
        rng, swarm = self._rng, self._swarm
        match kind:
            case "crash":
                member.crash()
                self._later(self._away_ms(), self._fill, place)
            case "close":
                member.hear(member.close)
            case "raise":
                member.hear(member.close, False)
            case "replace":
                # the old one is not dead as yet, but forgotten
                place.member = None
                self._fill(place)
                self._later(rng.randint(500, 4_000), member.crash)
            case "stall":
                longest_ms = max(swarm.max_poll_ms, swarm.lock_ms)
                member.hear(member.stall, longest_ms * (0.3 + rng.random() * 1.5))
            case "pause":
                member.machine.pause()
                self._later(rng.randint(50, PAUSE_MS_MAX), member.machine.resume)
            case "disconnect":
                member.hear(member.disconnect)
            case _:
                raise AssertionError(kind)

    # ---- the end

    def settle(self) -> None:
        """Every place has a member, and all users are good."""
        self._is_over = True
        self._emptied.clear()
        if self._offsets is not None:
            self._offsets.is_over = True
        kept = [place.member for place in self._places]
        for member in self._members:
            member.machine.resume()
            if member not in kept and member.alive:
                member.crash()
        for place in self._places:
            if place.member is None or not place.member.alive:
                self._fill(place)
            assert place.member is not None
            place.member.hear(place.member.settle)

    @property
    def waits_for(self) -> list[str]:
        """L1: what is not settled."""
        found: list[str] = []
        for place in self._places:
            member = place.member
            if member is None or not member.alive:
                found.append(f"{place.group_id} lacks member {place.number}")
            else:
                found += [f"{member.name} waits for {what}" for what in member.waits_for]
        for group_id in self.group_ids:
            found += [f"{group_id}: {what}" for what in self.ghost.unfinished(group_id).values()]
        return found

    @property
    def group_ids(self) -> list[str]:
        """The groups."""
        return [*dict.fromkeys(place.group_id for place in self._places)]

    @property
    def unread(self) -> int:
        """So many records are left, of all groups."""
        topic = self._cluster.topic()
        if topic is None:
            return 0
        return sum(
            self.ghost.left(group_id, topic.topic_id, number)
            for group_id in self.group_ids
            for number in topic.partitions
        )
