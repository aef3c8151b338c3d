"""Brokers prove to the controller, and it to them, that they hold the cluster's secret; over gRPC,
where a connection is nothing that a call could lean on.

    broker -> controller   client nonce (32 bytes)
    controller -> broker   server nonce (32), HMAC(secret, "server" | client nonce | server nonce)
    broker -> controller   both nonces, HMAC(secret, "client" | client nonce | server nonce)

That begins a session. Its key is HMAC(secret, "key" | client nonce | server nonce), which neither
side says. Each call then carries the session's name (the server nonce), a number that counts up,
and HMAC(key, method | number). The secret never travels. Somebody who only listens learns nothing
that is of use later: a number is taken once, a proof is for one method, and without the secret
nobody begins a session. Somebody who can change what passes is not kept out: that takes TLS. The
request of a call is not part of its proof.

The controller remembers nothing of a first step: the server nonce holds the time and a tag by which
it knows its own. Pure: nonces and times are arguments.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field
from struct import Struct
from typing import Final

from pylog.errors import ClusterAuthorizationFailed

NONCE_BYTES: Final = 32
CHALLENGE_MS_MAX: Final = 10_000
"""From the first step to the second."""
SESSIONS_MAX: Final = 1_000
"""A broker has one for its calls, one for its lease, and one for each stream that it opened."""
WINDOW: Final = 1_024
"""Calls run at the same time: so many numbers may come out of order."""
METADATA_KEY: Final = "pylog-cluster-proof"

_ISSUED: Final = Struct(">Q")


def _mac(key: bytes, role: bytes, *parts: bytes) -> bytes:
    message = b"pylog cluster " + role + b"\0" + b"".join(parts)
    return hmac.new(key, message, hashlib.sha256).digest()


def _call_mac(key: bytes, method: str, number: int) -> bytes:
    return _mac(key, b"call", method.encode(), b"\0", str(number).encode())


@dataclass(slots=True)
class _Session:
    """The controller's knowledge of one. `taken` holds the numbers above `highest - WINDOW`."""

    key: bytes
    issued_ms: int
    highest: int = 0
    taken: set[int] = field(default_factory=set)

    def take(self, number: int) -> bool:
        """Whether the number is new; it is not, from now on."""
        if number <= self.highest - WINDOW or number in self.taken:
            return False
        self.taken.add(number)
        if number > self.highest:
            self.highest = number
            if len(self.taken) > 2 * WINDOW:
                self.taken = {kept for kept in self.taken if kept > number - WINDOW}
        return True


class ClusterSessions:
    """The controller's side."""

    def __init__(self, secret: bytes, nonce_key: bytes) -> None:
        """`nonce_key`: random bytes of this life of the controller."""
        self._secret = secret
        self._nonce_key = nonce_key
        self._sessions: dict[str, _Session] = {}  # the one used last is the last
        self._forgotten_ms = -1  # sessions begun until then may not begin again

    def challenge(self, now_ms: int, client_nonce: bytes) -> tuple[bytes, bytes]:
        """The server nonce and the controller's proof; raises ClusterAuthorizationFailed."""
        _check_nonce(client_nonce)
        server_nonce = self._nonce(now_ms, client_nonce)
        return server_nonce, _mac(self._secret, b"server", client_nonce, server_nonce)

    def _nonce(self, issued_ms: int, client_nonce: bytes) -> bytes:
        issued = _ISSUED.pack(issued_ms)
        tag = _mac(self._nonce_key, b"nonce", issued, client_nonce)
        return issued + tag[: NONCE_BYTES - len(issued)]

    def begin(self, now_ms: int, client_nonce: bytes, server_nonce: bytes, proof: bytes) -> None:
        """The second step; raises ClusterAuthorizationFailed. Said again, it changes nothing."""
        _check_nonce(client_nonce)
        _check_nonce(server_nonce)
        (issued_ms,) = _ISSUED.unpack_from(server_nonce)
        known = hmac.compare_digest(self._nonce(issued_ms, client_nonce), server_nonce)
        late = now_ms - issued_ms > CHALLENGE_MS_MAX or issued_ms <= self._forgotten_ms
        expected = _mac(self._secret, b"client", client_nonce, server_nonce)
        if not hmac.compare_digest(expected, proof):
            raise ClusterAuthorizationFailed("the caller does not hold this cluster's secret")
        if not known or late:
            raise ClusterAuthorizationFailed("the challenge is not of this controller, or too old")
        name = server_nonce.hex()
        if name in self._sessions:
            return
        if len(self._sessions) >= SESSIONS_MAX:
            oldest = self._sessions.pop(next(iter(self._sessions)))
            self._forgotten_ms = max(self._forgotten_ms, oldest.issued_ms)
        key = _mac(self._secret, b"key", client_nonce, server_nonce)
        self._sessions[name] = _Session(key, issued_ms)

    def check(self, method: str, said: str) -> None:
        """Take a call's proof, which is good for once; raises ClusterAuthorizationFailed."""
        name, _, rest = said.partition(".")
        number, _, proof = rest.partition(".")
        session = self._sessions.get(name)
        if session is None:
            raise ClusterAuthorizationFailed(
                "this service is for brokers, which prove themselves by the cluster's secret"
            )
        if not (number.isascii() and number.isdigit() and len(number) <= 18):
            raise ClusterAuthorizationFailed("the call has no number")
        expected = _call_mac(session.key, method, int(number)).hex()
        if not proof.isascii() or not hmac.compare_digest(expected, proof):
            raise ClusterAuthorizationFailed("the proof is not that of this call")
        if not session.take(int(number)):
            raise ClusterAuthorizationFailed("the call was made before")
        self._sessions[name] = self._sessions.pop(name)


def _check_nonce(nonce: bytes) -> None:
    if len(nonce) != NONCE_BYTES:
        raise ClusterAuthorizationFailed(f"the nonce has {len(nonce)} bytes, not {NONCE_BYTES}")


class BrokerSession:
    """The broker's side of one session."""

    def __init__(self, secret: bytes, nonce: bytes) -> None:
        assert len(nonce) == NONCE_BYTES
        self.nonce = nonce
        self._secret = secret
        self._name = ""
        self._key = b""
        self._number = 0

    def on_challenge(self, server_nonce: bytes, proof: bytes) -> bytes:
        """The proof that answers the controller's; ClusterAuthorizationFailed when it is an
        impostor.
        """
        expected = _mac(self._secret, b"server", self.nonce, server_nonce)
        if len(server_nonce) != NONCE_BYTES or not hmac.compare_digest(expected, proof):
            raise ClusterAuthorizationFailed("the controller does not hold this cluster's secret")
        self._name = server_nonce.hex()
        self._key = _mac(self._secret, b"key", self.nonce, server_nonce)
        return _mac(self._secret, b"client", self.nonce, server_nonce)

    def metadata(self, method: str) -> tuple[tuple[str, str], ...]:
        """The proof that the next call of this method carries; for one call."""
        self._number += 1
        proof = _call_mac(self._key, method, self._number).hex()
        return ((METADATA_KEY, f"{self._name}.{self._number}.{proof}"),)
