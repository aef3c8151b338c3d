"""Producer, consumer and admin client: pure cores (`sending`, `fetching`, `cluster.metadata`) and
the shells that carry out what the cores decide. Importing it tunes the process first.
"""

from pylog.rpc.channel import tune_process

tune_process()
