"""The clients for asyncio: the same names and settings, with `async` where the others block."""

from __future__ import annotations

from pylog.client.admin.async_admin import AsyncAdminClient
from pylog.client.consumer.async_consumer import AsyncConsumer
from pylog.client.producer.async_producer import AsyncDelivery, AsyncProducer
from pylog.client.share_consumer.async_share_consumer import AsyncShareConsumer

__all__ = [
    "AsyncAdminClient",
    "AsyncConsumer",
    "AsyncDelivery",
    "AsyncProducer",
    "AsyncShareConsumer",
]
