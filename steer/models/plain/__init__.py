"""The encoder-decoder of the paper, in plain PyTorch."""
