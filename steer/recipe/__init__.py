"""Recipes: what a file may say, and the plan that it means."""
