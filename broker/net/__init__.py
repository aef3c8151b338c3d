"""Who may connect to a process: how many at a time, from one address, in a second."""
