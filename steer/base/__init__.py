"""Small things that every room needs: errors, files, YAML with line numbers, paths of shipped files, the version."""
