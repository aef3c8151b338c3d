"""Controller and gateway: `python -m broker.head`, or `Head` inside someone else's process."""
