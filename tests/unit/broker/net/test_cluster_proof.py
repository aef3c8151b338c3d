"""Brokers and controller prove the cluster's secret; what passes is of no use later."""

from __future__ import annotations

import random

import pytest

from pylog.errors import ClusterAuthorizationFailed
from pylog_broker.net.cluster_proof import (
    CHALLENGE_MS_MAX,
    METADATA_KEY,
    NONCE_BYTES,
    SESSIONS_MAX,
    WINDOW,
    BrokerSession,
    ClusterSessions,
)

SECRET = b"s" * 32
NOW_MS = 5_000


def nonce(number: int) -> bytes:
    return number.to_bytes(NONCE_BYTES, "big")


def controller(secret: bytes = SECRET) -> ClusterSessions:
    return ClusterSessions(secret, b"n" * 32)


def begun(sessions: ClusterSessions, number: int = 1, now_ms: int = NOW_MS) -> BrokerSession:
    broker = BrokerSession(SECRET, nonce(number))
    server_nonce, proof = sessions.challenge(now_ms, broker.nonce)
    answer = broker.on_challenge(server_nonce, proof)
    sessions.begin(now_ms, broker.nonce, server_nonce, answer)
    return broker


def said(broker: BrokerSession, method: str = "Heartbeat") -> str:
    ((key, value),) = broker.metadata(method)
    assert key == METADATA_KEY
    return value


def refused(sessions: ClusterSessions, method: str, proof: str) -> str:
    with pytest.raises(ClusterAuthorizationFailed) as caught:
        sessions.check(method, proof)
    return str(caught.value)


def test_each_call_proves_itself_once() -> None:
    sessions = controller()
    broker = begun(sessions)
    first, second = said(broker), said(broker, "RegisterBroker")
    assert first != second
    sessions.check("RegisterBroker", second)
    sessions.check("Heartbeat", first)
    assert refused(sessions, "Heartbeat", first) == "the call was made before"
    assert refused(sessions, "RegisterBroker", second) == "the call was made before"


def test_what_was_overheard_is_of_no_use() -> None:
    sessions = controller()
    heard = said(begun(sessions))
    name, number, proof = heard.split(".")
    assert refused(sessions, "AlterPartition", heard) == "the proof is not that of this call"
    assert "not that of this call" in refused(sessions, "Heartbeat", f"{name}.2.{proof}")
    assert "prove themselves" in refused(sessions, "Heartbeat", f"{'0' * 64}.{number}.{proof}")
    # Another life of the controller has other sessions.
    assert "prove themselves" in refused(controller(), "Heartbeat", heard)


def test_neither_secret_nor_key_is_said() -> None:
    sessions = controller()
    broker = BrokerSession(SECRET, nonce(1))
    server_nonce, proof = sessions.challenge(NOW_MS, broker.nonce)
    answer = broker.on_challenge(server_nonce, proof)
    sessions.begin(NOW_MS, broker.nonce, server_nonce, answer)
    passed = b"".join((broker.nonce, server_nonce, proof, answer)) + said(broker).encode()
    for hidden in (SECRET, broker._key):
        assert hidden not in passed
        assert hidden.hex().encode() not in passed


def test_the_second_step_said_again_changes_nothing() -> None:
    sessions = controller()
    broker = BrokerSession(SECRET, nonce(1))
    server_nonce, proof = sessions.challenge(NOW_MS, broker.nonce)
    answer = broker.on_challenge(server_nonce, proof)
    sessions.begin(NOW_MS, broker.nonce, server_nonce, answer)
    call = said(broker)
    sessions.check("Heartbeat", call)
    sessions.begin(NOW_MS, broker.nonce, server_nonce, answer)
    assert refused(sessions, "Heartbeat", call) == "the call was made before"


def test_a_session_that_was_forgotten_does_not_begin_again() -> None:
    sessions = controller()
    broker = BrokerSession(SECRET, nonce(0))
    server_nonce, proof = sessions.challenge(NOW_MS, broker.nonce)
    answer = broker.on_challenge(server_nonce, proof)
    sessions.begin(NOW_MS, broker.nonce, server_nonce, answer)
    for number in range(SESSIONS_MAX):
        begun(sessions, number + 1, NOW_MS + 1)
    assert "prove themselves" in refused(sessions, "Heartbeat", said(broker))
    with pytest.raises(ClusterAuthorizationFailed, match="too old"):
        sessions.begin(NOW_MS + 1, broker.nonce, server_nonce, answer)
    assert len(sessions._sessions) == SESSIONS_MAX


def test_the_session_that_is_used_stays() -> None:
    sessions = controller()
    used = begun(sessions, 0)
    for number in range(SESSIONS_MAX + 5):
        begun(sessions, number + 1, NOW_MS + number)
        sessions.check("Heartbeat", said(used))


def test_a_wrong_secret_is_noticed_on_both_sides() -> None:
    stranger = BrokerSession(b"x" * 32, nonce(1))
    server_nonce, proof = controller().challenge(NOW_MS, stranger.nonce)
    with pytest.raises(ClusterAuthorizationFailed, match="the controller does not hold"):
        stranger.on_challenge(server_nonce, proof)
    with pytest.raises(ClusterAuthorizationFailed, match="the caller does not hold"):
        controller().begin(NOW_MS, stranger.nonce, server_nonce, bytes(32))


def test_a_proof_is_for_its_challenge_and_in_time() -> None:
    sessions = controller()
    broker = BrokerSession(SECRET, nonce(1))
    server_nonce, proof = sessions.challenge(NOW_MS, broker.nonce)
    answer = broker.on_challenge(server_nonce, proof)
    late = NOW_MS + CHALLENGE_MS_MAX + 1
    with pytest.raises(ClusterAuthorizationFailed, match="too old"):
        sessions.begin(late, broker.nonce, server_nonce, answer)
    other = ClusterSessions(SECRET, b"another life of the controller")
    with pytest.raises(ClusterAuthorizationFailed, match="not of this controller"):
        other.begin(NOW_MS, broker.nonce, server_nonce, answer)
    with pytest.raises(ClusterAuthorizationFailed, match="the nonce has 3 bytes"):
        sessions.challenge(NOW_MS, b"abc")


def test_calls_may_overtake_each_other_within_a_window() -> None:
    sessions = controller()
    broker = begun(sessions)
    calls = [said(broker) for _ in range(5 * WINDOW)]
    rng = random.Random(0)
    for first in range(0, len(calls), WINDOW // 2):
        part = calls[first : first + WINDOW // 2]
        rng.shuffle(part)
        for call in part:
            sessions.check("Heartbeat", call)
    for call in rng.sample(calls, 500):
        assert refused(sessions, "Heartbeat", call) == "the call was made before"
    (session,) = sessions._sessions.values()
    assert len(session.taken) <= 3 * WINDOW


@pytest.mark.parametrize("proof", ["", ".", "..", "a.b.c", "é.é.é", "\0" * 100, "." * 10_000])
def test_nonsense_is_refused(proof: str) -> None:
    assert refused(controller(), "Heartbeat", proof)
    sessions = controller()
    name = said(begun(sessions)).partition(".")[0]
    assert refused(sessions, "Heartbeat", f"{name}.{proof}")
