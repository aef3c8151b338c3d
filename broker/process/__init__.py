"""The parts of every process of a cluster, whether it runs a broker or the controller: arguments
and signals, addresses, limits of connections, questions to its machine. Importing it tunes the
process first.
"""

from pylog.rpc.channel import tune_process

tune_process()
