"""Weights trained elsewhere, read as data and put where the plain model has them."""
