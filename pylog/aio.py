"""The clients for asyncio: the same names and settings, with `async` where the others block."""

from __future__ import annotations

from pylog.client.async_admin import AsyncAdminClient
from pylog.client.async_consumer import AsyncConsumer
from pylog.client.async_producer import AsyncDelivery, AsyncProducer

__all__ = ["AsyncAdminClient", "AsyncConsumer", "AsyncDelivery", "AsyncProducer"]
