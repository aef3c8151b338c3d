"""The first look at the cluster, which kafka-python's constructors wait for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pylog.client.admin.admin import AdminClient
from pylog.compat.kafka_python import settings


def admin_of(given: Mapping[str, Any]) -> AdminClient:
    """An admin client that has found the cluster; BootstrapFailed after `bootstrap_timeout_ms`."""
    wait_s = settings.bootstrap_timeout_s(given)
    admin = AdminClient(
        **settings.common(given, settings.ADMIN), bootstrap_timeout_ms=max(int(wait_s * 1000), 1)
    )
    try:
        admin.describe_cluster(timeout=wait_s)
    except BaseException:
        admin.close()
        raise
    return admin
