"""A broker of today answers what clients of earlier releases say, as theirs did; a client of today
reads what their brokers answer; and peers of different versions speak the lower one.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from google.protobuf.message import Message

from pylog.client.connection.client_connection import (
    Answered,
    ClientConnection,
    Failed,
    Greeted,
    State,
)
from pylog.model import Offset
from pylog.rpc import apis, calls, fetch_wire, streams
from pylog.rpc.apis import UNARY_APIS, UnaryApi
from pylog.rpc.v1 import cluster_pb2, common_pb2, log_pb2, stream_pb2
from pylog_broker.api.context import RequestContext
from pylog_broker.controller.settings import ControllerSettings
from pylog_broker.metadata import codec
from pylog_broker.metadata.admin import FeaturesUpdated, UpdateFeatures
from pylog_broker.metadata.features import FIRST_LEVEL, METADATA_VERSION, NEWEST_LEVEL, level_of
from pylog_broker.metadata.image import MetadataImage
from pylog_broker.metadata.records import FeatureLevelRecord, FeatureRange, Software
from pylog_broker.protobuf.unary import Bound
from tests.fakes.controller_shell import ControllerShell
from tests.fakes.stream_world import World, run
from tests.golden.make_conversations import (
    FOLDER,
    RELEASE,
    STREAMS,
    Line,
    answered,
    conversation,
    cut,
    read,
    registration_lines,
)

RELEASES = sorted(path.name for path in FOLDER.iterdir())
KINDS = {"produce": streams.PRODUCE, "fetch": streams.FETCH, "calls": streams.CALLS}
LATER_FIELD = b"\xc2\xbb\x01\x08a future"
"""Field 3000 of any message: eight bytes that no release of today knows."""


def frames(release: str, name: str, side: str) -> list[bytes]:
    return [frame for said, frame in read(FOLDER / release / f"{name}.txt") if said == side]


def body_of(name: str, frame: bytes) -> tuple[Any, Message]:
    """The subject of a broker's frame, and its message."""
    kind, body = frame[4], memoryview(frame)[5:]
    if kind == streams.WELCOME:
        return kind, stream_pb2.StreamWelcome.FromString(bytes(body))
    if kind in (streams.ANSWER, streams.FAILURE):
        number = int.from_bytes(body[:4], "big")
        if kind == streams.FAILURE:
            return (kind, number), common_pb2.Error.FromString(bytes(body[4:]))
        asked = calls.read_call(memoryview(frames(RELEASE, name, ">")[number + 1])[4:])
        api = next(each for each in UNARY_APIS if each.key == asked.key)
        return (kind, number), api.response.FromString(bytes(body[4:]))
    assert kind == streams.MESSAGE
    response = log_pb2.ProduceResponse if name == "produce" else log_pb2.FetchResponse
    return kind, response.FromString(bytes(body))


def differences(old: Any, new: Any, path: str = "") -> list[str]:
    """Statements of a message of the earlier release that the one of today does not make. Today's
    may say more: later APIs in a greeting, later fields.
    """
    found = []
    for field, value in old.ListFields():
        here, now = f"{path}.{field.name}", getattr(new, field.name)
        if field.name == "software_version":
            continue
        if field.name == "apis":
            told = {each.key: each.version_max for each in now}
            found += [f"{here}: {a}" for a in value if told.get(a.key, -1) < a.version_max]
        elif field.type == field.TYPE_MESSAGE and field.is_repeated:
            if len(value) != len(now):
                found.append(f"{here}: {len(value)} became {len(now)}")
            for one, other in zip(value, now, strict=False):
                found += differences(one, other, here)
        elif field.type == field.TYPE_MESSAGE:
            found += differences(value, now, here)
        elif field.name != "message" and value != now:  # words for people may change
            found.append(f"{here}: {value!r} became {now!r}")
    return found


def replayed(asked: list[bytes]) -> list[bytes]:
    lines = asyncio.run(conversation(asked))
    return [frame for side, frame in lines if side == "<"]


def test_todays_release_is_among_them() -> None:
    assert RELEASE in RELEASES


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("name", STREAMS)
def test_a_broker_of_today_answers_an_earlier_client_as_its_own_did(
    release: str, name: str
) -> None:
    answers = replayed(frames(release, name, ">"))
    golden = frames(release, name, "<")
    assert len(answers) == len(golden)
    for old, new in zip(golden, answers, strict=True):
        (about, before), (also, now) = body_of(name, old), body_of(name, new)
        assert about == also
        assert differences(before, now) == []
    if name != "calls":  # batches, offsets and their layout to the byte
        assert answers[1:] == golden[1:]


@pytest.mark.parametrize("name", STREAMS)
def test_todays_client_says_what_the_release_says(name: str) -> None:
    """A change here is a change of what is said: it needs a new release's folder."""
    golden = frames(RELEASE, name, ">")
    assert STREAMS[name]()[1:] == golden[1:]
    old, new = (streams.read_hello(memoryview(f)[4:]) for f in (golden[0], STREAMS[name]()[0]))
    assert differences(old, new) == []


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("name", STREAMS)
def test_a_client_of_today_reads_what_an_earlier_broker_answers(release: str, name: str) -> None:
    events = events_of(name, frames(release, name, "<"))
    assert isinstance(events[0], Greeted)
    assert events[0].agreed.broker_epoch == 17
    if name == "fetch":
        found = [fetch_wire.parse_response(event) for event in events[1:]]
        assert [each.correlation for each in found] == [1, 2, 3]
        assert [each.stands for each in found] == [False, True, False]
        codes = [part.error.code for each in found for part, _ in each.partitions]
        assert codes == [0, 0, 1]  # OFFSET_OUT_OF_RANGE
    elif name == "produce":
        acks = [log_pb2.ProduceResponse.FromString(bytes(event)) for event in events[1:]]
        assert [each.correlation for each in acks] == [1, 2, 4]
        assert [each.acks[0].base_offset for each in acks] == [2, 0, -1]
        assert acks[1].following[0].acks[0].base_offset == 3
        assert acks[2].acks[0].error.code == 3  # UNKNOWN_TOPIC_OR_PARTITION
    else:
        assert [type(event) for event in events[1:]] == [Answered] * 5 + [Failed]
        assert [event.call for event in events[1:]] == [0, 1, 2, 3, 4, 5]


def events_of(name: str, answers: list[bytes]) -> list[Any]:
    """The events of a client's connection for a broker's frames, all of which give some."""
    core: ClientConnection[int] = ClientConnection(KINDS[name], 1)
    events: list[Any] = []
    for number, frame in enumerate(answers):
        if number == 1 and name == "calls":
            for call in range(len(answers) - 1):
                core.call(call, apis.METADATA, b"", 1_000)
        rest = frame
        while rest:
            buffer = core.free_buffer()
            part, rest = rest[: len(buffer)], rest[len(buffer) :]
            buffer[: len(part)] = part
            events += core.received(len(part))
    assert core.state is State.OPEN
    return events


# ---- later fields --------------------------------------------------------------------------------


def with_later_field(frame: bytes) -> bytes:
    """The frame of a peer that says more than anybody of today understands."""
    return (len(frame) - 4 + len(LATER_FIELD)).to_bytes(4, "big") + frame[4:] + LATER_FIELD


@pytest.mark.parametrize("name", STREAMS)
def test_a_later_client_is_answered_as_one_of_today(name: str) -> None:
    asked = frames(RELEASE, name, ">")
    assert replayed([*map(with_later_field, asked)]) == replayed(asked)


@pytest.mark.parametrize("name", STREAMS)
def test_a_later_broker_is_read_as_one_of_today(name: str) -> None:
    def shown(events: list[Any]) -> list[Any]:
        found: list[Any] = []
        for event in events:
            if isinstance(event, memoryview) and name == "fetch":
                answer = fetch_wire.parse_response(event)
                parts = [(part.partition, bytes(data)) for part, data in answer.partitions]
                found.append((answer.correlation, answer.stands, parts))
            elif isinstance(event, memoryview):
                said = log_pb2.ProduceResponse.FromString(bytes(event))
                found.append([ack.base_offset for ack in said.acks])
            elif isinstance(event, Failed):
                found.append((event.call, type(event.error)))
            else:
                found.append(event.call if isinstance(event, Answered) else event.agreed)
        return found

    golden = frames(RELEASE, name, "<")
    later = [*map(with_later_field, golden)]
    assert shown(events_of(name, later)) == shown(events_of(name, golden))


# ---- versions of an API --------------------------------------------------------------------------


def negotiated(monkeypatch: pytest.MonkeyPatch, *, broker: int, client: int) -> list[Any]:
    """The version in which a broker and a client of such highest versions of ListOffsets speak: as
    the handler is told.
    """
    seen: list[Any] = []

    def row(version_max: int) -> UnaryApi[Any, Any]:
        return apis.LIST_OFFSETS._replace(version_max=version_max)

    def release(version_max: int) -> None:
        """From now on this process is of a release that speaks up to that version."""
        rows = [row(version_max) if each.key == row(0).key else each for each in UNARY_APIS]
        monkeypatch.setattr(streams, "UNARY_APIS", tuple(rows))
        streams._spoken.cache_clear()
        streams.hello.cache_clear()

    async def handle(context: RequestContext, _value: object) -> log_pb2.ListOffsetsResponse:
        seen.append(context.api_version)
        return log_pb2.ListOffsetsResponse()

    async def play() -> None:
        release(client)
        hello = streams.hello(streams.CALLS, "c", 3, "me")
        release(broker)
        bound = Bound(row(broker), lambda message: message, handle, lambda answer: answer)
        world = World(None, [bound])
        world.feed(hello)
        welcome, world.transport.sent = world.transport.sent, b""
        release(client)
        core: ClientConnection[str] = ClientConnection(streams.CALLS, 3)
        buffer = core.free_buffer()
        buffer[: len(welcome)] = welcome
        core.received(len(welcome))
        _, frame = core.call("asked", row(client), b"", 1_000)
        world.feed(b"".join(frame))
        for _ in range(10):
            await asyncio.sleep(0)
        [(kind, _)] = world.answers()
        assert kind == streams.ANSWER
        world.connection.connection_lost(None)

    try:
        run(play)
    finally:
        monkeypatch.undo()
        streams._spoken.cache_clear()
        streams.hello.cache_clear()
    return seen


@pytest.mark.parametrize(
    ("broker", "client", "spoken"),
    [(0, 0, 0), (2, 0, 0), (0, 2, 0), (2, 1, 1), (1, 2, 1), (2, 2, 2)],
)
def test_both_sides_speak_the_lower_version(
    monkeypatch: pytest.MonkeyPatch, broker: int, client: int, spoken: int
) -> None:
    assert negotiated(monkeypatch, broker=broker, client=client) == [spoken]


# ---- brokers and their controller ----------------------------------------------------------------


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("later", [b"", LATER_FIELD])
def test_a_controller_of_today_registers_an_earlier_and_a_later_broker(
    release: str, later: bytes
) -> None:
    lines = read(FOLDER / release / "registration.txt")
    kinds: list[Any] = [cluster_pb2.ClaimBrokerRequest, cluster_pb2.RegisterBrokerRequest]
    said = [frame + later for side, frame in lines if side == ">"]
    asked = [kind.FromString(each) for kind, each in zip(kinds, said, strict=True)]
    answers = answered(ControllerShell(), asked)
    golden = [frame for side, frame in lines if side == "<"]
    for old, now in zip(golden, answers, strict=True):
        assert differences(type(now).FromString(old), now) == []


def test_todays_broker_says_what_the_release_says() -> None:
    lines: list[Line] = registration_lines()
    golden = read(FOLDER / RELEASE / "registration.txt")
    kinds: list[Any] = [
        cluster_pb2.ClaimBrokerRequest, cluster_pb2.ClaimBrokerResponse,
        cluster_pb2.RegisterBrokerRequest, cluster_pb2.RegisterBrokerResponse,
    ]  # fmt: skip
    for kind, (_, old), (_, new) in zip(kinds, golden, lines, strict=True):
        assert differences(kind.FromString(old), kind.FromString(new)) == []


def test_a_newer_broker_works_beside_an_older_one_until_the_level_is_raised() -> None:
    """A cluster that an earlier version made stays at its level: today's broker joins it beside
    one that supports no more, and one that tells nothing of itself.
    """
    first = ControllerShell(settings=ControllerSettings(expected_brokers=1))
    records = [record for record in first.log if not isinstance(record, FeatureLevelRecord)]
    shell = ControllerShell(MetadataImage.from_records(records, Offset(len(records) - 1)))
    old = Software("pylog", "0.0.1", features=(FeatureRange(METADATA_VERSION, 1, 1),))
    silent = codec.encode_registration(shell.registration(3))
    silent.ClearField("software")
    shell.join(1, software=old)
    shell.join(2)
    shell.join(3, software=codec.decode_registration(silent).software)
    shell.create(replication=3)
    assert {*shell.partition().isr} == {1, 2, 3}
    assert level_of(shell.controller.image.features, METADATA_VERSION) == FIRST_LEVEL
    refused = shell.call("update_features", UpdateFeatures(((METADATA_VERSION, NEWEST_LEVEL),)))
    assert isinstance(refused, FeaturesUpdated)
    assert refused.failure is not None
    for number in (1, 3):  # they are upgraded
        shell.join(number, life=2)
    raised = shell.call("update_features", UpdateFeatures(((METADATA_VERSION, NEWEST_LEVEL),)))
    assert isinstance(raised, FeaturesUpdated)
    assert raised.failure is None


def test_frames_are_cut_as_they_were_joined() -> None:
    assert cut(b"\0\0\0\x01a\0\0\0\x02bc") == [b"\0\0\0\x01a", b"\0\0\0\x02bc"]
