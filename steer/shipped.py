"""Where the files that come with the package lie. No torch here: listing them must be quick."""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).parent
CHECKPOINTS, PRESETS = PACKAGE / "checkpoints", PACKAGE / "presets"
RECORD = "checkpoint.json"
DEFAULT = "tiny"  # the checkpoint that commands take when none is named


def checkpoint_records() -> list[Path]:
    return sorted(CHECKPOINTS.glob(f"*/{RECORD}"))


def checkpoint_names() -> list[str]:
    return [path.parent.name for path in checkpoint_records()]


def preset_files() -> list[Path]:
    return sorted(PRESETS.glob("*.yaml"))


def preset_names() -> list[str]:
    return [path.stem for path in preset_files()]
