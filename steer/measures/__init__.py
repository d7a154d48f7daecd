"""Measures: arrays and tensors in, numbers with intervals out."""
