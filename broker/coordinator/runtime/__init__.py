"""The runtime that all coordinators share: shards of an internal topic, loaded, led, written and
unloaded."""
