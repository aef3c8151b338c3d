"""Connections leave descriptors to logs, whatever a process may have open."""

from __future__ import annotations

import pytest

from pylog.config import INT_MAX
from pylog_broker.net.shares import (
    FRONT_DESCRIPTORS,
    BrokerShares,
    files_kept_for_logs,
    gateway_connections_max,
    last_descriptor,
)
from pylog_broker.node.limits import FILES_MIN


@pytest.mark.parametrize("files", [FILES_MIN, 1_024, 4_096, 65_536, 1 << 20, 1 << 62])
def test_all_listeners_together_leave_half_to_logs(files: int) -> None:
    shares = BrokerShares.of(files, INT_MAX)
    together = shares.streams + shares.grpc + shares.replication + shares.unproven
    assert together <= files - files_kept_for_logs(files)
    assert min(shares.streams, shares.grpc, shares.replication, shares.unproven) >= 16
    assert gateway_connections_max(files, INT_MAX) * FRONT_DESCRIPTORS <= files // 2
    assert files_kept_for_logs(files) < last_descriptor(files) < files


def test_the_numbers_of_usual_limits() -> None:
    assert BrokerShares.of(1_024, INT_MAX) == BrokerShares(176, 176, 128, 32)
    assert BrokerShares.of(1 << 20, INT_MAX) == BrokerShares(10_000, 10_000, 1_000, 64)
    assert gateway_connections_max(1_024, INT_MAX) == 170


def test_the_setting_lowers_what_clients_have_and_not_what_brokers_have() -> None:
    assert BrokerShares.of(1_024, 5) == BrokerShares(5, 5, 128, 32)
    assert gateway_connections_max(1 << 20, 7) == 7
