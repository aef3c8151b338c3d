"""The requests that transactional producers and administrators of transactions send to a broker."""
