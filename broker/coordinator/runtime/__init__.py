"""What all coordinators share: shards of an internal topic, loaded, led, written and unloaded."""
