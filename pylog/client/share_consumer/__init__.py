"""`ShareConsumer`, and its twin for asyncio."""
