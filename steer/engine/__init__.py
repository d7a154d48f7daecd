"""The engine runs plans. The only room that imports nnsight (`tracing`)."""
