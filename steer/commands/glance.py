"""What makes a quick look quick: one thread, and no collector that walks through the libraries while they load."""

from __future__ import annotations

import gc
import os


def at_a_glance() -> None:
    """For a process that shows one episode and ends: most of its time is the loading of libraries."""
    gc.disable()  # of all that they make there is nothing to free
    if "OMP_NUM_THREADS" not in os.environ:  # unless whoever started the program chose how many
        import torch

        torch.set_num_threads(1)  # a second one would only wait, and waiting takes processor time too
