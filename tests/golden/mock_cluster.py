"""librdkafka's own mock broker, reached by hand-made requests too: batches come and go as bytes.

confluent-kafka (librdkafka) writes to it and reads from it as with any broker; `fetch` and
`produce` give and take raw batches. Only as much of Kafka's protocol as that needs.
"""

from __future__ import annotations

import socket
import struct
from typing import Any

from confluent_kafka import Producer

PRODUCE, FETCH = 0, 1
PRODUCE_VERSION, FETCH_VERSION = 7, 4


class MockCluster:
    """One mock broker, alive as long as this object."""

    def __init__(self) -> None:
        self._owner: Any = Producer(
            {"test.mock.num.brokers": 1, "bootstrap.servers": "unused", "log_level": 3}
        )
        (broker,) = self._owner.list_topics(timeout=10).brokers.values()
        self.address = f"{broker.host}:{broker.port}"
        self._socket = socket.create_connection((broker.host, broker.port), 10)

    def fetch(self, topic: str) -> bytes:
        """All batches of partition 0 of the topic."""
        name = _text(topic)
        body = (
            struct.pack(">iiiib", -1, 1000, 1, 1 << 26, 0)
            + struct.pack(">i", 1) + name
            + struct.pack(">iiqi", 1, 0, 0, 1 << 26)
        )  # fmt: skip
        answer = self._call(FETCH, FETCH_VERSION, body)
        # throttle, topics = 1, name, partitions = 1, partition, error, high watermark, stable end
        at = 4 + 4 + len(name) + 4
        partition, error, _high, _stable, aborted = struct.unpack_from(">ihqqi", answer, at)
        assert (partition, error) == (0, 0), error
        at += struct.calcsize(">ihqqi") + 16 * max(aborted, 0)
        (size,) = struct.unpack_from(">i", answer, at)
        assert len(answer) == at + 4 + size
        return answer[at + 4 :]

    def produce(self, topic: str, batch: bytes) -> None:
        """Put the batch into partition 0 of the topic, which is made if need be."""
        self._owner.list_topics(topic, timeout=10)
        body = (
            struct.pack(">hhi", -1, -1, 10_000)  # no transactional id, acks=all, time-out
            + struct.pack(">i", 1) + _text(topic)
            + struct.pack(">iii", 1, 0, len(batch)) + batch
        )  # fmt: skip
        answer = self._call(PRODUCE, PRODUCE_VERSION, body)
        (error,) = struct.unpack_from(">h", answer, 4 + len(_text(topic)) + 4 + 4)
        assert error == 0, error

    def _call(self, key: int, version: int, body: bytes) -> bytes:
        request = struct.pack(">hhi", key, version, 1) + _text("pylog") + body
        self._socket.sendall(struct.pack(">i", len(request)) + request)
        (size,) = struct.unpack(">i", self._receive(4))
        return self._receive(size)[4:]

    def _receive(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self._socket.recv(size - len(data))
            assert piece, "the mock broker hung up"
            data += piece
        return data


def _text(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()
