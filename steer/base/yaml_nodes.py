"""A YAML text as nodes with their places: scanned by libyaml where it is there, which takes a sixth of the time."""

from __future__ import annotations

import yaml
from yaml.composer import Composer
from yaml.constructor import SafeConstructor
from yaml.resolver import Resolver

try:
    from yaml.cyaml import CParser  # type: ignore[attr-defined]
except ImportError:  # PyYAML without libyaml

    class Fast(yaml.SafeLoader):
        pass

else:

    class Fast(Composer, CParser, SafeConstructor, Resolver):  # type: ignore[no-redef]
        """Nodes are put together in Python: libyaml's own recursion has no limit but the stack's."""

        def __init__(self, text: str) -> None:
            CParser.__init__(self, text)
            Composer.__init__(self)
            SafeConstructor.__init__(self)
            Resolver.__init__(self)


def compose(text: str) -> tuple[SafeConstructor, yaml.Node | None]:
    """The document's node, none if it is empty, and what makes values of nodes. Faults are told by PyYAML itself."""
    try:
        fast = Fast(text)
        return fast, fast.get_single_node()
    except (yaml.YAMLError, UnicodeError):
        slow = yaml.SafeLoader(text)
        return slow, slow.get_single_node()
