"""Sinks of queries as messages and as administrators' values."""

from __future__ import annotations

from typing import Any

import pytest

from pylog import errors
from pylog.client.admin import sink_wire
from pylog.client.admin.sink_types import (
    DecidedBatch,
    OverwrittenTopic,
    SinkListing,
    WrittenRange,
)
from pylog.rpc.v1 import sink_pb2

KEY = sink_pb2.SinkKey(query_id="8f3b", sink_id="topic/orders")


@pytest.mark.parametrize(
    ("transactional_id", "sink"),
    [
        ("__sink/8f3b/topic/orders/12", ("8f3b", "topic/orders")),
        ("__sink/8f3b/s/0", ("8f3b", "s")),
        ("__sinks/8f3b/s/0", (None, None)),
        ("loader-1", (None, None)),
    ],
)
def test_a_transactional_id_tells_its_sink(
    transactional_id: str, sink: tuple[str | None, str | None]
) -> None:
    assert sink_wire.sink_of(transactional_id) == sink


def test_a_sink_is_found_by_one_of_its_transactional_ids() -> None:
    place = sink_wire.placement_of(sink_wire.key_message("8f3b", "topic/orders"))
    assert place == "__sink/8f3b/topic/orders/0"
    assert sink_wire.sink_of(place) == ("8f3b", "topic/orders")


def test_a_sink_as_it_is_listed() -> None:
    made = sink_pb2.SinkDecision(
        batch_id=4, run_number=1, row_count=5, checksum=2**64 - 1, digest="d", decided_ms=100,
        expires_ms=-1,
        receipt=[sink_pb2.SinkRange(topic="t", partition=1, first_offset=3, last_offset=7)],
        overwritten=[sink_pb2.OverwrittenTopic(topic="t", topic_id="id", starts=[2, 3])],
    )  # fmt: skip
    told = sink_pb2.ListedSink(
        sink=KEY, run_id="r", last=made, open_attempts=3, prepared_attempts=2, held_since_ms=50,
        prepared_since_ms=60,
    )  # fmt: skip
    batch = DecidedBatch(
        4, 1, 5, 2**64 - 1, "d", 100, None, (WrittenRange("t", 1, 3, 7),),
        (OverwrittenTopic("t", "id", (2, 3)),),
    )  # fmt: skip
    listing = SinkListing("8f3b", "topic/orders", 2, "r", batch, 3, 2, 50, 60)
    assert sink_wire.listing_of(told, 2) == listing
    fresh = sink_pb2.ListedSink(sink=KEY, held_since_ms=-1, prepared_since_ms=-1)
    assert sink_wire.listing_of(fresh, 2) == SinkListing("8f3b", "topic/orders", 2, None, None)


@pytest.mark.parametrize("given", ["", None, 5, b"q"])
def test_what_is_no_name_is_refused(given: Any) -> None:
    with pytest.raises(errors.InvalidRequest, match=r"query_id=.*give a text in UTF-8, not empty"):
        sink_wire.key_message(given, "s")
    with pytest.raises(errors.InvalidRequest, match=r"sink_id=.*give a text in UTF-8, not empty"):
        sink_wire.key_message("q", given)
    if given is not None:
        with pytest.raises(
            errors.InvalidRequest, match=r"sink_id=.*give a text in UTF-8, not empty"
        ):
            sink_wire.list_request(None, given, False)


def test_filters_of_a_list() -> None:
    assert sink_wire.list_request(None, None, False) == sink_pb2.ListSinksRequest()
    wanted = sink_pb2.ListSinksRequest(query_id="q", sink_id="s", receipts=True)
    assert sink_wire.list_request("q", "s", True) == wanted
