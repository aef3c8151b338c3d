from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylog_connector.errors import CheckpointInvalid
from pylog_connector.offsets import PartitionPosition, StreamOffset, TopicPosition, read_offset

ID = "x" * 22


def offset(**topics: dict[int, int]) -> StreamOffset:
    return StreamOffset(
        {
            name: TopicPosition(ID, {p: PartitionPosition(o, 3) for p, o in offsets.items()})
            for name, offsets in topics.items()
        }
    )


def test_the_documented_shape() -> None:
    end = offset(a={0: 120, 1: 98}).booted_at(offset(a={0: 0, 1: 7}))
    assert json.dumps(end.to_json(), separators=(",", ":")) == (
        '{"boot":{"t":{"a":{"0":0,"1":7}}},'
        '"t":{"a":{"id":"' + ID + '","p":{"0":{"e":3,"o":120},"1":{"e":3,"o":98}}}},"v":1}'
    )


whole = st.integers(0, 2**63 - 1)
stream_offsets = st.builds(
    StreamOffset,
    st.dictionaries(
        st.text("abc.-_", min_size=1),
        st.builds(
            TopicPosition,
            st.just(ID),
            st.dictionaries(
                st.integers(0, 200), st.builds(PartitionPosition, whole, st.integers(-1, 2**31 - 1))
            ),
        ),
    ),
    st.dictionaries(st.text("abc", min_size=1), st.dictionaries(st.integers(0, 200), whole)),
)


@given(stream_offsets)
def test_text_is_canonical_and_read_again(at: StreamOffset) -> None:
    text = json.dumps(at.to_json())
    assert text == json.dumps(at.to_json(), sort_keys=True)
    assert read_offset(json.loads(text)) == at
    assert json.dumps(read_offset(json.loads(text)).to_json()) == text


def test_what_counts_as_moved() -> None:
    start = offset(a={0: 5})
    assert not offset(a={0: 5}).moved(start)
    assert offset(a={0: 6}).moved(start)
    assert not offset(a={0: 5, 1: 0}).moved(start)  # a new partition without records
    assert offset(a={0: 5, 1: 1}).moved(start)
    assert offset(a={0: 5}, b={0: 0}).moved(start)
    other = StreamOffset({"a": TopicPosition("y" * 22, {0: PartitionPosition(5, 3)})})
    assert other.moved(start)
    newer_epoch = StreamOffset({"a": TopicPosition(ID, {0: PartitionPosition(5, 9)})})
    assert not newer_epoch.moved(start)


def good() -> dict[str, Any]:
    return {"t": {"a": {"id": ID, "p": {"0": {"e": 3, "o": 120}}}}, "v": 1}


def change(path: str, value: Any) -> dict[str, Any]:
    changed = good()
    *folders, last = path.split(".")
    at = changed
    for folder in folders:
        at = at[folder]
    at[last] = value
    return changed


@pytest.mark.parametrize(
    ("value", "word"),
    [
        (None, "not an object"),
        ([], "not an object"),
        ({}, "version"),
        (change("v", "1"), "version"),
        (change("v", True), "version"),
        (change("v", 2), "later version"),
        (change("t", []), "t is not an object"),
        (change("t.a.id", 5), "no topic id"),
        (change("t.a.id", ""), "no topic id"),
        (change("t.a.p", None), "t.a.p"),
        (change("t.a.p.0", 5), "t.a.p.0 is not"),
        (change("t.a.p.0.o", -1), "t.a.p.0.o"),
        (change("t.a.p.0.o", "5"), "t.a.p.0.o"),
        (change("t.a.p.0.e", None), "t.a.p.0.e"),
        (change("t.a.p.x", {"e": 1, "o": 1}), "'x'"),
        (change("extra", 1), "'extra'"),
        (change("boot", {"t": {"a": 5}}), "boot.t.a"),
        (change("boot", {}), "t is not an object"),
        ({"topic": {"0": -5}}, "topic.0 is -5"),
        ({"topic": {"x": 5}}, "'x'"),
        ({"topic": 5}, "version"),
        ({"topic": {}}, "version"),
    ],
)
def test_a_damaged_checkpoint_is_refused(value: Any, word: str) -> None:
    with pytest.raises(CheckpointInvalid) as error:
        read_offset(value)
    assert word in str(error.value)
    assert str(error.value).startswith("[PYLOG_CHECKPOINT_INVALID] ")


def test_an_offset_of_sparks_kafka_connector_is_read() -> None:
    read = read_offset({"a": {"0": 5, "10": 7}})
    assert read.topics == {
        "a": TopicPosition("", {0: PartitionPosition(5), 10: PartitionPosition(7)})
    }
    assert read.to_json()["v"] == 1
