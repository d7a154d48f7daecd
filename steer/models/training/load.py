"""Training protocols by name (shipped) or by file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from steer.base.errors import ConfigError, unknown
from steer.base.shipped import DEFAULT_TASK, PRESETS, preset_names
from steer.base.yaml import Document, check, override, read
from steer.models.training.protocol import Protocol, protocol_for
from steer.tasks import TASKS


def load_protocol(preset: str | None, config: Path | None, changes: Sequence[str]) -> Protocol:
    """The protocol that a preset or a file states, with `key=value` changes applied."""
    document = override(_document(preset, config), changes)
    named = document.data.get("task", DEFAULT_TASK) if isinstance(document.data, dict) else DEFAULT_TASK
    return check(document, protocol_for(TASKS[str(named)]))


def _document(preset: str | None, config: Path | None) -> Document:
    if preset is not None and config is not None:
        raise ConfigError("give --preset or --config, not both")
    if config is not None:
        return read(config)
    if preset is None:
        raise ConfigError(
            f"which protocol? give --preset with one of {', '.join(preset_names())}, or --config with a file"
        )
    if preset not in preset_names():
        raise ConfigError(unknown("preset", preset, preset_names()))
    return read(PRESETS / f"{preset}.yaml")
