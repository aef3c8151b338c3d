"""The clients for asyncio."""

from __future__ import annotations

from pylog.client.async_consumer import AsyncConsumer

__all__ = ["AsyncConsumer"]
