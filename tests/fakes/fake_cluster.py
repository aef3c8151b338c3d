"""A cluster in this process: real gRPC servers and framed ports on loopback over a log in memory.

For the clients' tests: it speaks `log.proto`, `admin.proto`, `group.proto`,
`transaction.proto` and `sink.proto`, checks sequences as
a broker does, and can be told to refuse, to lose answers, to move leaders and to stop servers. No
replication, no disk, no security.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Iterator
from concurrent import futures
from functools import partial
from typing import Any

import grpc

from pylog import errors
from pylog.held_ports import HeldPorts
from pylog.model import TopicPartition, topic_id_from_bytes
from pylog.records.batch import iter_headers
from pylog.records.reader import first_record_at_or_after
from pylog.rpc.apis import UnaryApi
from pylog.rpc.v1 import (
    admin_pb2_grpc,
    common_pb2,
    group_pb2_grpc,
    log_pb2,
    log_pb2_grpc,
    share_pb2_grpc,
    sink_pb2,
    sink_pb2_grpc,
    streams_group_pb2_grpc,
    transaction_pb2_grpc,
)
from tests.fakes.fake_admin import FakeAdmin
from tests.fakes.fake_groups import FakeGroups, FakeStreamsGroups, GroupWorld
from tests.fakes.fake_shares import FakeShares
from tests.fakes.fake_sinks import FakeSinks, SinkWorld
from tests.fakes.fake_streams import FakeStreamPort
from tests.fakes.fake_topics import FakePartition, FakeTopic
from tests.fakes.fake_transactions import FakeTransactions, TransactionalIds

STANDING_LOOK_S = 0.02
"""The interval at which a fetch that stands looks whether its client asks something else."""


class FakeCluster:
    """Broker ids count from 1; broker 1 is the controller as well. `framed`: whether brokers have
    framed ports; `announced` may tell of others. `framed_calls`: whether these take calls.
    """

    def __init__(
        self,
        brokers: int = 1,
        *,
        framed: bool = True,
        framed_calls: bool = True,
        request_bytes_max: int = 64 << 20,
    ) -> None:
        self.framed = framed
        self.framed_calls = framed_calls
        self.request_bytes_max = request_bytes_max
        """The most bytes of a request."""
        self.busy_for_calls = 0
        """So many calls are still refused, as by a gRPC server that has too many at once."""
        self.streams: dict[int, FakeStreamPort] = {}
        self.services: dict[int, _Service] = {}
        self.announced: dict[int, int] = {}
        """Framed port by broker, where metadata tells of another than its own."""
        self.changed = threading.Condition()
        self.topics: dict[str, FakeTopic] = {}
        self.produce_faults: deque[int | str] = deque()
        """For the next batches: an error code, "drop" (store, then break the stream), or "hang"
        (store, never answer)."""
        self.batch_bytes_max = 1 << 30
        """Larger batches are refused as too large."""
        self.fetch_faults: deque[int] = deque()
        self.produce_requests: list[log_pb2.ProduceRequest] = []
        self.waits: list[log_pb2.AwaitRecordsRequest] = []
        self.split_requests: list[log_pb2.SplitRangesRequest] = []
        self.describe_requests: list[log_pb2.DescribeTransactionsInRangeRequest] = []
        self.described: dict[TopicPartition, list[log_pb2.DescribedTransactions]] = {}
        """The answers about a partition's transactions, one after the other; then none."""
        self.lease_requests: list[tuple[int, log_pb2.LeaseReadsRequest]] = []
        """Each with the broker that got it."""
        self.lease_timeout_ms = 300_000
        """0: every lease is refused; -1: brokers do not know the request."""
        self.fetch_requests: list[log_pb2.FetchRequest] = []
        self.metadata_requests = 0
        self.metadata_by_broker: Counter[int] = Counter()
        self.metadata_offsets: dict[int, int] = {}
        """The metadata offset that each broker tells; 0 where none is given."""
        self.producer_ids = 100
        self.hidden_topics: set[str] = set()
        self.late_topics: set[str] = set()
        """Topics that brokers other than the controller do not know yet."""
        self.starting = 0
        """So many topics are still refused, as before brokers are registered."""
        self.item_faults: deque[int] = deque()
        self.moves: dict[tuple[str, int], list[int]] = {}
        """Error codes for the next items that administrators ask for; 0 for none."""
        self.is_gateway = False
        """Whether broker 1 says that it is the gateway, when asked for metadata."""
        self.configs: dict[tuple[int, str], dict[str, str]] = {}
        self.groups = GroupWorld(self)
        self.share_starts: dict[str, dict[TopicPartition, tuple[int, int]]] = {}
        """(start offset, lag) of share groups."""
        self.transactions = TransactionalIds(
            self.topics, lambda name: self.groups.broker_of(f"txn:{name}")
        )
        self.sinks = SinkWorld(self.transactions, self._begin_anew)
        self._next_topic = 1
        self._servers: dict[int, grpc.Server] = {}
        self._held = HeldPorts()
        """All ports, also of brokers that are stopped: no one else answers there meanwhile."""
        self._ports: dict[int, int] = {}
        self._stream_ports: dict[int, int] = {}
        self._stopping = threading.Event()
        for broker in range(1, brokers + 1):
            self.start_broker(broker)

    # ---- control ------------------------------------------------------------------------------

    @property
    def bootstrap_servers(self) -> list[str]:
        return [f"127.0.0.1:{port}" for port in self._ports.values()]

    def start_broker(self, broker: int) -> None:
        server = grpc.server(
            futures.ThreadPoolExecutor(max_workers=24),
            interceptors=[_Busy(self)],
            options=[
                ("grpc.so_reuseport", 0),
                ("grpc.max_receive_message_length", self.request_bytes_max),
            ],
        )
        service = self.services[broker] = _Service(self, broker)
        log_pb2_grpc.add_LogServicer_to_server(service, server)  # type: ignore[no-untyped-call]
        admin = FakeAdmin(self, broker)
        admin_pb2_grpc.add_AdminServicer_to_server(admin, server)  # type: ignore[no-untyped-call]
        admin_pb2_grpc.add_BrokerAdminServicer_to_server(admin, server)  # type: ignore[no-untyped-call]
        groups = FakeGroups(self.groups, broker)
        group_pb2_grpc.add_GroupServicer_to_server(groups, server)  # type: ignore[no-untyped-call]
        streams = FakeStreamsGroups(self.groups, broker)
        streams_group_pb2_grpc.add_StreamsGroupServicer_to_server(streams, server)  # type: ignore[no-untyped-call]
        shares = FakeShares(self.groups, broker, self.share_starts)
        share_pb2_grpc.add_ShareServicer_to_server(shares, server)  # type: ignore[no-untyped-call]
        transactions = FakeTransactions(self.transactions, self.groups, broker)
        transaction_pb2_grpc.add_TransactionServicer_to_server(transactions, server)  # type: ignore[no-untyped-call]
        sinks = FakeSinks(self.sinks, broker)
        sink_pb2_grpc.add_SinkServicer_to_server(sinks, server)  # type: ignore[no-untyped-call]
        services = {
            "Log": service,
            "Group": groups,
            "StreamsGroup": streams,
            "Share": shares,
            "Transaction": transactions,
            "Sink": sinks,
        }
        if broker not in self._ports:
            self._ports[broker] = self._held.any()
        server.add_insecure_port(f"127.0.0.1:{self._ports[broker]}")
        server.start()
        self._servers[broker] = server
        if self.framed:
            if broker not in self._stream_ports:
                self._stream_ports[broker] = self._held.any()
            self.streams[broker] = FakeStreamPort(
                broker,
                service.ProduceStream,
                service.FetchStream,
                answer_call=partial(_answer, services, admin) if self.framed_calls else None,
                port=self._stream_ports[broker],
                request_bytes_max=self.request_bytes_max,
            )

    def stop_broker(self, broker: int, *, silently: bool = False) -> None:
        """`silently`: metadata goes on to tell of it."""
        if broker in self.streams:
            self.streams.pop(broker).close()
        server = self._servers[broker] if silently else self._servers.pop(broker)
        server.stop(0).wait()

    def _begin_anew(self, overwritten: sink_pb2.OverwrittenTopic) -> None:
        with self.changed:
            for partition, start in zip(
                self.topics[overwritten.topic].partitions, overwritten.starts, strict=True
            ):
                partition.log_start = max(partition.log_start, start)

    def create_topic(self, name: str, partitions: int = 1) -> FakeTopic:
        ids = sorted(self._ports)
        with self.changed:
            raw = self._next_topic.to_bytes(16, "big")
            self._next_topic += 1
            topic = FakeTopic(
                topic_id_from_bytes(raw),
                [FakePartition(ids[p % len(ids)]) for p in range(partitions)],
            )
            self.topics[name] = topic
        return topic

    def move_leader(self, topic: str, partition: int, broker: int) -> None:
        with self.changed:
            moved = self.topics[topic].partitions[partition]
            moved.leader, moved.epoch = broker, moved.epoch + 1
            self.changed.notify_all()

    def close(self) -> None:
        self._stopping.set()
        with self.changed:
            self.changed.notify_all()
        for broker in list(self._servers):
            self.stop_broker(broker)
        self._held.close()

    def __enter__(self) -> FakeCluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- for the service ----------------------------------------------------------------------

    @property
    def stopping(self) -> bool:
        return self._stopping.is_set()

    def live(self) -> list[common_pb2.Broker]:
        return [self._told(broker) for broker in sorted(self._servers)]

    def stopped(self) -> list[common_pb2.Broker]:
        """The brokers that were stopped, as far as metadata tells so."""
        return [self._told(broker) for broker in self._ports if broker not in self._servers]

    def _told(self, broker: int) -> common_pb2.Broker:
        told = common_pb2.Broker(
            id=broker, endpoint=common_pb2.Endpoint(host="127.0.0.1", port=self._ports[broker])
        )
        port = self.announced.get(broker)
        if port is None and broker in self.streams:
            port = self.streams[broker].port
        if port is not None:
            told.stream_endpoint.host, told.stream_endpoint.port = "127.0.0.1", port
        return told

    def led(self, broker: int, topic: str, partition: int) -> FakePartition | common_pb2.Error:
        known = self.topics.get(topic)
        if known is None or topic in self.hidden_topics or partition >= len(known.partitions):
            return common_pb2.Error(code=errors.UnknownTopicOrPartition.code, message="no such")
        found = known.partitions[partition]
        if found.leader != broker:
            return common_pb2.Error(
                code=errors.NotLeaderOrFollower.code, message=f"broker {found.leader} leads"
            )
        return found


def _answer(
    services: dict[str, Any], admin: FakeAdmin, api: UnaryApi[Any, Any], *asked: Any
) -> Any:
    """The part of gRPC's server in a call."""
    return getattr(services.get(api.service, admin), api.name)(*asked)


class _Busy(grpc.ServerInterceptor):  # type: ignore[misc]
    """Refuses calls for a while."""

    def __init__(self, cluster: FakeCluster) -> None:
        self._cluster = cluster

    def intercept_service(self, continuation: Any, handler_call_details: Any) -> Any:
        cluster = self._cluster
        with cluster.changed:
            if not cluster.busy_for_calls:
                return continuation(handler_call_details)
            cluster.busy_for_calls -= 1

        def refuse(_request: Any, context: Any) -> None:
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "Concurrent RPC limit exceeded!")

        return grpc.unary_unary_rpc_method_handler(refuse)


class _Service(log_pb2_grpc.LogServicer):
    def __init__(self, cluster: FakeCluster, broker: int) -> None:
        self._cluster = cluster
        self._broker = broker

    def Metadata(self, request: log_pb2.MetadataRequest, _context: Any) -> log_pb2.MetadataResponse:
        cluster = self._cluster
        with cluster.changed:
            cluster.metadata_requests += 1
            cluster.metadata_by_broker[self._broker] += 1
            cluster.changed.notify_all()
            live = cluster.live()
            response = log_pb2.MetadataResponse(
                cluster_id="fake",
                controller_epoch=1,
                brokers=live,
                controller=live[0].endpoint,
                fenced_brokers=cluster.stopped() if request.include_fenced_brokers else (),
                gateway=cluster.is_gateway and self._broker == 1,
                metadata_offset=cluster.metadata_offsets.get(self._broker, 0),
            )
            for name in sorted(cluster.topics) if request.all_topics else request.topics:
                topic = cluster.topics.get(name)
                told = response.topics.add(name=name)
                late = name in cluster.late_topics and self._broker != 1
                if topic is None or late or name in cluster.hidden_topics:
                    told.error.code = errors.UnknownTopicOrPartition.code
                    continue
                told.topic_id = topic.topic_id
                for number, partition in enumerate(topic.partitions):
                    told.partitions.add(
                        partition=number,
                        leader=partition.leader,
                        leader_epoch=partition.epoch,
                        replicas=[partition.leader],
                        isr=[partition.leader, *partition.followers],
                    )
            return response

    def ProduceStream(
        self, requests: Iterator[log_pb2.ProduceRequest], context: Any
    ) -> Iterator[log_pb2.ProduceResponse]:
        for message in requests:
            answers: list[log_pb2.ProduceResponse] = []
            for request in (message, *message.following):
                response = self._produce(request)
                if response == "drop":
                    context.abort(grpc.StatusCode.UNAVAILABLE, "dropped by the test")
                if isinstance(response, str):
                    break
                answers.append(response)
            else:
                answers[0].following.extend(answers[1:])
                if message.acks != 0:
                    yield answers[0]

    def _produce(self, request: log_pb2.ProduceRequest) -> log_pb2.ProduceResponse | str:
        cluster = self._cluster
        response = log_pb2.ProduceResponse(correlation=request.correlation)
        lost = ""
        with cluster.changed:
            cluster.produce_requests.append(request)
            for batch in request.batches:
                ack = log_pb2.PartitionAck(
                    topic=batch.topic,
                    partition=batch.partition,
                    base_offset=-1,
                    log_append_time_ms=-1,
                    record_index=-1,
                )
                fault = cluster.produce_faults.popleft() if cluster.produce_faults else 0
                partition = cluster.led(self._broker, batch.topic, batch.partition)
                if isinstance(fault, int) and fault:
                    ack.error.code = fault
                    ack.error.message = "refused by the test"
                elif len(batch.batch) > cluster.batch_bytes_max:
                    ack.error.code = errors.MessageTooLarge.code
                elif isinstance(partition, common_pb2.Error):
                    ack.error.CopyFrom(partition)
                elif batch.topic_id != cluster.topics[batch.topic].topic_id:
                    ack.error.code = errors.UnknownTopicId.code
                elif request.transactional_id and (
                    code := cluster.transactions.enter(request.transactional_id, batch)
                ):
                    ack.error.code = code
                else:
                    ack.error.code, ack.base_offset = partition.append(batch.batch)
                    lost = str(fault) if isinstance(fault, str) else lost
                if request.acks != 0:
                    response.acks.append(ack)
                elif ack.error.code:
                    lost = "drop"
            cluster.changed.notify_all()
        return lost or response

    def FetchStream(
        self, requests: Iterator[log_pb2.FetchRequest], context: Any
    ) -> Iterator[log_pb2.FetchResponse]:
        for request in requests:
            response, left = self._fetch(request, context), request.standing_answers
            while response is not None:
                left -= 1
                response.stands = left > 0 and self._goes_on(request, response, context)
                yield response
                response = self._fetch(request, context, again=True) if response.stands else None

    def _goes_on(
        self, request: log_pb2.FetchRequest, response: log_pb2.FetchResponse, context: Any
    ) -> bool:
        """Whether the fetch stands, and then from where the answer ends."""
        if not hasattr(context, "asked_again") or any(p.error.code for p in response.partitions):
            return False
        ends = {
            (p.topic, p.partition): [*iter_headers(p.batches)][-1][1].next_offset
            for p in response.partitions
        }
        request.standing_bytes -= sum(len(p.batches) for p in response.partitions)
        for asked in request.partitions:
            place = asked.topic, asked.partition
            asked.fetch_offset = ends.get(place, asked.fetch_offset)
        return request.standing_bytes > 0

    def Fetch(self, request: log_pb2.FetchRequest, context: Any) -> log_pb2.FetchResponse | None:
        return self._fetch(request, context)

    def OffsetForLeaderEpoch(
        self, request: log_pb2.OffsetForLeaderEpochRequest, _context: Any
    ) -> log_pb2.OffsetForLeaderEpochResponse:
        response = log_pb2.OffsetForLeaderEpochResponse()
        with self._cluster.changed:
            for asked in request.partitions:
                answer = response.partitions.add(topic=asked.topic, partition=asked.partition)
                partition = self._cluster.led(self._broker, asked.topic, asked.partition)
                if isinstance(partition, common_pb2.Error):
                    answer.error.CopyFrom(partition)
                    continue
                answer.leader_epoch = asked.leader_epoch
                answer.end_offset = partition.epoch_ends.get(asked.leader_epoch, partition.end)
        return response

    def _fetch(
        self, request: log_pb2.FetchRequest, context: Any, *, again: bool = False
    ) -> log_pb2.FetchResponse | None:
        """The answer; None where another one came behind a request that stands."""
        cluster = self._cluster
        with cluster.changed:
            asked = log_pb2.FetchRequest()
            asked.CopyFrom(request)
            cluster.fetch_requests.append(asked)
            cluster.changed.notify_all()
            if cluster.fetch_faults:
                fault = cluster.fetch_faults.popleft()
                return log_pb2.FetchResponse(
                    correlation=request.correlation,
                    partitions=[
                        log_pb2.PartitionData(
                            topic=p.topic,
                            partition=p.partition,
                            error=common_pb2.Error(code=fault, message="refused by the test"),
                        )
                        for p in request.partitions
                    ],
                )

            def ready() -> bool:
                response = self._fetch_now(request)
                return bool(response.partitions) or cluster.stopping or not context.is_active()

            def superseded() -> bool:
                return again and context.asked_again()

            left_s = request.max_wait_ms / 1000
            step_s = STANDING_LOOK_S if again else left_s
            while not superseded() and not cluster.changed.wait_for(ready, min(step_s, left_s)):
                left_s -= step_s
                if left_s <= 0:
                    break
            return None if superseded() else self._fetch_now(request)

    def _fetch_now(self, request: log_pb2.FetchRequest) -> log_pb2.FetchResponse:
        cluster = self._cluster
        response = log_pb2.FetchResponse(correlation=request.correlation)
        left = request.max_bytes
        for asked in request.partitions:
            data = log_pb2.PartitionData(
                topic=asked.topic, partition=asked.partition, preferred_read_replica=-1
            )
            partition = cluster.led(self._broker, asked.topic, asked.partition)
            if isinstance(partition, common_pb2.Error):
                data.error.CopyFrom(partition)
                response.partitions.append(data)
                continue
            if asked.topic_id not in ("", cluster.topics[asked.topic].topic_id):
                data.error.code = errors.InconsistentTopicId.code
                response.partitions.append(data)
                continue
            readable = partition.readable(request.isolation_level)
            data.high_watermark = partition.readable(log_pb2.READ_UNCOMMITTED)
            data.last_stable_offset = partition.readable(log_pb2.READ_COMMITTED)
            data.log_start_offset = partition.log_start
            if -1 < asked.current_leader_epoch < partition.epoch:
                data.error.code = errors.FencedLeaderEpoch.code
            elif not partition.log_start <= asked.fetch_offset <= partition.end:
                data.error.code = errors.OffsetOutOfRange.code
            elif (lost := partition.damaged) and lost[0] <= asked.fetch_offset < lost[1]:
                data.error.code = errors.CorruptMessage.code
                data.error.message = f"x.log is damaged; seek to {lost[1]} to go on"
                data.damaged_end_offset = lost[1]
            elif left > 0 and asked.fetch_offset < readable:
                data.batches = partition.read(
                    asked.fetch_offset, min(asked.max_bytes, left), readable
                )
                if request.isolation_level == log_pb2.READ_COMMITTED:
                    for producer, first in partition.aborted:
                        data.aborted.add(producer_id=producer, first_offset=first)
                left -= len(data.batches)
            if data.error.code or data.batches:
                response.partitions.append(data)
        return response

    def ListOffsets(
        self, request: log_pb2.ListOffsetsRequest, _context: Any
    ) -> log_pb2.ListOffsetsResponse:
        cluster = self._cluster
        response = log_pb2.ListOffsetsResponse()
        with cluster.changed:
            for asked in request.partitions:
                answer = response.partitions.add(
                    topic=asked.topic, partition=asked.partition, offset=-1, timestamp_ms=-1
                )
                if cluster.item_faults and (fault := cluster.item_faults.popleft()):
                    answer.error.code = fault
                    continue
                partition = cluster.led(self._broker, asked.topic, asked.partition)
                if isinstance(partition, common_pb2.Error):
                    answer.error.CopyFrom(partition)
                    continue
                answer.leader_epoch = partition.epoch
                answer.topic_id = cluster.topics[asked.topic].topic_id
                if asked.timestamp_ms == -1:
                    answer.offset = partition.readable(request.isolation_level)
                    if asked.HasField("from_offset") and asked.from_offset < answer.offset:
                        start = max(asked.from_offset, partition.log_start)
                        batches = partition.read(start, 1 << 30)
                        first = first_record_at_or_after(batches, -1, from_offset=start)
                        answer.timestamp_ms = -1 if first is None else first[1]
                elif asked.timestamp_ms == -2:
                    answer.offset = partition.log_start
                elif asked.timestamp_ms >= 0:
                    found = first_record_at_or_after(
                        partition.read(partition.log_start, 1 << 30), asked.timestamp_ms
                    )
                    if found is not None:
                        answer.offset, answer.timestamp_ms = found
        return response

    def SplitRanges(
        self, request: log_pb2.SplitRangesRequest, _context: Any
    ) -> log_pb2.SplitRangesResponse:
        """The bytes of ranges; of pieces the first one alone."""
        response = log_pb2.SplitRangesResponse()
        with self._cluster.changed:
            self._cluster.split_requests.append(request)
            for asked in request.partitions:
                answer = response.partitions.add(topic=asked.topic, partition=asked.partition)
                partition = self._cluster.led(self._broker, asked.topic, asked.partition)
                if isinstance(partition, common_pb2.Error):
                    answer.error.CopyFrom(partition)
                    continue
                headers = [
                    header
                    for _, header in iter_headers(partition.read(asked.start_offset, 1 << 30))
                    if header.base_offset < asked.end_offset
                ]
                answer.bytes = sum(header.size for header in headers)
                if not (headers and asked.piece_bytes and asked.pieces_max):
                    continue
                size = headers.pop(0).size
                while headers and size + headers[0].size <= asked.piece_bytes:
                    size += headers.pop(0).size
                end = headers[0].base_offset if headers else asked.end_offset
                answer.pieces.add(end_offset=end, bytes=size)
                if headers:
                    behind = headers[1].base_offset if len(headers) > 1 else asked.end_offset
                    answer.next.end_offset, answer.next.bytes = behind, headers[0].size
        return response

    def DescribeTransactionsInRange(
        self, request: log_pb2.DescribeTransactionsInRangeRequest, _context: Any
    ) -> log_pb2.DescribeTransactionsInRangeResponse:
        """As the test has laid down."""
        response = log_pb2.DescribeTransactionsInRangeResponse()
        with self._cluster.changed:
            self._cluster.describe_requests.append(request)
            for asked in request.partitions:
                answer = response.partitions.add(next_offset=-1)
                partition = self._cluster.led(self._broker, asked.topic, asked.partition)
                answers = self._cluster.described.get(TopicPartition(asked.topic, asked.partition))
                if isinstance(partition, common_pb2.Error):
                    answer.error.CopyFrom(partition)
                elif answers:
                    answer.CopyFrom(answers.pop(0))
                answer.topic, answer.partition = asked.topic, asked.partition
        return response

    def AwaitRecords(
        self, request: log_pb2.AwaitRecordsRequest, _context: Any
    ) -> log_pb2.AwaitRecordsResponse:
        cluster = self._cluster

        def answer() -> tuple[int, log_pb2.AwaitRecordsResponse]:
            response, count, refused = log_pb2.AwaitRecordsResponse(), 0, False
            for asked in request.partitions:
                end = response.partitions.add(topic=asked.topic, partition=asked.partition)
                partition = cluster.led(self._broker, asked.topic, asked.partition)
                if isinstance(partition, common_pb2.Error):
                    end.error.CopyFrom(partition)
                    refused = True
                    continue
                end.end_offset = partition.readable(request.isolation_level)
                count += max(0, end.end_offset - asked.offset)
            return request.min_records if refused else count, response

        with cluster.changed:
            cluster.waits.append(request)
            cluster.changed.wait_for(
                lambda: answer()[0] >= request.min_records, request.max_wait_ms / 1000
            )
            return answer()[1]

    def LeaseReads(
        self, request: log_pb2.LeaseReadsRequest, context: Any
    ) -> log_pb2.LeaseReadsResponse:
        cluster = self._cluster
        response = log_pb2.LeaseReadsResponse(timeout_ms=max(0, cluster.lease_timeout_ms))
        with cluster.changed:
            cluster.lease_requests.append((self._broker, request))
            cluster.changed.notify_all()
            if cluster.lease_timeout_ms < 0:
                context.abort(grpc.StatusCode.UNIMPLEMENTED, "unknown method LeaseReads")
            for topic in request.topics:
                for number in topic.partitions:
                    led = cluster.led(self._broker, topic.topic, number)
                    if isinstance(led, common_pb2.Error):
                        error = led
                    elif not cluster.lease_timeout_ms:
                        code = errors.PolicyViolation.code
                        error = common_pb2.Error(code=code, message="no leases are given")
                    else:
                        continue
                    response.refused.add(error=error, topic=topic.topic, partition=number)
        return response

    def InitProducerId(
        self, request: log_pb2.InitProducerIdRequest, _context: Any
    ) -> log_pb2.InitProducerIdResponse:
        with self._cluster.changed:
            if request.transactional_id:
                return self._cluster.transactions.init(self._broker, request)
            self._cluster.producer_ids += 1
            return log_pb2.InitProducerIdResponse(producer_id=self._cluster.producer_ids)

    def DeleteRecords(
        self, request: log_pb2.DeleteRecordsRequest, _context: Any
    ) -> log_pb2.DeleteRecordsResponse:
        response = log_pb2.DeleteRecordsResponse()
        with self._cluster.changed:
            for cut in request.partitions:
                answer = response.partitions.add(topic=cut.topic, partition=cut.partition)
                if self._cluster.item_faults and (fault := self._cluster.item_faults.popleft()):
                    answer.error.code = fault
                    continue
                partition = self._cluster.led(self._broker, cut.topic, cut.partition)
                if isinstance(partition, common_pb2.Error):
                    answer.error.CopyFrom(partition)
                    continue
                wanted = partition.end if cut.offset == -1 else cut.offset
                if wanted > partition.end:
                    answer.error.code = errors.OffsetOutOfRange.code
                    continue
                partition.log_start = max(partition.log_start, wanted)
                answer.low_watermark = partition.log_start
        return response
