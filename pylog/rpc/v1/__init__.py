"""Generated from proto/pylog/rpc/v1 by `make proto`; do not edit."""
