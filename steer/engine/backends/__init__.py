"""How a forward pass is run. The only room that imports nnsight."""
