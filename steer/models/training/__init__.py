"""Training: the protocol as data, and the loop that runs it."""
