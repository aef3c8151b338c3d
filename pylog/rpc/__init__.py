"""The gRPC contract: generated messages and stubs, channels and their tuning."""
