"""Automatic search: from a checkpoint to a circuit with named roles, checked on other examples."""
