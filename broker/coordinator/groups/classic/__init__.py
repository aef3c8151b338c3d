"""The classic protocol: join, sync, heartbeat, leave, and generations."""
