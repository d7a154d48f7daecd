"""Whole experiments: one recipe, many recipes, one prompt, one component."""
