"""How a forward pass is run. Only this folder imports nnsight."""
