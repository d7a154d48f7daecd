"""Files, read and written whole or not at all."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from steer.base.errors import SteerError


@contextmanager
def open_file(path: Path, kind: type[SteerError] = SteerError) -> Iterator[BinaryIO]:
    """A regular file to read from. A pipe or a device is refused, not waited for."""
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise OSError(0, "not a regular file")
        with os.fdopen(handle, "rb") as file:
            yield file
    except (OSError, ValueError) as error:  # ValueError: no file can have such a name
        raise kind(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error})") from error


def read_file(path: Path, most: int, kind: type[SteerError] = SteerError) -> bytes:
    """The bytes of a regular file; an error if there are more than `most`."""
    with open_file(path, kind) as file:
        if os.fstat(file.fileno()).st_size > most:
            raise kind(f"{path}: larger than {most // 1000:,} kB, which no file of this kind needs")
        return file.read()


def read_text(path: Path, most: int, kind: type[SteerError] = SteerError) -> str:
    try:
        return read_file(path, most, kind).decode()
    except UnicodeDecodeError as error:
        raise kind(f"{path}: cannot be read (byte {error.start + 1} is not UTF-8)") from error


def write_atomically(path: Path, content: bytes | str) -> None:
    """Write beside the target and move into place, so that a reader (or a crash) never sees half a file."""
    data = content.encode() if isinstance(content, str) else content
    make_folder(path.parent)
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name[:100]}.", dir=path.parent)
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
    """Does a file or folder of this name exist? An overlong name counts as missing; it does not raise."""
    try:
        return Path(name).exists()
    except (OSError, ValueError):
        return False


def stamp(path: Path) -> tuple[int, ...]:
    """Another one whenever the file has been written again; empty if there is no such file."""
    try:
        about = path.stat()
    except (OSError, ValueError):
        return ()
    return about.st_dev, about.st_ino, about.st_mtime_ns, about.st_size


def check_folder(path: Path) -> None:
    """Raise unless this folder exists or can be made. Makes nothing: a check before long work that ends there."""
    there = path
    while not is_there(there) and there != there.parent:
        there = there.parent
    if not there.is_dir():
        raise SteerError(f"cannot make the folder {path}: {there} is a file")
    if not os.access(there, os.W_OK | os.X_OK):
        raise SteerError(f"cannot make the folder {path}: {there} is not writable")


def make_folder(path: Path) -> None:
    try:
        check_folder(path)
        path.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        raise SteerError(f"cannot make the folder {path}: {getattr(error, 'strerror', None) or error}") from error


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
