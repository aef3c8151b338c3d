"""One broker process: `python -m pylog_broker.node`, or `run_broker` inside someone else's process.
Importing it tunes the process first.
"""

from pylog.rpc.channel import tune_process

tune_process()
