"""The engine runs plans. Only its `backends/` import nnsight."""
