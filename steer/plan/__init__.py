"""An experiment as data, between recipe and engine."""
