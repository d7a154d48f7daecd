"""Small things that every room needs: errors, files, placed YAML, shipped paths, versions."""
