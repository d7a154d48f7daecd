"""The kinds of experiments, a file each: what a recipe of this kind means."""
