from __future__ import annotations

from collections import deque

from pylog.client.producer import produce_requests
from pylog.client.producer.produce_requests import OutgoingRequest, ProduceMessages, answers_of
from pylog.client.sending.send_events import Ack
from pylog.rpc.produce_wire import Item
from pylog.rpc.v1 import log_pb2

MESSAGES = ProduceMessages(-1, 30_000, "me")


def outgoing(correlation: int, size: int = 1) -> OutgoingRequest:
    item = Item("t", "id", correlation, b"x" * size)
    return OutgoingRequest(correlation, [item], size)


def packed(queue: deque[OutgoingRequest]) -> log_pb2.ProduceRequest:
    pieces, correlations = MESSAGES.pack(queue)
    message = log_pb2.ProduceRequest.FromString(b"".join(pieces))
    assert correlations == [r.correlation for r in (message, *message.following)]
    return message


def test_what_waits_shares_a_message_and_stays_a_request_of_its_own() -> None:
    queue = deque(map(outgoing, (1, 2, 3)))
    message = packed(queue)
    assert not queue
    requests = [message, *message.following]
    assert [r.correlation for r in requests] == [1, 2, 3]
    assert {(r.acks, r.timeout_ms, r.client_id) for r in requests} == {(-1, 30_000, "me")}
    expected = [("t", "id", n, b"x") for n in (1, 2, 3)]
    assert [(b.topic, b.topic_id, b.partition, b.batch) for r in requests for b in r.batches] == (
        expected
    )


def test_a_message_is_bounded_but_takes_one_request_of_any_size() -> None:
    limit = produce_requests.MESSAGE_BYTES_MAX
    queue = deque([outgoing(1, limit + 1), outgoing(2, limit), outgoing(3), outgoing(4)])
    messages = [packed(queue) for _ in range(3)]
    assert [len(m.following) for m in messages] == [0, 0, 1]

    queue = deque(map(outgoing, range(40)))
    sizes = []
    while queue:
        sizes.append(1 + len(packed(queue).following))
    assert sizes == [16, 16, 8]


def test_answers_come_with_their_correlations() -> None:
    ack = log_pb2.PartitionAck(base_offset=5, log_append_time_ms=-1, record_index=-1)
    message = log_pb2.ProduceResponse(correlation=1, acks=[ack])
    message.following.add(correlation=2, acks=[ack, ack])
    one = Ack(0, base_offset=5)
    assert [(c, [a.base_offset for a in acks]) for c, acks in answers_of(message)] == [
        (1, [one.base_offset]),
        (2, [5, 5]),
    ]
