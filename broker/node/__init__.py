"""One broker process: `python -m broker.node`, or `run_broker` inside someone else's process."""
