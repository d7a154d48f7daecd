"""What a model is made of, by name."""
