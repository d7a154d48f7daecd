"""The parts of a model, by name."""
