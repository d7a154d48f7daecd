"""Files written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from steer.errors import SteerError


def write_atomically(path: Path, content: bytes | str) -> None:
    """Write beside the target and move into place, so that a reader (or a crash) never sees half a file."""
    data = content.encode() if isinstance(content, str) else content
    make_folder(path.parent)
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            Path(name).chmod(0o666 & ~_umask())  # mkstemp makes private files; results are for sharing
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise SteerError(f"cannot write {path}: {error.strerror or error}") from error


def is_there(name: Path | str) -> bool:
    """Is there a file or folder of this name? (A text far too long for a name is none, and no error.)"""
    try:
        return Path(name).exists()
    except (OSError, ValueError):
        return False


def make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SteerError(f"cannot make the folder {path}: {error.strerror or error}") from error


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
