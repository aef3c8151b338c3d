"""The origin of a call."""

from __future__ import annotations

from typing import Any, cast

import pytest

from pylog_broker.grpc.peers import LISTENER, context_of


class _Call:
    def __init__(self, peer: str) -> None:
        self._peer = peer

    def peer(self) -> str:
        return self._peer


@pytest.mark.parametrize(
    ("peer", "address", "connection"),
    [
        ("ipv4:10.0.0.1:5000", "10.0.0.1", "10.0.0.1:5000"),
        ("ipv6:%5B::1%5D:5000", "::1", "[::1]:5000"),
        ("ipv6:[2001:db8::6]:5000", "2001:db8::6", "[2001:db8::6]:5000"),
        ("ipv6:%5Bfe80::1%25eth0%5D:5000", "fe80::1%eth0", "[fe80::1%eth0]:5000"),
        ("unix:/tmp/socket", "unix:/tmp/socket", "unix:/tmp/socket"),
        ("", "", ""),
    ],
)
def test_a_peer_as_grpc_names_it(peer: str, address: str, connection: str) -> None:
    found = context_of(cast(Any, _Call(peer)), "me")
    assert (found.address, found.connection) == (address, connection)
    assert (found.listener, found.client_id) == (LISTENER, "me")


def test_a_long_client_id_is_cut() -> None:
    assert len(context_of(cast(Any, _Call("ipv4:10.0.0.1:5000")), "x" * 1_000).client_id) == 255
