"""Results of experiments as typed data: rows and intervals, and results and circuits on disk."""
