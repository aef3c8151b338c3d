"""Both sides prove that they hold the secret, and nothing else passes."""

from __future__ import annotations

import pytest

from pylog.errors import (
    IllegalSaslState,
    PylogError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanism,
)
from pylog_broker.kafka.handshake import MECHANISM, ClientHandshake, HandshakeState, ServerHandshake

SECRET, OTHER = b"s" * 32, b"o" * 32
CLIENT_NONCE, SERVER_NONCE = b"c" * 32, b"n" * 32


def test_two_holders_of_the_secret_agree() -> None:
    server, client = ServerHandshake(SECRET, SERVER_NONCE), ClientHandshake(SECRET, CLIENT_NONCE)
    server.on_mechanism(MECHANISM)
    proof = client.on_challenge(server.on_bytes(client.nonce))
    assert server.on_bytes(proof) == b""
    assert server.done


def test_a_client_without_the_secret_is_refused() -> None:
    server = ServerHandshake(SECRET, SERVER_NONCE)
    server.on_mechanism(MECHANISM)
    server.on_bytes(CLIENT_NONCE)
    with pytest.raises(SaslAuthenticationFailed):
        server.on_bytes(b"\0" * 32)
    assert not server.done


def test_a_client_notices_a_server_without_the_secret() -> None:
    server, client = ServerHandshake(OTHER, SERVER_NONCE), ClientHandshake(SECRET, CLIENT_NONCE)
    server.on_mechanism(MECHANISM)
    with pytest.raises(SaslAuthenticationFailed, match="server"):
        client.on_challenge(server.on_bytes(client.nonce))


def test_the_servers_own_proof_sent_back_is_no_proof() -> None:
    server = ServerHandshake(SECRET, SERVER_NONCE)
    server.on_mechanism(MECHANISM)
    challenge = server.on_bytes(CLIENT_NONCE)
    with pytest.raises(SaslAuthenticationFailed):
        server.on_bytes(challenge[32:])


@pytest.mark.parametrize(
    ("state", "error"),
    [
        (HandshakeState.MECHANISM, IllegalSaslState),
        (HandshakeState.NONCE, SaslAuthenticationFailed),
        (HandshakeState.PROOF, SaslAuthenticationFailed),
        (HandshakeState.DONE, IllegalSaslState),
    ],
)
def test_bytes_out_of_turn_are_refused(state: HandshakeState, error: type[PylogError]) -> None:
    server = ServerHandshake(SECRET, SERVER_NONCE)
    server.state = state
    with pytest.raises(error):
        server.on_bytes(b"x")


def test_another_mechanism_is_refused() -> None:
    with pytest.raises(UnsupportedSaslMechanism, match="PLAIN"):
        ServerHandshake(SECRET, SERVER_NONCE).on_mechanism("PLAIN")
