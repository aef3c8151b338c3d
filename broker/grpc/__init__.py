"""The gRPC edge: servicers, and what stands before them. Importing it tunes the process first."""

from pylog.rpc.channel import tune_process

tune_process()
