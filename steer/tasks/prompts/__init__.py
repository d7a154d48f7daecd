"""Prompts that users bring: text in a file, cut into tokens by the model that is studied."""
