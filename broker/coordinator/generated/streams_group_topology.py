"""StreamsGroupTopology (record type 23), versions 0 to 0.

Generated from broker/coordinator/schemas/streams_group_topology.txt by tools/kafka_codecs.py: do not edit.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from pylog_broker.kafka_primitives import (
    DECODE_FAULTS,
    MalformedMessage,
    count_refused,
    null_refused,
    read_varint,
    skip_tagged_fields,
    truncated,
    write_varint,
)

TYPE: Final = 23
VERSIONS: Final = range(0, 1)

_h: Final = Struct(">h")
_i: Final = Struct(">i")
_ih: Final = Struct(">ih")


class StreamsGroupTopologyKey(NamedTuple):
    """The key."""

    group_id: str = ""


class TopicConfig(NamedTuple):
    """topic_configs of TopicInfo."""

    key: str = ""
    value: str = ""


class TopicInfo(NamedTuple):
    """state_changelog_topics of Subtopology."""

    name: str = ""
    partitions: int = 0
    replication_factor: int = 0
    topic_configs: tuple[TopicConfig, ...] = ()


class CopartitionGroup(NamedTuple):
    """copartition_groups of Subtopology."""

    source_topics: tuple[int, ...] = ()
    source_topic_regex: tuple[int, ...] = ()
    repartition_source_topics: tuple[int, ...] = ()


class Subtopology(NamedTuple):
    """subtopologies of StreamsGroupTopologyValue."""

    subtopology_id: str = ""
    source_topics: tuple[str, ...] = ()
    source_topic_regex: tuple[str, ...] = ()
    state_changelog_topics: tuple[TopicInfo, ...] = ()
    repartition_sink_topics: tuple[str, ...] = ()
    repartition_source_topics: tuple[TopicInfo, ...] = ()
    copartition_groups: tuple[CopartitionGroup, ...] = ()


class StreamsGroupTopologyValue(NamedTuple):
    """The value."""

    epoch: int = 0
    subtopologies: tuple[Subtopology, ...] = ()


def _encode_key(key: StreamsGroupTopologyKey) -> bytearray:
    out = bytearray()
    value_a = key.group_id
    text_a = value_a.encode()
    out += _h.pack(len(text_a))
    out += text_a
    return out


def _decode_key(buffer: memoryview, position: int) -> tuple[StreamsGroupTopologyKey, int]:
    length = len(buffer)
    size, = _h.unpack_from(buffer, position)
    position += 2
    if size < 0:
        null_refused("group_id")
    if size > length - position:
        truncated("group_id", size, length - position)
    key_group_id = str(buffer[position : position + size], "utf-8")
    position += size
    assert position <= length
    return StreamsGroupTopologyKey(group_id=key_group_id), position


def encode_key(key: StreamsGroupTopologyKey) -> bytes:
    """The record's key, which begins with its type."""
    return _h.pack(TYPE) + _encode_key(key)


def decode_key(buffer: memoryview) -> StreamsGroupTopologyKey:
    """The key that fills `buffer`; MalformedMessage says why not."""
    try:
        number, = _h.unpack_from(buffer)
        if number != TYPE:
            raise MalformedMessage(f"StreamsGroupTopologyKey: type {number} is not known")
        key, end = _decode_key(buffer, 2)
    except DECODE_FAULTS as error:
        raise MalformedMessage(f"StreamsGroupTopologyKey: {error}") from None
    if end != len(buffer):
        raise MalformedMessage(f"StreamsGroupTopologyKey: {len(buffer) - end} bytes too many")
    return key


def _encode_value_v0(value: StreamsGroupTopologyValue) -> bytearray:
    out = bytearray()
    out += _i.pack(value.epoch)
    value_a = value.subtopologies
    write_varint(out, len(value_a) + 1)
    for a in value_a:
        value_b = a.subtopology_id
        text_b = value_b.encode()
        write_varint(out, len(text_b) + 1)
        out += text_b
        value_c = a.source_topics
        write_varint(out, len(value_c) + 1)
        for c in value_c:
            value_d = c
            text_d = value_d.encode()
            write_varint(out, len(text_d) + 1)
            out += text_d
        value_e = a.source_topic_regex
        write_varint(out, len(value_e) + 1)
        for e in value_e:
            value_f = e
            text_f = value_f.encode()
            write_varint(out, len(text_f) + 1)
            out += text_f
        value_g = a.state_changelog_topics
        write_varint(out, len(value_g) + 1)
        for g in value_g:
            value_h = g.name
            text_h = value_h.encode()
            write_varint(out, len(text_h) + 1)
            out += text_h
            out += _ih.pack(g.partitions, g.replication_factor)
            value_i = g.topic_configs
            write_varint(out, len(value_i) + 1)
            for i in value_i:
                value_j = i.key
                text_j = value_j.encode()
                write_varint(out, len(text_j) + 1)
                out += text_j
                value_k = i.value
                text_k = value_k.encode()
                write_varint(out, len(text_k) + 1)
                out += text_k
                out.append(0)
            out.append(0)
        value_l = a.repartition_sink_topics
        write_varint(out, len(value_l) + 1)
        for l in value_l:
            value_m = l
            text_m = value_m.encode()
            write_varint(out, len(text_m) + 1)
            out += text_m
        value_n = a.repartition_source_topics
        write_varint(out, len(value_n) + 1)
        for n in value_n:
            value_o = n.name
            text_o = value_o.encode()
            write_varint(out, len(text_o) + 1)
            out += text_o
            out += _ih.pack(n.partitions, n.replication_factor)
            value_p = n.topic_configs
            write_varint(out, len(value_p) + 1)
            for p in value_p:
                value_q = p.key
                text_q = value_q.encode()
                write_varint(out, len(text_q) + 1)
                out += text_q
                value_r = p.value
                text_r = value_r.encode()
                write_varint(out, len(text_r) + 1)
                out += text_r
                out.append(0)
            out.append(0)
        value_s = a.copartition_groups
        write_varint(out, len(value_s) + 1)
        for s in value_s:
            value_t = s.source_topics
            write_varint(out, len(value_t) + 1)
            for t in value_t:
                out += _h.pack(t)
            value_u = s.source_topic_regex
            write_varint(out, len(value_u) + 1)
            for u in value_u:
                out += _h.pack(u)
            value_v = s.repartition_source_topics
            write_varint(out, len(value_v) + 1)
            for v in value_v:
                out += _h.pack(v)
            out.append(0)
        out.append(0)
    out.append(0)
    return out


def _decode_value_v0(buffer: memoryview, position: int) -> tuple[StreamsGroupTopologyValue, int]:
    length = len(buffer)
    value_epoch, = _i.unpack_from(buffer, position)
    position += 4
    size, position = read_varint(buffer, position)
    size -= 1
    if size < 0:
        null_refused("subtopologies")
    value_subtopologies: tuple[Subtopology, ...]
    if size * 8 > length - position:
        count_refused("subtopologies", size, length - position)
    found_a: list[Subtopology] = []
    for _ in range(size):
        size, position = read_varint(buffer, position)
        size -= 1
        if size < 0:
            null_refused("subtopology_id")
        if size > length - position:
            truncated("subtopology_id", size, length - position)
        b_subtopology_id = str(buffer[position : position + size], "utf-8")
        position += size
        size, position = read_varint(buffer, position)
        size -= 1
        if size < 0:
            null_refused("source_topics")
        b_source_topics: tuple[str, ...]
        if size * 1 > length - position:
            count_refused("source_topics", size, length - position)
        found_c: list[str] = []
        for _ in range(size):
            size, position = read_varint(buffer, position)
            size -= 1
            if size < 0:
                null_refused("source_topics")
            if size > length - position:
                truncated("source_topics", size, length - position)
            element_d = str(buffer[position : position + size], "utf-8")
            position += size
            found_c.append(element_d)
        b_source_topics = tuple(found_c)
        size, position = read_varint(buffer, position)
        size -= 1
        if size < 0:
            null_refused("source_topic_regex")
        b_source_topic_regex: tuple[str, ...]
        if size * 1 > length - position:
            count_refused("source_topic_regex", size, length - position)
        found_e: list[str] = []
        for _ in range(size):
            size, position = read_varint(buffer, position)
            size -= 1
            if size < 0:
                null_refused("source_topic_regex")
            if size > length - position:
                truncated("source_topic_regex", size, length - position)
            element_f = str(buffer[position : position + size], "utf-8")
            position += size
            found_e.append(element_f)
        b_source_topic_regex = tuple(found_e)
        size, position = read_varint(buffer, position)
        size -= 1
        if size < 0:
            null_refused("state_changelog_topics")
        b_state_changelog_topics: tuple[TopicInfo, ...]
        if size * 9 > length - position:
            count_refused("state_changelog_topics", size, length - position)
        found_g: list[TopicInfo] = []
        for _ in range(size):
            size, position = read_varint(buffer, position)
            size -= 1
            if size < 0:
                null_refused("name")
            if size > length - position:
                truncated("name", size, length - position)
            h_name = str(buffer[position : position + size], "utf-8")
            position += size
            h_partitions, h_replication_factor = _ih.unpack_from(buffer, position)
            position += 6
            size, position = read_varint(buffer, position)
            size -= 1
            if size < 0:
                null_refused("topic_configs")
            h_topic_configs: tuple[TopicConfig, ...]
            if size * 3 > length - position:
                count_refused("topic_configs", size, length - position)
            found_i: list[TopicConfig] = []
            for _ in range(size):
                size, position = read_varint(buffer, position)
                size -= 1
                if size < 0:
                    null_refused("key")
                if size > length - position:
                    truncated("key", size, length - position)
                j_key = str(buffer[position : position + size], "utf-8")
                position += size
                size, position = read_varint(buffer, position)
                size -= 1
                if size < 0:
                    null_refused("value")
                if size > length - position:
                    truncated("value", size, length - position)
                j_value = str(buffer[position : position + size], "utf-8")
                position += size
                if buffer[position]:
                    position = skip_tagged_fields(buffer, position)
                else:
                    position += 1
                found_i.append(TopicConfig(key=j_key, value=j_value))
            h_topic_configs = tuple(found_i)
            if buffer[position]:
                position = skip_tagged_fields(buffer, position)
            else:
                position += 1
            found_g.append(TopicInfo(name=h_name, partitions=h_partitions, replication_factor=h_replication_factor, topic_configs=h_topic_configs))
        b_state_changelog_topics = tuple(found_g)
        size, position = read_varint(buffer, position)
        size -= 1
        if size < 0:
            null_refused("repartition_sink_topics")
        b_repartition_sink_topics: tuple[str, ...]
        if size * 1 > length - position:
            count_refused("repartition_sink_topics", size, length - position)
        found_k: list[str] = []
        for _ in range(size):
            size, position = read_varint(buffer, position)
            size -= 1
            if size < 0:
                null_refused("repartition_sink_topics")
            if size > length - position:
                truncated("repartition_sink_topics", size, length - position)
            element_l = str(buffer[position : position + size], "utf-8")
            position += size
            found_k.append(element_l)
        b_repartition_sink_topics = tuple(found_k)
        size, position = read_varint(buffer, position)
        size -= 1
        if size < 0:
            null_refused("repartition_source_topics")
        b_repartition_source_topics: tuple[TopicInfo, ...]
        if size * 9 > length - position:
            count_refused("repartition_source_topics", size, length - position)
        found_m: list[TopicInfo] = []
        for _ in range(size):
            size, position = read_varint(buffer, position)
            size -= 1
            if size < 0:
                null_refused("name")
            if size > length - position:
                truncated("name", size, length - position)
            n_name = str(buffer[position : position + size], "utf-8")
            position += size
            n_partitions, n_replication_factor = _ih.unpack_from(buffer, position)
            position += 6
            size, position = read_varint(buffer, position)
            size -= 1
            if size < 0:
                null_refused("topic_configs")
            n_topic_configs: tuple[TopicConfig, ...]
            if size * 3 > length - position:
                count_refused("topic_configs", size, length - position)
            found_o: list[TopicConfig] = []
            for _ in range(size):
                size, position = read_varint(buffer, position)
                size -= 1
                if size < 0:
                    null_refused("key")
                if size > length - position:
                    truncated("key", size, length - position)
                p_key = str(buffer[position : position + size], "utf-8")
                position += size
                size, position = read_varint(buffer, position)
                size -= 1
                if size < 0:
                    null_refused("value")
                if size > length - position:
                    truncated("value", size, length - position)
                p_value = str(buffer[position : position + size], "utf-8")
                position += size
                if buffer[position]:
                    position = skip_tagged_fields(buffer, position)
                else:
                    position += 1
                found_o.append(TopicConfig(key=p_key, value=p_value))
            n_topic_configs = tuple(found_o)
            if buffer[position]:
                position = skip_tagged_fields(buffer, position)
            else:
                position += 1
            found_m.append(TopicInfo(name=n_name, partitions=n_partitions, replication_factor=n_replication_factor, topic_configs=n_topic_configs))
        b_repartition_source_topics = tuple(found_m)
        size, position = read_varint(buffer, position)
        size -= 1
        if size < 0:
            null_refused("copartition_groups")
        b_copartition_groups: tuple[CopartitionGroup, ...]
        if size * 4 > length - position:
            count_refused("copartition_groups", size, length - position)
        found_q: list[CopartitionGroup] = []
        for _ in range(size):
            size, position = read_varint(buffer, position)
            size -= 1
            if size < 0:
                null_refused("source_topics")
            r_source_topics: tuple[int, ...]
            if size * 2 > length - position:
                count_refused("source_topics", size, length - position)
            found_s: list[int] = []
            for _ in range(size):
                element_t, = _h.unpack_from(buffer, position)
                position += 2
                found_s.append(element_t)
            r_source_topics = tuple(found_s)
            size, position = read_varint(buffer, position)
            size -= 1
            if size < 0:
                null_refused("source_topic_regex")
            r_source_topic_regex: tuple[int, ...]
            if size * 2 > length - position:
                count_refused("source_topic_regex", size, length - position)
            found_u: list[int] = []
            for _ in range(size):
                element_v, = _h.unpack_from(buffer, position)
                position += 2
                found_u.append(element_v)
            r_source_topic_regex = tuple(found_u)
            size, position = read_varint(buffer, position)
            size -= 1
            if size < 0:
                null_refused("repartition_source_topics")
            r_repartition_source_topics: tuple[int, ...]
            if size * 2 > length - position:
                count_refused("repartition_source_topics", size, length - position)
            found_w: list[int] = []
            for _ in range(size):
                element_x, = _h.unpack_from(buffer, position)
                position += 2
                found_w.append(element_x)
            r_repartition_source_topics = tuple(found_w)
            if buffer[position]:
                position = skip_tagged_fields(buffer, position)
            else:
                position += 1
            found_q.append(CopartitionGroup(source_topics=r_source_topics, source_topic_regex=r_source_topic_regex, repartition_source_topics=r_repartition_source_topics))
        b_copartition_groups = tuple(found_q)
        if buffer[position]:
            position = skip_tagged_fields(buffer, position)
        else:
            position += 1
        found_a.append(Subtopology(subtopology_id=b_subtopology_id, source_topics=b_source_topics, source_topic_regex=b_source_topic_regex, state_changelog_topics=b_state_changelog_topics, repartition_sink_topics=b_repartition_sink_topics, repartition_source_topics=b_repartition_source_topics, copartition_groups=b_copartition_groups))
    value_subtopologies = tuple(found_a)
    if buffer[position]:
        position = skip_tagged_fields(buffer, position)
    else:
        position += 1
    assert position <= length
    return StreamsGroupTopologyValue(epoch=value_epoch, subtopologies=value_subtopologies), position


_ENCODE: Final = {0: _encode_value_v0}
_DECODE: Final = {0: _decode_value_v0}


def encode_value(value: StreamsGroupTopologyValue, version: int) -> bytes:
    """The record's value, which begins with its version."""
    return _h.pack(version) + _ENCODE[version](value)


def decode_value(buffer: memoryview) -> StreamsGroupTopologyValue:
    """The value that fills `buffer`; MalformedMessage says why not."""
    try:
        number, = _h.unpack_from(buffer)
        if number not in _DECODE:
            raise MalformedMessage(f"StreamsGroupTopologyValue: version {number} is not known")
        value, end = _DECODE[number](buffer, 2)
    except DECODE_FAULTS as error:
        raise MalformedMessage(f"StreamsGroupTopologyValue: {error}") from None
    if end != len(buffer):
        raise MalformedMessage(f"StreamsGroupTopologyValue: {len(buffer) - end} bytes too many")
    return value
