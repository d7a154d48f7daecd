"""nnsight without `.save` on every object of the process.

At import it writes a method of that name into `object` itself. Who imported nnsight before may use it and keeps it;
otherwise it is taken out again at once (`nnsight.save(x)` does the same), so that steer changes nothing of others.
It can only be kept from doing so by a settings file, which is the user's.
"""

from __future__ import annotations

import sys

theirs = "nnsight" in sys.modules

from nnsight import NNsight  # noqa: E402
from nnsight._c import unmount  # noqa: E402

__all__ = ["NNsight"]

if not theirs and hasattr(object, "save"):
    unmount("save")
