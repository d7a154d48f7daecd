"""What was found, as data: rows, intervals, results and circuits on disk."""
