"""Tasks: examples, their counterparts, and what a model should look at."""
