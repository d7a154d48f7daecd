"""The findings of experiments, as data: rows, intervals, results and circuits on disk."""
