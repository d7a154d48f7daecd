"""From a checkpoint to a named, verified circuit, with nobody's help."""
