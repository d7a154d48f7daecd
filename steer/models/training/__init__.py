"""Training: the protocol as data, the batches it asks for, and the loop that runs it."""
