from __future__ import annotations

import pytest


@pytest.fixture
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients believe after a tenth of a second that a topic does not exist, not after three, and
    that a broker is away.
    """
    for module in ("admin.admin", "cluster.denials", "consumer.poll_waiting"):
        monkeypatch.setattr(f"pylog.client.{module}.UNKNOWN_TOPIC_GRACE_MS", 100)
    monkeypatch.setattr("pylog.client.admin.broker_admin.UNKNOWN_BROKER_GRACE_MS", 100)
