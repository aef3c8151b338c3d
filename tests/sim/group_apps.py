"""The groups of a run: their members, and what befalls them.

A member comes and goes, crashes, is restarted under its instance id, is late to poll, is paused,
reads something else for a while, or comes back with the other protocol. At the end all are good.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pylog.model import CONSUMER_OFFSETS
from pylog_broker.controller.settings import InternalTopic
from pylog_broker.coordinator.groups.config import GroupConfig
from pylog_broker.group_settings import GroupSettings, SameSettings
from tests.sim.group_ghost import GroupGhost
from tests.sim.group_members import NOWHERE, GroupMember, MemberSettings
from tests.sim.scheduler import US_PER_MS

if TYPE_CHECKING:
    from tests.sim.cluster import Cluster

PAUSE_MS_MAX = 4_000


class _Place:
    """The place in a group of one member after the other."""

    def __init__(self, group: _Group, number: int, instance_id: str | None) -> None:
        self.group = group
        self.number = number
        self.instance_id = instance_id
        self.lives = 0
        self.member: GroupMember | None = None


class _Group:
    def __init__(self, group_id: str, protocols: tuple[str, ...], strategies: tuple[str, ...]):
        self.group_id = group_id
        self.protocols = protocols
        self.strategies = strategies
        self.places: list[_Place] = []


class Groups:
    """All of a cluster's."""

    def __init__(self, cluster: Cluster) -> None:
        swarm = cluster.swarm.groups
        assert swarm is not None
        self._cluster = cluster
        self._swarm = swarm
        self._rng = cluster.scheduler.rng("group applications")
        self.config = GroupConfig(
            min_session_timeout_ms=100,
            initial_rebalance_delay_ms=swarm.initial_delay_ms,
            new_member_join_timeout_ms=8_000,
            offsets_retention_ms=swarm.retention_ms,
            offsets_retention_check_interval_ms=700,
            settings=SameSettings(
                GroupSettings(
                    consumer_session_timeout_ms=swarm.session_timeout_ms,
                    consumer_heartbeat_interval_ms=swarm.heartbeat_ms,
                )
            ),
        )
        self.ghost = GroupGhost(cluster, self.config)
        self._groups: list[_Group] = []
        self._is_over = False

    @property
    def topic(self) -> InternalTopic:
        """The settings of the groups' topic."""
        swarm = self._cluster.swarm
        config = {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "min.insync.replicas": str(swarm.min_insync),
            "segment.bytes": str(swarm.segment_bytes),
            "file.delete.delay.ms": "1000",
            "min.cleanable.dirty.ratio": "0.1",
            "delete.retention.ms": "1500",
            "message.timestamp.after.max.ms": str(2**63 - 1),
            "flush.messages": str(swarm.flush_messages),
            "flush.ms": str(swarm.flush_ms),
        }
        return InternalTopic(
            CONSUMER_OFFSETS, self._swarm.partitions, swarm.replication_factor, config
        )

    # ---- members

    def start(self) -> None:
        """The groups, one member after the other."""
        for number in range(self._swarm.groups):
            protocols = self._rng.choice(self._swarm.protocols)
            group = _Group(f"g{number}", protocols, self._rng.choice(self._swarm.strategies))
            self._groups.append(group)
            for index in range(self._swarm.members):
                is_static = self._rng.random() < self._swarm.static_share
                instance_id = f"i{index}" if is_static else None
                place = _Place(group, index, instance_id)
                group.places.append(place)
                self._later(self._rng.expovariate(1 / 700), self._fill, place)
        if self._groups:
            self._next()

    def _later(self, wait_ms: float, fn: object, *args: object) -> None:
        self._cluster.scheduler.after(int(wait_ms * US_PER_MS), fn, *args)  # type: ignore[arg-type]

    def _fill(self, place: _Place) -> None:
        if place.member is not None and place.member.alive:
            return
        swarm, group = self._swarm, place.group
        place.lives += 1
        settings = MemberSettings(
            group_id=group.group_id,
            protocol=self._rng.choice(group.protocols),
            strategies=group.strategies,
            instance_id=place.instance_id,
            commits=self._rng.choice(("auto", "auto", "sync", "async")),
            listens=self._rng.random() < 0.6,
            regex=self._rng.random() < 0.2,
            max_poll_interval_ms=swarm.max_poll_ms,
            session_timeout_ms=swarm.session_timeout_ms,
            heartbeat_interval_ms=swarm.heartbeat_ms,
            poll_ms=self._rng.choice((5.0, 40.0)),
            work_ms=self._rng.choice((2.0, 20.0, 100.0)),
        )
        name = f"{group.group_id}m{place.number}x{place.lives}"
        member = GroupMember(self._cluster, self, name, settings)
        self._cluster.scheduler.note("comes", name, settings.protocol)
        place.member = member
        self.ghost.members.append(member)
        member.hear(member.start)

    def ended(self, member: GroupMember) -> None:
        """A member has closed, or has been given up; another one comes, sooner or later."""
        for group in self._groups:
            for place in group.places:
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
        places = [place for group in self._groups for place in group.places]
        place = self._rng.choice(places)
        kind = self._rng.choice(self._swarm.faults)
        member = place.member
        if member is not None and member.alive:
            self._cluster.scheduler.note("to a member", kind, member.name)
            self._cluster.sometimes[f"groups: {kind}"] += 1
            self._strike(kind, place, member)
        self._next()

    def _strike(self, kind: str, place: _Place, member: GroupMember) -> None:
        rng = self._rng
        match kind:
            case "crash":
                member.crash()
                self._later(self._away_ms(), self._fill, place)
            case "close":
                member.hear(member.close)
            case "restart":
                # as a supervisor does; of a static member the old one may be heard of yet
                member.crash()
                self._later(rng.random() * 100, self._fill, place)
            case "replace":
                # the old one is not dead as yet, but forgotten
                place.member = None
                self._fill(place)
                self._later(rng.randint(500, 4_000), member.crash)
            case "stall":
                member.hear(member.stall, self._swarm.max_poll_ms * (0.3 + rng.random() * 1.5))
            case "pause":
                member.machine.pause()
                self._later(rng.randint(50, PAUSE_MS_MAX), member.machine.resume)
            case "resubscribe":
                member.hear(member.subscribe, NOWHERE)
                member.timer(rng.randint(100, 2_000), member.subscribe)
            case _:
                raise AssertionError(kind)

    # ---- the end

    def settle(self) -> None:
        """Every place has a member, and all users are good."""
        self._is_over = True
        places = [place for group in self._groups for place in group.places]
        kept = [place.member for place in places]
        for member in self.ghost.members:
            member.machine.resume()
            if member not in kept and member.alive:
                member.crash()
        for place in places:
            if place.member is None or not place.member.alive:
                self._fill(place)
            assert place.member is not None
            place.member.hear(place.member.settle)

    @property
    def waits_for(self) -> list[str]:
        """L1: what is not settled."""
        found: list[str] = []
        topic = self._cluster.topic()
        for group in self._groups:
            owned: list[int] = []
            for place in group.places:
                member = place.member
                if member is None or not member.alive:
                    found.append(f"{group.group_id} lacks member {place.number}")
                    continue
                found += [f"{member.name} waits for {what}" for what in member.waits_for]
                owned += [tp.partition for tp in member.owned]
            if topic is not None and sorted(owned) != sorted(topic.partitions):
                found.append(f"{group.group_id} owns {sorted(owned)} of {sorted(topic.partitions)}")
            found += [
                f"{group.group_id} has not processed {len(missing)} records of {number}: "
                f"{missing[0]} to {missing[-1]}"
                for number, missing in self.ghost.unread(group.group_id).items()
            ]
        return found

    @property
    def unread(self) -> int:
        """So many records have not been processed yet, of all groups."""
        return sum(
            len(missing)
            for group in self._groups
            for missing in self.ghost.unread(group.group_id).values()
        )
