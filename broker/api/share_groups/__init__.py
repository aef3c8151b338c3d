"""What members of share groups, and whoever looks after share groups, ask."""
