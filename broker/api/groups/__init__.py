"""What members of groups, and whoever looks after groups, ask of a broker."""
