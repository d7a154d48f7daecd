"""Recipes: from a file, checked against its schema, to a plan."""
