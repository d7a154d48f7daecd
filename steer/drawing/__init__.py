"""Tables, pictures and pages from results."""
