"""All logs of a broker: start, upkeep, failures, stop."""
