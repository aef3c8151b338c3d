"""Requests for read leases on partitions that are hosted here (`storage.read_leases`)."""

from __future__ import annotations

from pylog.errors import PolicyViolation
from pylog.model import TopicPartition
from pylog_broker.metadata.messages import Failure
from pylog_broker.replication.hosted import HostedPartitions, Missing
from pylog_broker.replication.range_messages import LeaseReads, PartitionLease, ReadsLeased
from pylog_broker.storage.manager.log_directories import LogDirectories
from pylog_broker.storage.read_leases import LeasedRange


class LeasedReads:
    """The LeaseReads path of one broker."""

    def __init__(self, hosted: HostedPartitions, logs: LogDirectories) -> None:
        self._hosted = hosted
        self._logs = logs

    def lease(self, now_ms: int, request: LeaseReads) -> ReadsLeased:
        """Take or renew leases; the answer names the partitions without one."""
        limit_ms = self._logs.config.read_lease_timeout_ms
        if not limit_ms:
            fault = Failure(
                PolicyViolation.code,
                "this broker gives no read leases: its read.lease.timeout.ms is 0",
            )
            return ReadsLeased(0, tuple((each[0], fault) for each in request.partitions))
        timeout_ms = min(request.timeout_ms or limit_ms, limit_ms)
        refused: list[tuple[TopicPartition, Failure]] = []
        ranges: list[LeasedRange] = []
        for each in request.partitions:
            found = self._range(each)
            if isinstance(found, Failure):
                refused.append((each.topic_partition, found))
            else:
                ranges.append(found)
        leases = self._logs.leases
        hold = leases.renew if request.renews else leases.take
        refused += [
            (each.topic_partition, Failure(each.error.code, str(each.error)))
            for each in hold(now_ms, request.holder, request.client, timeout_ms, ranges)
        ]
        return ReadsLeased(timeout_ms, tuple(refused))

    def _range(self, wanted: PartitionLease) -> LeasedRange | Failure:
        partition = self._hosted.find(wanted.topic_partition, wanted.topic_id)
        if isinstance(partition, Missing):
            return partition.failure
        if not wanted.follows or partition.offline:
            fault = partition.leader_fault(wanted.current_leader_epoch)
            if fault is not None:
                return fault
        return LeasedRange(wanted.topic_partition, partition.topic_id, wanted.start, wanted.end)
