"""Families of Hugging Face models: a row of data each, and steps of our own over the model's own submodules."""
