"""Controller and gateway: `python -m pylog_broker.head`, or `Head` in someone else's process."""
