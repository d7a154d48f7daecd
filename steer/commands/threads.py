"""One thread for one episode: a second one would only wait, and waiting takes processor time too."""

from __future__ import annotations

import os


def use_one_thread() -> None:
    """Unless whoever started the program chose how many."""
    if "OMP_NUM_THREADS" not in os.environ:
        import torch

        torch.set_num_threads(1)
