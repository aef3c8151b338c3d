"""All handlers of one broker: what its edges call."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from pylog.clock import Clock
from pylog_broker.api.answer_memory import AnswerMemory
from pylog_broker.api.batch_checks import BatchChecks
from pylog_broker.api.coordinators import GroupCoordinators, ShareGroupStates
from pylog_broker.api.fetch import FetchHandler
from pylog_broker.api.groups.committed_offsets import CommittedOffsetsHandler
from pylog_broker.api.groups.find_coordinator import Ensure, FindCoordinatorHandler
from pylog_broker.api.groups.group_admin import GroupAdminHandler
from pylog_broker.api.groups.members import MembersHandler
from pylog_broker.api.groups.streams import InternalTopicMaker, StreamsHandler
from pylog_broker.api.leased_reads import LeasedReadsHandler
from pylog_broker.api.local_reads import LocalReadHandler
from pylog_broker.api.metadata import MetadataHandler
from pylog_broker.api.offsets import (
    DeleteRecordsHandler,
    ListOffsetsHandler,
    OffsetForLeaderEpochHandler,
)
from pylog_broker.api.produce import ProduceHandler
from pylog_broker.api.producer_ids import InitProducerIdHandler
from pylog_broker.api.ranges import RangesHandler
from pylog_broker.api.record_waits import RecordWaitHandler
from pylog_broker.api.request_memory import RequestMemory
from pylog_broker.api.topic_ids import TopicName
from pylog_broker.api.transactions.markers import MarkersHandler
from pylog_broker.api.transactions.offsets import TxnOffsetsHandler
from pylog_broker.api.transactions.producers import TransactionsHandler
from pylog_broker.api.transactions.range_transactions import RangeTransactionsHandler
from pylog_broker.api.transactions.sinks import SinksHandler
from pylog_broker.api.transactions.transaction_admin import TransactionAdminHandler
from pylog_broker.api.transactions.verification import BatchVerification
from pylog_broker.config import BrokerConfig
from pylog_broker.metadata.image import MetadataImage
from pylog_broker.metrics.counters import RequestCounters
from pylog_broker.replication.effects import Effect

if TYPE_CHECKING:
    from pylog_broker.replication.manager import ReplicaManager


@dataclass(frozen=True, slots=True)
class DataApi:
    """The requests with records, which every edge has, and which are too many to cost much."""

    produce: ProduceHandler
    fetch: FetchHandler
    counters: RequestCounters

    @classmethod
    def over(
        cls,
        manager: ReplicaManager,
        perform: Callable[[Sequence[Effect]], None],
        clock: Clock,
        *,
        checks: BatchChecks,
        memory: RequestMemory,
        answers: AnswerMemory,
        counters: RequestCounters,
        topic_name: TopicName,
        verification: BatchVerification | None = None,
    ) -> Self:
        """Both handlers over one replica manager, whose effects `perform` takes."""
        return cls(
            ProduceHandler(
                manager,
                perform,
                clock,
                checks=checks,
                memory=memory,
                counters=counters,
                topic_name=topic_name,
                verification=verification,
            ),
            FetchHandler(manager, perform, clock, answers, counters, topic_name),
            counters,
        )


@dataclass(frozen=True, slots=True)
class GroupApi:
    """Handlers for members of groups, and for those who look after groups."""

    find_coordinator: FindCoordinatorHandler
    members: MembersHandler
    offsets: CommittedOffsetsHandler
    admin: GroupAdminHandler
    streams: StreamsHandler

    @classmethod
    def over(
        cls,
        coordinators: GroupCoordinators,
        image: Callable[[], MetadataImage],
        ensure: Ensure,
        streams_topics: InternalTopicMaker,
        config: BrokerConfig,
        share_states: ShareGroupStates | None = None,
    ) -> Self:
        """All of them over the coordinators of one broker. `ensure` has the topics of coordinators
        made, and `streams_topics` those of streams groups.
        """
        timeout_ms = config.offsets_commit_timeout_ms
        return cls(
            FindCoordinatorHandler(image, ensure),
            MembersHandler(
                coordinators, image, lambda: str(uuid.uuid4()), commit_timeout_ms=timeout_ms
            ),
            CommittedOffsetsHandler(coordinators, image, commit_timeout_ms=timeout_ms),
            GroupAdminHandler(coordinators, image, share_states, commit_timeout_ms=timeout_ms),
            StreamsHandler(coordinators, streams_topics, commit_timeout_ms=timeout_ms),
        )


@dataclass(frozen=True, slots=True)
class TransactionApi:
    """Handlers for transactional producers, and for those who look after transactions."""

    producers: TransactionsHandler
    offsets: TxnOffsetsHandler
    markers: MarkersHandler
    admin: TransactionAdminHandler
    sinks: SinksHandler


@dataclass(frozen=True, slots=True)
class Api:
    """All of it. Handlers live on the broker's loop."""

    data: DataApi
    metadata: MetadataHandler
    list_offsets: ListOffsetsHandler
    delete_records: DeleteRecordsHandler
    offset_for_leader_epoch: OffsetForLeaderEpochHandler
    init_producer_id: InitProducerIdHandler
    groups: GroupApi
    transactions: TransactionApi
    ranges: RangesHandler
    record_waits: RecordWaitHandler
    range_transactions: RangeTransactionsHandler
    leased_reads: LeasedReadsHandler
    local_reads: LocalReadHandler
