"""The beginning of a broker's session with its controller: two calls, then a proof for each
call."""

from __future__ import annotations

import secrets
from typing import Any

from pylog.rpc.v1 import cluster_pb2
from pylog_broker.net.cluster_proof import NONCE_BYTES, BrokerSession


class Handshake:
    """The two requests, for a channel of either kind."""

    def __init__(self, secret: bytes) -> None:
        self.session = BrokerSession(secret, secrets.token_bytes(NONCE_BYTES))
        self.first = cluster_pb2.AuthenticateRequest(client_nonce=self.session.nonce)

    def second(self, answer: Any) -> cluster_pb2.AuthenticateRequest:
        """The second request, out of the answer to the first; ClusterAuthorizationFailed when the
        controller is none of this cluster.
        """
        return cluster_pb2.AuthenticateRequest(
            client_nonce=self.session.nonce,
            server_nonce=answer.server_nonce,
            proof=self.session.on_challenge(answer.server_nonce, answer.proof),
        )
