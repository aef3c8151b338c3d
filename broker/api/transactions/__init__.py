"""What transactional producers, and whoever looks after transactions, ask of a broker."""
