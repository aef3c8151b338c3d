"""The replicas of this broker, in the roles and with the settings that the metadata give them.

The records say who leads and who follows; this carries it out on partitions and logs, and takes a
replica offline whose log fails. Pure, like the manager whose part it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Final

from pylog.errors import PylogError
from pylog.model import NO_LEADER, BrokerId, Offset, TopicId, TopicPartition
from pylog_broker.config import BrokerConfig, TopicConfig
from pylog_broker.metadata.records import ConfigResourceType, PartitionRecord
from pylog_broker.replication.effects import DeleteReplicaLater, ReplicaFailed
from pylog_broker.replication.follower import FollowerState
from pylog_broker.replication.followers import Followers
from pylog_broker.replication.hosted import HostedPartitions
from pylog_broker.replication.isr import IsrEffect, LeaderState
from pylog_broker.replication.leaderships import Leaderships
from pylog_broker.replication.partition import Partition
from pylog_broker.replication.syncs import Syncs
from pylog_broker.replication.waiting import WaitingRoom
from pylog_broker.replication.without_room import RETRY_MS, WithoutRoom
from pylog_broker.storage.errors import PassingStorageError
from pylog_broker.storage.files import is_of_the_moment
from pylog_broker.storage.log.log import Log
from pylog_broker.storage.manager.log_directories import LogDirectories

NEW_LOGS_AT_ONCE: Final = 64
"""A new log is a dozen calls of the file system; the loop has others to serve in between, and a
lease to renew.
"""


_DoomedKey = tuple[TopicPartition, TopicId | None]
_Doomed = dict[_DoomedKey, TopicConfig]
"""Logs to delete, by name and topic id, with the settings that they had."""


class Replicas:
    """The roles of one broker's partitions. A part of `ReplicaManager`, on its room."""

    def __init__(
        self,
        me: BrokerId,
        logs: LogDirectories,
        config: BrokerConfig,
        hosted: HostedPartitions,
        room: WaitingRoom,
        followers: Followers,
        syncs: Syncs,
        lead: Callable[[Partition, tuple[IsrEffect, ...]], None],
        *,
        is_watched: Callable[[str], bool],
        known_high_watermarks: dict[TopicPartition, Offset],
        leader_state: type[LeaderState],
        follower_state: type[FollowerState],
    ) -> None:
        self._me = me
        self._logs = logs
        self._config = config
        self._defaults = config.topic
        self._hosted = hosted
        self._room = room
        self._settings = room.settings
        self._followers = followers
        self._syncs = syncs
        self._lead = lead
        self._is_watched = is_watched
        self._leaderships = Leaderships(room)
        self._known_high_watermarks = known_high_watermarks
        self._leader_state = leader_state
        self._follower_state = follower_state
        self._without_room: WithoutRoom[tuple[TopicId, int]] = WithoutRoom()
        self._undeleted: WithoutRoom[tuple[_DoomedKey, TopicConfig]] = WithoutRoom()
        # partitions whose logs are still to be made, each by its newest record
        self._unmade: dict[tuple[TopicId, int], PartitionRecord] = {}

    @property
    def next_deadline(self) -> int | None:
        """The time of the next call of `go_on`; None: no log waits to be made or deleted."""
        if self._unmade:
            return self._room.now_ms
        unmade, undeleted = self._without_room.next_deadline, self._undeleted.next_deadline
        return min((at for at in (unmade, undeleted) if at is not None), default=None)

    def take_up(self, records: Iterable[PartitionRecord]) -> None:
        """Host, lead, follow or delete what these records say; many new logs are for `go_on`."""
        moved_away = []
        for record in records:
            key = (record.topic_id, record.partition)
            partition = self._hosted.by_id.get(key)
            if self._me not in record.replicas:
                self._unmade.pop(key, None)
                if partition is not None:
                    moved_away.append(partition)
            elif partition is not None:
                if record.partition_epoch > partition.partition_epoch:
                    self._change_role(partition, record)
            elif self._log_of(record) is not None:
                self._host(record)
            else:
                self._unmade[key] = record
        self.delete(moved_away)
        self._make_some()
        at = self.next_deadline
        if at is not None:
            self._room.due(at)

    def go_on(self) -> None:
        """Make more of the new logs, and try again what was refused."""
        self._make_some()
        undeleted = [
            (key, config)
            for key, config in self._undeleted.take(self._room.now_ms)
            if not self._is_here_again(*key)
        ]
        if undeleted:
            self._delete_logs(dict(undeleted))
        self._look_for_room()

    def _is_here_again(self, name: TopicPartition, topic_id: TopicId | None) -> bool:
        """Whether a replica that was taken away has come back before its log was deleted, and works
        in another log directory. A start sets the old log aside.
        """
        partition = self._hosted.by_name.get(name)
        return partition is not None and partition.topic_id == topic_id and partition.has_log

    def _make_some(self) -> None:
        for key in list(islice(self._unmade, NEW_LOGS_AT_ONCE)):
            record = self._unmade.pop(key)
            if self._hosted.image.topic_name(record.topic_id) is not None:  # not deleted since
                self._host(record)

    def _log_of(self, record: PartitionRecord) -> Log | None:
        directory_id = record.directory_of(self._me)
        return self._logs.by_id(record.topic_id, record.partition, directory_id)

    def _host(self, record: PartitionRecord, *, again: bool = False) -> None:
        name = self._hosted.image.topic_name(record.topic_id)
        assert name is not None, record
        topic_partition = TopicPartition(name, record.partition)
        predecessor = self._hosted.by_name.get(topic_partition)
        if predecessor is not None:  # the same name under an older id
            self.delete([predecessor])
        config = self._topic_config(name)
        log = self._log_of(record)
        fault: Exception | None = None
        high_watermark = Offset(0)
        try:
            if log is None:
                directory_id = record.directory_of(self._me)
                log = self._logs.create(
                    topic_partition, record.topic_id, config, directory_id=directory_id
                )
            else:
                log.config = config
                fault = log.failure  # it failed before anybody asked for it
                high_watermark = self._known_high_watermarks.get(topic_partition, Offset(0))
                fault = log.failure  # of a sync, say, before there was a role to lose
        except (OSError, PylogError) as error:
            fault = error
        partition = Partition(
            self._me,
            topic_partition,
            record.topic_id,
            config,
            log,
            high_watermark,
            is_watched=self._is_watched(name),
        )
        self._hosted.add(partition)
        if fault is None:
            self._change_role(partition, record)
            return
        partition.retire(record, str(fault))
        if isinstance(fault, PassingStorageError):
            self._without_room.add(self._room.now_ms, (record.topic_id, record.partition))
            if not again:
                self._room.outbox.append(ReplicaFailed(topic_partition, str(fault)))
        else:
            self._report_failed(partition, str(fault))

    def _look_for_room(self) -> None:
        for key in self._without_room.take(self._room.now_ms):
            partition = self._hosted.by_id.get(key)
            record = self._hosted.image.partition(*key)
            if partition is not None and record is not None and self._me in record.replicas:
                self._hosted.remove(partition)
                self._host(record, again=True)

    def _change_role(self, partition: Partition, record: PartitionRecord) -> None:
        if partition.offline:
            partition.retire(record)
            return
        now_ms = self._room.now_ms
        new_epoch = record.leader_epoch > partition.leader_epoch
        if record.leader not in (self._me, NO_LEADER) and partition.log.damage:
            # Another one has what has rotted here. To follow it, this log would have to be healed.
            partition.retire(record)
            self.storage_failed(partition, partition.log.give_up_damaged())
            return
        try:
            if record.leader == self._me:
                leading = partition.leading
                if leading is not None and not new_epoch:
                    effects = leading.on_isr_committed(
                        now_ms,
                        record.isr,
                        record.partition_epoch,
                        record.replicas,
                        record.failed_replicas,
                        record.adding_replicas,
                    )
                    self._hosted.isr_changes.note(partition.isr, record.isr)
                    partition.take(record)
                    self._room.replica_fetches.isr_changed(partition)
                    self._lead(partition, tuple(effects))
                    self._room.deletions.check(partition)
                    return
                self._followers.unfollow(partition)
                partition.become_leader(
                    now_ms, record, self._hosted.eligible, self._settings, self._leader_state
                )
                self._syncs.hold_back(partition)
            elif new_epoch or record.leader != partition.leader or partition.leading:
                partition.become_follower(record, self._settings, self._follower_state)
                self._followers.follow(partition)
            else:
                partition.take(record)
                self._followers.isr_changed(partition)
                return
        except PassingStorageError as error:
            self._followers.unfollow(partition)
            partition.retire(record, str(error))
            self._known_high_watermarks[partition.topic_partition] = partition.high_watermark
            self._without_room.add(now_ms, (record.topic_id, record.partition))
        except (OSError, PylogError) as error:
            partition.retire(record)
            self.storage_failed(partition, error)
        self._role_changed(partition)
        if partition.leading is not None:
            self._lead(partition, tuple(partition.leading.on_elected(now_ms)))
        # Of the same epoch, or none: a request that is woken may find that the log fails.
        leading = partition.leading
        if leading is not None and partition.log.damage:
            self._lead(partition, tuple(leading.on_damage(now_ms)))

    def _topic_config(self, name: str) -> TopicConfig:
        overrides = self._hosted.image.topic_configs(name)
        return TopicConfig.resolve(overrides, self._defaults) if overrides else self._defaults

    def refresh_defaults(self) -> bool:
        """Whether the defaults of topic settings have changed: this broker's over the cluster's."""
        image, before = self._hosted.image, self._defaults
        live = self._config.under(image.cluster_configs(), image.broker_configs(self._me))
        self._logs.reconfigure(live)
        now_ms, throttles = self._room.now_ms, self._hosted.throttles
        throttles.leader.set_rate(now_ms, live.leader_replication_throttled_rate)
        throttles.follower.set_rate(now_ms, live.follower_replication_throttled_rate)
        self._defaults = live.topic
        return self._defaults != before

    def reconfigure_all(self, changed: Iterable[tuple[ConfigResourceType, str]]) -> list[Partition]:
        """The settings of these resources changed. Returns the partitions led here that have others
        now: `count_anew` is for those that still lead when all roles are taken up.
        """
        if self.refresh_defaults():
            names = list(self._hosted.image.topics_by_name)
        else:
            names = [name for kind, name in changed if kind is ConfigResourceType.TOPIC]
        return [partition for name in names for partition in self._reconfigure(name)]

    def _reconfigure(self, name: str) -> Iterator[Partition]:
        topic = self._hosted.image.topics_by_name.get(name)
        if topic is None:
            return
        config = self._topic_config(name)
        for number in topic.partitions:
            partition = self._hosted.by_id.get((topic.topic_id, number))
            if partition is None or partition.config == config:
                continue
            partition.config = config
            if partition.has_log:
                partition.log.config = config
            if partition.leading is None:
                continue
            partition.leading.on_min_isr_changed(config.min_insync_replicas)
            try:
                self._syncs.hold_back(partition)
            except PylogError as error:
                self.storage_failed(partition, error)
                continue
            yield partition

    def count_anew(self, partitions: Iterable[Partition]) -> None:
        """Move the high watermarks of those that are led here as far as they may go now."""
        for partition in partitions:
            leading = partition.leading
            if leading is not None:
                self._lead(partition, tuple(leading.count_anew(self._room.now_ms)))

    # ---- replicas that go -----------------------------------------------------------------------

    def delete(self, partitions: list[Partition]) -> None:
        """Host them no more, and give their directories up."""
        for partition in partitions:
            self._followers.unfollow(partition)
            partition.retire(None)
            self._hosted.remove(partition)
            self._role_changed(partition)
        self._delete_logs({(p.topic_partition, p.topic_id): p.config for p in partitions})

    def delete_strays(self, mine: list[PartitionRecord]) -> None:
        """Delete what the metadata does not (or not any more) assign to this broker."""
        image = self._hosted.image
        wanted = {(record.topic_id, record.partition) for record in mine}
        names = {(image.topic_name(topic_id), number) for topic_id, number in wanted}
        strays: _Doomed = {
            (log.topic_partition, log.topic_id): log.config
            for log in self._logs.logs
            if (log.topic_id, log.topic_partition.partition) not in wanted
        }
        lost = [name for name in sorted(self._logs.failed) if name not in names]
        strays |= {(name, None): self._config.topic for name in lost}
        self._delete_logs(strays)

    def _delete_logs(self, doomed: _Doomed) -> None:
        delays = {name: config.file_delete_delay_ms for (name, _), config in doomed.items()}
        for topic_partition in delays:
            self._known_high_watermarks.pop(topic_partition, None)
        for topic_partition, outcome in self._logs.delete_all(doomed):
            if isinstance(outcome, PassingStorageError):
                for key in doomed:
                    if key[0] == topic_partition:
                        self._undeleted.add(self._room.now_ms, (key, doomed[key]))
                self._room.due(self._room.now_ms + RETRY_MS)
            elif isinstance(outcome, PylogError):
                self._room.outbox.append(ReplicaFailed(topic_partition, str(outcome)))
            else:
                self._room.outbox.append(DeleteReplicaLater(outcome, delays[topic_partition]))

    def storage_failed(self, partition: Partition, error: Exception) -> None:
        """The replica is offline here until a restart, unless its log works and only refuses for
        now.
        """
        passes = isinstance(error, PassingStorageError) or is_of_the_moment(error)
        if partition.offline or passes:
            return
        reason = str(error) or type(error).__name__
        self._followers.unfollow(partition)
        partition.retire(None, reason)
        self._report_failed(partition, reason)
        self._role_changed(partition)

    def _role_changed(self, partition: Partition) -> None:
        """Tell whom it concerns: another one leads, or nobody, or this broker in a later epoch."""
        self._leaderships.role_changed(partition)
        self._room.role_changed(partition)

    def _report_failed(self, partition: Partition, reason: str) -> None:
        directory = self._logs.directory_of(partition.log) if partition.has_log else None
        self._room.outbox.append(
            ReplicaFailed(
                partition.topic_partition,
                reason,
                topic_id=partition.topic_id,
                directory_failed=directory is not None and directory.is_offline,
            )
        )
