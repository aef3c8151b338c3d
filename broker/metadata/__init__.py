"""The cluster's metadata as an event-sourced image: below all who make it and all who use it."""
