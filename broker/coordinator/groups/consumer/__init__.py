"""The consumer protocol (KIP-848): one heartbeat, epochs, and targets that the broker computes."""
