"""Brokers prove to each other that they hold the cluster's secret, over Kafka's SASL requests.

Mechanism `PYLOG-HMAC-SHA256`, in two SaslAuthenticate steps:

    client -> server   client nonce (32 bytes)
    server -> client   server nonce (32), HMAC(secret, "server" | client nonce | server nonce) (32)
    client -> server   HMAC(secret, "client" | client nonce | server nonce) (32)

Both sides choose a nonce, so no answer can be replayed, and the two labels keep an answer from
being sent back to whoever gave it. The secret itself never travels. Pure: nonces are arguments.
"""

from __future__ import annotations

import hashlib
import hmac
from enum import Enum, auto
from typing import Final

from pylog.errors import IllegalSaslState, SaslAuthenticationFailed, UnsupportedSaslMechanism

MECHANISM: Final = "PYLOG-HMAC-SHA256"
NONCE_BYTES: Final = 32
PROOF_BYTES: Final = 32


def _proof(secret: bytes, role: bytes, client_nonce: bytes, server_nonce: bytes) -> bytes:
    message = b"pylog replication " + role + b"\0" + client_nonce + server_nonce
    return hmac.new(secret, message, hashlib.sha256).digest()


class HandshakeState(Enum):
    """The message that the server waits for."""

    MECHANISM = auto()
    """The client has not chosen yet."""
    NONCE = auto()
    """The mechanism is agreed; the client's nonce comes next."""
    PROOF = auto()
    """The server has proved itself; the client must."""
    DONE = auto()
    """Both have."""


class ServerHandshake:
    """The server's side of one connection."""

    def __init__(self, secret: bytes, nonce: bytes) -> None:
        assert len(nonce) == NONCE_BYTES
        self._secret = secret
        self._nonce = nonce
        self._client_nonce = b""
        self.state = HandshakeState.MECHANISM

    @property
    def done(self) -> bool:
        """Whether the client has proved itself."""
        return self.state is HandshakeState.DONE

    def on_mechanism(self, mechanism: str) -> None:
        """Take the client's choice; raises UnsupportedSaslMechanism, IllegalSaslState."""
        if self.state is not HandshakeState.MECHANISM:
            raise IllegalSaslState("a mechanism was chosen already")
        if mechanism != MECHANISM:
            raise UnsupportedSaslMechanism(
                f"mechanism {mechanism[:64]!r} is not offered; brokers use {MECHANISM}"
            )
        self.state = HandshakeState.NONCE

    def on_bytes(self, data: bytes) -> bytes:
        """The answer to one step; raises IllegalSaslState, SaslAuthenticationFailed."""
        if self.state is HandshakeState.NONCE:
            if len(data) != NONCE_BYTES:
                raise SaslAuthenticationFailed(
                    f"the nonce has {len(data)} bytes, not {NONCE_BYTES}"
                )
            self._client_nonce = data
            self.state = HandshakeState.PROOF
            return self._nonce + _proof(self._secret, b"server", data, self._nonce)
        if self.state is HandshakeState.PROOF:
            expected = _proof(self._secret, b"client", self._client_nonce, self._nonce)
            if not hmac.compare_digest(expected, data):
                raise SaslAuthenticationFailed("the client does not hold this cluster's secret")
            self.state = HandshakeState.DONE
            return b""
        raise IllegalSaslState(f"no authentication step is expected in state {self.state.name}")


class ClientHandshake:
    """The client's side of one connection."""

    def __init__(self, secret: bytes, nonce: bytes) -> None:
        assert len(nonce) == NONCE_BYTES
        self._secret = secret
        self.nonce = nonce

    def on_challenge(self, data: bytes) -> bytes:
        """The proof that answers the server's; SaslAuthenticationFailed when it is an impostor."""
        server_nonce, proof = data[:NONCE_BYTES], data[NONCE_BYTES:]
        expected = _proof(self._secret, b"server", self.nonce, server_nonce)
        if len(data) != NONCE_BYTES + PROOF_BYTES or not hmac.compare_digest(expected, proof):
            raise SaslAuthenticationFailed("the server does not hold this cluster's secret")
        return _proof(self._secret, b"client", self.nonce, server_nonce)
