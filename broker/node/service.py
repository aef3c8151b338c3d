"""The parts of one broker, put together: claim, logs, servers, membership, upkeep, stop."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from pylog import errors
from pylog.clock import SYSTEM_CLOCK
from pylog.machine import boot_id
from pylog.model import CONSUMER_OFFSETS, NO_BROKER_EPOCH, BrokerEpoch, BrokerId, TopicId
from pylog_broker.api.answer_memory import AnswerMemory
from pylog_broker.api.api import Api, DataApi, GroupApi, TransactionApi
from pylog_broker.api.batch_checks import BatchChecks
from pylog_broker.api.broker_admin import DescribeConfigsHandler, DescribeLogDirsHandler
from pylog_broker.api.broker_description import DescribeBrokerHandler
from pylog_broker.api.calls import Calls
from pylog_broker.api.groups.committed_offsets import CommittedOffsetsHandler
from pylog_broker.api.leased_reads import LeasedReadsHandler
from pylog_broker.api.local_reads import LocalReadHandler
from pylog_broker.api.memory_watch import MemoryWatch
from pylog_broker.api.metadata import MetadataHandler
from pylog_broker.api.offsets import (
    DeleteRecordsHandler,
    ListOffsetsHandler,
    OffsetForLeaderEpochHandler,
)
from pylog_broker.api.producer_id_quota import ProducerIdQuota
from pylog_broker.api.producer_ids import InitProducerIdHandler
from pylog_broker.api.ranges import RangesHandler
from pylog_broker.api.record_waits import RecordWaitHandler
from pylog_broker.api.request_memory import RequestMemory
from pylog_broker.api.transactions.markers import MarkersHandler
from pylog_broker.api.transactions.offsets import TxnOffsetsHandler
from pylog_broker.api.transactions.producers import TransactionsHandler
from pylog_broker.api.transactions.range_transactions import RangeTransactionsHandler
from pylog_broker.api.transactions.sinks import SinksHandler
from pylog_broker.api.transactions.transaction_admin import TransactionAdminHandler
from pylog_broker.api.transactions.verification import BatchVerification
from pylog_broker.config import BROKER_CONFIG, BrokerConfig, without_cluster_wide, without_secrets
from pylog_broker.controller.settings import TRANSACTION_STATE
from pylog_broker.coordinator.groups.settings import group_config
from pylog_broker.coordinator.transactions.settings import transaction_config
from pylog_broker.framed.server import StreamServer
from pylog_broker.grpc.knocks import Knocks
from pylog_broker.grpc.log_service import SERVICE, LogService, add_log_service
from pylog_broker.grpc.server import GrpcServer
from pylog_broker.grpc.unary import add_unary_service
from pylog_broker.kafka.calls import BrokerCalls
from pylog_broker.kafka.client import LeaderConnections
from pylog_broker.kafka.produce_calls import BatchesHere, produce_api
from pylog_broker.kafka.server import ReplicationServer
from pylog_broker.kafka.transaction_calls import transaction_apis as broker_transaction_apis
from pylog_broker.logs import IDENTITY, follow, hide
from pylog_broker.metadata.image import MetadataDelta, MetadataImage
from pylog_broker.metadata.messages import (
    AlterPartition,
    BrokerClaim,
    Failure,
    FailuresNoted,
    PartitionsAltered,
    ProducerIdBlock,
    RegisterBroker,
    ReplicaKey,
    ReplicasFailed,
)
from pylog_broker.metadata.records import Endpoint, usual_listeners
from pylog_broker.metrics.counters import RequestCounters
from pylog_broker.metrics.listen import Metrics
from pylog_broker.net.file_door import FileDoor
from pylog_broker.net.shares import BrokerShares
from pylog_broker.net.strangers import StrangerReports
from pylog_broker.node.coordinators import Coordinators
from pylog_broker.node.disk_failures import DiskFailures
from pylog_broker.node.disk_work import DiskWork
from pylog_broker.node.engine import Engine
from pylog_broker.node.epoch_file import EpochFile
from pylog_broker.node.failures import FailureReports
from pylog_broker.node.group_coordinators import GroupShards
from pylog_broker.node.group_settings import GroupSettingsView
from pylog_broker.node.internal_topics import InternalTopics
from pylog_broker.node.limits import check_limits, memory_max
from pylog_broker.node.link import ControllerLink, LeaseLine
from pylog_broker.node.listeners import Listeners
from pylog_broker.node.membership import Membership
from pylog_broker.node.metrics import BrokerMetrics, BrokerParts
from pylog_broker.node.producer_ids import ProducerIds
from pylog_broker.node.registration import registration_of
from pylog_broker.node.settings import NodeExit, NodeReady, NodeSettings
from pylog_broker.node.share.share_groups import BrokerShareGroups
from pylog_broker.node.software import this_software
from pylog_broker.node.startup import INCURABLE, Startup, Stopped
from pylog_broker.node.status import describe
from pylog_broker.node.streams_topics import StreamsTopics
from pylog_broker.node.transaction_coordinators import (
    CoordinatorCalls,
    MarkerSenders,
    TransactionShards,
)
from pylog_broker.node.upkeep import Upkeep
from pylog_broker.process.addresses import Address, parse_address
from pylog_broker.process.gate import gate_of, limits_of
from pylog_broker.process.host import host_id, open_files_max
from pylog_broker.process.process import HURRY_SECONDS_MAX, end_at_the_latest, settle_memory
from pylog_broker.protobuf.admin_apis import broker_admin_apis
from pylog_broker.protobuf.group_apis import group_apis
from pylog_broker.protobuf.log_apis import log_apis
from pylog_broker.protobuf.share_apis import share_apis
from pylog_broker.protobuf.sink_apis import sink_apis
from pylog_broker.protobuf.transaction_apis import transaction_apis
from pylog_broker.protobuf.unary import UnaryApis
from pylog_broker.replication.manager import ReplicaManager
from pylog_broker.storage.files import OsFiles
from pylog_broker.storage.manager.log_directories import LogDirectories

_log = logging.getLogger("pylog.node")

SHUTDOWN_SECONDS_MAX: Final = 6.0
"""The time for which a stopping broker waits for its leaders to move."""


@dataclass(slots=True)
class _Ending:
    """The reason of the broker's end, as known so far."""

    reason: str = "asked to stop"
    fault_code: int = 0  # of what ended it; 0: nothing has
    cluster_stops: bool = False


def _code_of(fault: Exception) -> int:
    return getattr(fault, "code", errors.UnknownServerError.code)


class BrokerService:
    """One broker, on the running loop. `run` once."""

    _logs: LogDirectories
    _epochs: EpochFile
    _engine: Engine
    _groups: GroupShards
    _share_groups: BrokerShareGroups
    _transactions: TransactionShards
    _membership: Membership
    _disk_failures: DiskFailures
    _replication: ReplicationServer
    _broker_calls: BrokerCalls

    def __init__(
        self,
        settings: NodeSettings,
        stop: asyncio.Event,
        hurry: asyncio.Event,
        on_ready: Callable[[NodeReady], None],
    ) -> None:
        hide(settings.secret.hex())
        self._settings = settings
        self._config = BrokerConfig.from_mapping(settings.config)
        for line in BROKER_CONFIG.without_effect(settings.config):
            _log.warning("%s", line)
        self._controller = parse_address(settings.controller, "controller")
        self._listeners = Listeners.of(settings, self._config.metrics_listen)
        self._metrics: Metrics | None = None
        self._metrics_address = ""
        self._stop = stop
        self._hurry = hurry
        self._on_ready = on_ready
        self._incarnation = settings.incarnation_id or uuid.uuid4().hex
        self._host = settings.host_id or host_id()
        self._root = str(Path(settings.data_dir).absolute())
        self._clock = SYSTEM_CLOCK
        self._files = OsFiles()
        self._disk_work = DiskWork(partial(end_at_the_latest, HURRY_SECONDS_MAX))
        self._pool = self._disk_work.pool
        # One at a time: a batch being unpacked is all in memory. And not in the disk's pool,
        # where a flood of bombs would hold up syncs and cold reads.
        self._unpacking = ThreadPoolExecutor(1, thread_name_prefix="pylog-unpack")
        self._loop = asyncio.get_running_loop()
        self._ending = _Ending()
        self._ended = asyncio.Event()
        self._link = ControllerLink(settings.controller, settings.secret)
        self._broker_id = BrokerId(-1)
        self._replaced_epoch = NO_BROKER_EPOCH
        self._endpoint = Endpoint("", 0)
        self._replication_endpoint = Endpoint("", 0)
        self._stream_endpoint: Endpoint | None = None
        self._streams: StreamServer | None = None
        self._watch: MemoryWatch | None = None
        self._group_settings = GroupSettingsView(self._image, self._config)
        self._producer_ids = ProducerIds(self._allocate_producer_ids)
        self._internal_topics = InternalTopics(
            self._link.ensure_internal_topic,
            lambda: (self._broker_id, self._membership.broker_epoch),
        )
        self._streams_topics = StreamsTopics(self._link.create_streams_topics, self._clock)
        self._failures = FailureReports(self._report_failures)
        self._counters = RequestCounters()
        self._parts = BrokerParts(-1, "", self._counters)
        self._files_max = open_files_max()
        self._shares = BrokerShares.of(self._files_max, self._config.max_connections)
        self._gate = self._parts.gate = gate_of(
            self._config, self._files_max, self._clock, _log.warning
        )
        self._server = GrpcServer(
            self._config.socket_request_max_bytes,
            self._counters,
            connections_max=self._shares.grpc,
            idle_ms_max=self._config.connections_max_idle_ms,
        )
        self._knocks = Knocks(self._clock, _log.warning)

    async def run(self) -> NodeExit:
        """Serve until the end; says why it came."""
        startup = Startup(
            self._link, self._files, self._clock, self._pool, self._stop,
            root=self._root, config=self._config, only_broker=self._settings.only_broker,
        )  # fmt: skip
        try:
            check_limits(self._config, files_max=self._files_max, memory_max=memory_max())
            startup.check_directories()
            claim = await startup.claim(self._incarnation, self._host, self._settings.slot)
            self._broker_id, self._replaced_epoch = claim.broker_id, claim.broker_epoch
            self._settings = self._settings.of_broker(claim.broker_id)
            self._config = BrokerConfig.from_mapping(self._settings.config)
            self._serve_metrics(claim)
            self._logs = await startup.open_logs(claim)
        except Stopped:
            await self._close_link()
            return NodeExit("asked to stop before it served", clean=True)
        except (errors.PylogError, OSError) as fault:
            await self._close_link()
            curable = not isinstance(fault, INCURABLE)
            return NodeExit(str(fault), clean=False, curable=curable, error_code=_code_of(fault))
        try:
            await self._start()
        except (errors.PylogError, OSError) as fault:
            await self._close_all(clean=True)
            return NodeExit(str(fault), clean=False, error_code=_code_of(fault))
        await self._serve()
        return await self._shut_down()

    def _serve_metrics(self, claim: BrokerClaim) -> None:
        """Before the logs are opened: a long recovery is something to look at."""
        self._parts.broker_id = claim.broker_id
        self._parts.cluster_id = claim.cluster_id
        IDENTITY.broker, IDENTITY.cluster = int(claim.broker_id), claim.cluster_id
        listener = self._listeners.metrics
        if listener is None:
            return
        source = BrokerMetrics(self._parts)
        self._metrics = Metrics(source, source.loop_lag)
        port = self._metrics.start(listener.address.host, listener.address.port, claim.broker_id)
        self._metrics_address = str(Address(listener.host, port))
        _log.info("metrics on http://%s/metrics", self._metrics_address)

    # ---- before it serves -----------------------------------------------------------------------

    async def _start(self) -> None:
        """Servers first, then membership: a registered listener must answer."""
        settings = self._settings
        manager = ReplicaManager(self._broker_id, self._logs, self._config)
        self._engine = Engine(
            manager,
            self._clock,
            self._pool,
            alter_partition=self._alter_partition,
            remove_directory=self._logs.remove_directory,
            report_failed=self._failures.add,
            on_fault=self._on_fault,
        )
        self._replication = ReplicationServer(
            manager,
            self._engine.perform,
            self._clock,
            settings.secret,
            name_of=self._name_of,
            id_of=self._id_of,
            report=_log.warning,
            report_stranger=StrangerReports(self._clock, _log.warning).tell,
            counters=self._counters,
            gate=self._gate,
            connections_max=self._shares.replication,
            unproven_max=self._shares.unproven,
            idle_ms_max=self._config.connections_max_idle_ms,
        )
        name = f"pylog-broker-{self._broker_id}"
        self._engine.connections = LeaderConnections(
            name, settings.secret, self._endpoint_of, report=_log.warning
        )
        self._broker_calls = BrokerCalls(
            name, settings.secret, self._endpoint_of, report=_log.warning
        )
        self._make_coordinators()
        self._replication.offer(self._share_groups.broker_apis())
        self._epochs = epochs = EpochFile(
            self._files, [manager.directory for manager in self._logs.live]
        )
        self._disk_failures = DiskFailures(self._logs, self._engine, self._failures, self._on_fault)
        self._membership = Membership(
            self._link,
            LeaseLine(settings.controller, settings.secret),
            self._clock,
            epochs,
            lambda: self._registration(epochs),
            lease_ms=self._config.broker_session_timeout_ms,
            heartbeat_ms=self._config.broker_heartbeat_interval_ms,
            on_registered=self._on_registered,
            on_metadata=self._on_metadata,
            on_unfenced=self._on_unfenced,
            on_fenced=self._on_fenced,
            on_cluster_stops=self._on_cluster_stops,
        )
        self._parts.engine, self._parts.membership = self._engine, self._membership
        self._parts.groups, self._parts.transactions = self._groups, self._transactions
        self._parts.shares = self._share_groups
        await self._listen(manager)
        settle_memory()
        self._membership.start()
        self._membership.ended.add_done_callback(self._on_membership_ended)

    def _make_coordinators(self) -> None:
        engine, clock, pool = self._engine, self._clock, self._pool
        groups = group_config(self._config, self._group_settings)
        self._groups = GroupShards(groups, engine, clock, pool, self._image)
        transactions = transaction_config(self._config)
        self._transactions = TransactionShards(transactions, engine, clock, pool, self._image)
        self._share_groups = BrokerShareGroups(
            self._config,
            self._group_settings,
            engine,
            clock,
            pool,
            self._broker_calls,
            self._image,
            self._internal_topics.ensure,
            self._broker_id,
            self._link.create_streams_topics,
            self._unpacking,
        )
        engine.leaderships = Coordinators(
            {
                CONSUMER_OFFSETS: self._groups.shell,
                TRANSACTION_STATE: self._transactions.shell,
                **self._share_groups.shells,
            }
        )

    def _on_membership_ended(self, ended: asyncio.Future[errors.PylogError]) -> None:
        if not ended.cancelled():
            fault = ended.result()
            self._on_fault(str(fault), fault.code)

    async def _listen(self, manager: ReplicaManager) -> None:
        told = self._settings.gateway
        address = parse_address(told, "gateway") if told else self._controller
        gateway = Endpoint(address.host, address.port)
        api = self._handlers(manager, gateway)
        self._watch = MemoryWatch(api.data.produce.memory, api.data.fetch.answers)
        self._watch.start()
        configs = DescribeConfigsHandler(
            self._image,
            without_cluster_wide(dict(without_secrets(self._settings.config))),
        )
        log_dirs = DescribeLogDirsHandler(self._broker_id, manager, self._logs, self._pool)
        apis = UnaryApis(
            Calls(self._counters),
            [
                *log_apis(api),
                *group_apis(api.groups),
                *share_apis(self._share_groups.api(self._groups, self._counters)),
                *transaction_apis(api.transactions),
                *sink_apis(api.transactions.sinks),
                *broker_admin_apis(
                    configs, log_dirs, DescribeBrokerHandler(partial(describe, self._parts))
                ),
            ],
        )
        service = LogService(api.data, StrangerReports(self._clock, _log.warning).tell)
        self._parts.data = api.data
        self._parts.rack = self._config.broker_rack
        self._parts.logs = self._logs
        self._server.offer(partial(add_log_service, service, apis), SERVICE)
        for name in ("Group", "StreamsGroup", "Share", "Transaction", "Sink", "BrokerAdmin"):
            self._server.offer(partial(add_unary_service, apis, name), f"pylog.v1.{name}")
        # Before gRPC: a client that finds gRPC answering must find this, too.
        await self._listen_for_streams(api.data, apis)
        listener = self._listeners.clients
        port = await self._server.start(str(listener.address))
        self._endpoint = Endpoint(listener.host, port)
        await self._knocks.start(listener.address.host, port)
        listener = self._listeners.replication
        port = await self._replication.start(listener.address.host, listener.address.port)
        self._replication_endpoint = Endpoint(listener.host, port)
        self._parts.listeners = usual_listeners(
            self._endpoint, self._replication_endpoint, self._stream_endpoint
        )

    def _handlers(self, manager: ReplicaManager, gateway: Endpoint) -> Api:
        """The handlers of all that clients may ask."""
        perform, clock, config = self._engine.perform, self._clock, self._config
        groups = GroupApi.over(
            self._groups,
            self._image,
            self._internal_topics.ensure,
            self._streams_topics,
            config,
            self._share_groups.states,
        )
        transactions, verification = self._transaction_parts(manager, groups.offsets)
        data = DataApi.over(
            manager,
            perform,
            clock,
            checks=BatchChecks(
                self._unpacking, config.message_decompressed_max_bytes, manager.topic_config
            ),
            memory=RequestMemory(config.queued_max_request_bytes),
            answers=AnswerMemory(config.queued_max_response_bytes),
            counters=self._counters,
            topic_name=self._name_of,
            verification=verification,
        )
        batches_here = self._share_groups.batches_here = BatchesHere(data.produce)
        self._replication.offer([produce_api(batches_here, self._image)])
        quota = self._parts.producer_id_quota = ProducerIdQuota(lambda: self._logs.config)
        local_reads = self._parts.local_reads = LocalReadHandler(
            manager, perform, clock, partial(FileDoor, self._pool), boot_id()
        )
        self._engine.local_read_ended = local_reads.on_ended
        return Api(
            data,
            MetadataHandler(self._image, lambda: gateway),
            ListOffsetsHandler(manager, perform, clock),
            DeleteRecordsHandler(manager, perform, clock),
            OffsetForLeaderEpochHandler(manager, self._image),
            InitProducerIdHandler(self._producer_ids.take, quota, clock, transactions.producers),
            groups,
            transactions,
            RangesHandler(manager, perform, clock),
            RecordWaitHandler(manager, perform, clock),
            RangeTransactionsHandler(manager, perform, clock),
            LeasedReadsHandler(manager, clock),
            local_reads,
        )

    def _transaction_parts(
        self, manager: ReplicaManager, offsets: CommittedOffsetsHandler
    ) -> tuple[TransactionApi, BatchVerification]:
        """The handlers for transactions, of clients and brokers; and markers find their way."""
        shards, clock, me = self._transactions, self._clock, self._broker_id
        calls = self._broker_calls
        take = self._producer_ids.take
        producers = TransactionsHandler(shards, self._image, take, self._internal_topics.ensure)
        markers = MarkersHandler(manager, self._engine.perform, clock, self._groups.write_marker)
        shards.senders = MarkerSenders(me, shards.shell, self._image, calls, markers.write, clock)
        self._replication.offer(broker_transaction_apis(producers.add, markers.write))
        coordinator = CoordinatorCalls(me, self._image, calls, producers.add, clock)
        verifies = self._config.transaction_partition_verification_enable
        return (
            TransactionApi(
                producers,
                TxnOffsetsHandler(offsets, self._groups, manager, coordinator),
                markers,
                TransactionAdminHandler(shards, manager),
                SinksHandler(shards, take, shards.config.sink_lease_ms, self._image),
            ),
            BatchVerification(manager, coordinator, verifies_version_1=verifies),
        )

    async def _listen_for_streams(self, data: DataApi, apis: UnaryApis) -> None:
        listener = self._listeners.streams
        if listener is None:
            return
        self._streams = self._parts.streams = StreamServer(
            data,
            apis,
            broker_id=self._broker_id,
            cluster_id=self._logs.meta.cluster_id,
            broker_epoch=lambda: self._membership.broker_epoch,
            frame_bytes_max=self._config.socket_request_max_bytes,
            report=StrangerReports(self._clock, _log.warning).tell,
            gate=self._gate,
            connections_max=self._shares.streams,
            idle_ms_max=self._config.connections_max_idle_ms,
            on_closed=self._share_groups.on_connection_closed,
        )
        port = await self._streams.start(listener.address.host, listener.address.port)
        self._stream_endpoint = Endpoint(listener.host, port)

    def _registration(self, epochs: EpochFile) -> RegisterBroker:
        return registration_of(
            self._logs,
            incarnation_id=self._incarnation,
            host_id=self._host,
            rack=self._config.broker_rack,
            listeners=self._parts.listeners,
            software=this_software(),
            highest_controller_epoch=epochs.highest,
            previous_broker_epoch=self._replaced_epoch,
            static_config=without_secrets(self._settings.config),
        )

    # ---- what the parts ask of each other -------------------------------------------------------

    def _image(self) -> MetadataImage:
        return self._membership.image

    def _name_of(self, topic_id: TopicId) -> str | None:
        return self._membership.image.topic_name(topic_id)

    def _id_of(self, name: str) -> TopicId | None:
        topic = self._membership.image.topics_by_name.get(name)
        return None if topic is None else topic.topic_id

    def _endpoint_of(self, broker: BrokerId) -> Endpoint | None:
        registration = self._membership.image.brokers.get(broker)
        return None if registration is None else registration.replication_endpoint

    async def _alter_partition(self, request: AlterPartition) -> PartitionsAltered | None:
        try:
            return await self._link.alter_partition(request)
        except errors.PylogError:
            return None  # the membership reports that the controller cannot be reached

    async def _allocate_producer_ids(self) -> ProducerIdBlock | Failure:
        return await self._link.allocate_producer_ids(
            self._broker_id, self._membership.broker_epoch
        )

    async def _report_failures(
        self, replicas: tuple[ReplicaKey, ...], log_dirs: tuple[str, ...], reason: str
    ) -> FailuresNoted | Failure:
        epoch = self._membership.broker_epoch
        if epoch < 0:
            raise errors.BrokerNotAvailable("this broker is not registered at the moment")
        request = ReplicasFailed(self._broker_id, epoch, replicas, reason, log_dirs)
        return await self._link.replicas_failed(request)

    def _on_registered(self, broker_epoch: BrokerEpoch) -> None:
        IDENTITY.broker_epoch = int(broker_epoch)
        self._parts.registered_ms = self._clock.wall_ms()
        self._disk_failures.registered()
        self._producer_ids.prepare()
        manager = self._engine.manager
        self._engine.tell(lambda now_ms: manager.on_registered(now_ms, broker_epoch))

    def _on_metadata(self, image: MetadataImage, delta: MetadataDelta) -> None:
        own = image.broker_configs(self._broker_id)
        follow(self._config.logging_level, image.cluster_configs(), own)
        live = self._config.under(image.cluster_configs(), own)
        self._gate.quotas.limits = limits_of(live, self._files_max)
        manager = self._engine.manager
        self._engine.tell(lambda now_ms: manager.on_metadata(now_ms, image, delta))
        self._group_settings.on_metadata(delta)
        self._groups.on_metadata(delta)
        self._share_groups.on_metadata(delta)

    def _on_unfenced(self) -> None:
        self._loop.create_task(self._server.set_serving(True))
        ready, self._on_ready = self._on_ready, lambda _: None
        ready(
            NodeReady(
                self._broker_id,
                self._endpoint.host,
                self._endpoint.port,
                self._replication_endpoint.port,
                self._logs.opened[0].directory,
                self._metrics_address,
            )
        )

    def _on_fenced(self) -> None:
        self._loop.create_task(self._server.set_serving(False))

    def _on_cluster_stops(self) -> None:
        self._ending.cluster_stops = True
        self._ending.reason = "the cluster stops"
        self._ended.set()

    def _on_fault(self, reason: str, code: int = errors.UnknownServerError.code) -> None:
        self._ending.fault_code = code
        self._ending.reason = self._parts.fault = reason
        self._ended.set()

    # ---- while it serves ------------------------------------------------------------------------

    async def _serve(self) -> None:
        stopping = asyncio.ensure_future(self._stop.wait())
        ended = asyncio.ensure_future(self._ended.wait())
        upkeep = asyncio.ensure_future(
            Upkeep(
                self._logs,
                self._engine,
                self._clock,
                self._pool,
                self._disk_work.cleaner,
                self._config,
                self._disk_failures.take,
            ).run()
        )
        either: list[asyncio.Future[Any]] = [stopping, ended, upkeep]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if upkeep.done() and (error := upkeep.exception()) is not None:
            self._on_fault(f"upkeep of the logs failed: {error}")
        for future in either:
            future.cancel()
        await asyncio.gather(*either, return_exceptions=True)

    # ---- the end --------------------------------------------------------------------------------

    async def _shut_down(self) -> NodeExit:
        ending = self._ending
        _log.info("stopping: %s", ending.reason)
        self._parts.stopping = ending.reason
        await self._server.set_serving(False)
        if not (ending.fault_code or ending.cluster_stops or self._hurry.is_set()):
            await self._move_leaders()
        clean = await self._close_all(clean=True)
        clean = clean and not ending.fault_code
        return NodeExit(ending.reason, clean, error_code=ending.fault_code)

    async def _move_leaders(self) -> None:
        """Let others lead first, as long as that takes a bounded time."""
        epoch = self._membership.broker_epoch
        if epoch < 0:
            return
        moving = asyncio.ensure_future(
            self._link.controlled_shutdown(self._broker_id, epoch, SHUTDOWN_SECONDS_MAX)
        )
        hurry = asyncio.ensure_future(self._hurry.wait())
        either: list[asyncio.Future[Any]] = [moving, hurry]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        hurry.cancel()
        if not moving.done():
            moving.cancel()
            return
        try:
            answer = moving.result()
        except errors.PylogError as error:
            _log.warning("stopping without moving leaders: %s", error)
            return
        if isinstance(answer, Failure):
            _log.warning("stopping without moving leaders: %s", answer.message)
        elif answer.remaining_leaders:
            _log.warning("stopping while still leading %d partitions", answer.remaining_leaders)

    async def _close_all(self, *, clean: bool) -> bool:
        """The end, in the one order that is safe; whether all went well.

        1. Nobody comes in any more. 2. Nothing here acts or decides any more. 3. The work of
        threads on the logs ends, and the logs are closed; news of the session are dropped
        meanwhile. 4. The session ends last: until here the controller must take this broker for
        alive, because its successor may not lock the directory before.
        """
        self._knocks.close()
        self._gate.close()
        if self._watch is not None:
            self._watch.stop()
        if self._streams is not None:
            self._streams.stop_listening()
        if self._parts.local_reads is not None:
            self._parts.local_reads.close()
        await self._server.stop(0.3)
        if self._streams is not None:
            await self._streams.close()
        self._producer_ids.stop()
        self._internal_topics.stop()
        self._streams_topics.stop()
        self._failures.stop()
        marks = None
        if self._engine_exists():
            self._groups.shell.stop()
            self._share_groups.stop()
            self._transactions.stop()
            self._engine.stop()
            self._disk_failures.stop()
            if self._engine.connections is not None:
                self._engine.connections.close()
            self._broker_calls.close()
            await self._replication.close()
            self._epochs.close()
            marks = self._engine.manager.high_watermarks()
        clean = await self._disk_work.close_logs(self._logs, marks, clean=clean)
        if self._engine_exists():
            await self._membership.stop()
        await self._close_link()
        return clean

    def _engine_exists(self) -> bool:
        return hasattr(self, "_membership")

    async def _close_link(self) -> None:
        await self._link.close()
        if self._metrics is not None:
            self._metrics.stop()
        self._disk_work.abandon()
        self._unpacking.shutdown(wait=False)
