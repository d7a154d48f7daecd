"""nnsight without `.save` on every object of the process.

When it is imported, nnsight adds this method to `object` itself. A program that imported nnsight before steer may use
the method, and keeps it. Otherwise the method is removed at once (`nnsight.save(x)` does the same), so that importing
steer does not change other code. nnsight can only be configured otherwise in a settings file, which is the user's.
"""

from __future__ import annotations

import sys

theirs = "nnsight" in sys.modules

from nnsight import NNsight  # noqa: E402
from nnsight._c import unmount  # noqa: E402

__all__ = ["NNsight"]

if not theirs and hasattr(object, "save"):
    unmount("save")
