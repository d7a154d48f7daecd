"""What stands in a JSON or YAML file: before a schema has read it, or once it is to be written."""

from __future__ import annotations

from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]  # an object: whatever a file's author put there
