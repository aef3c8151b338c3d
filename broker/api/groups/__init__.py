"""The requests that group members and administrators of groups send to a broker."""
