"""Folders for work under way on the local disk. One whose process was killed is removed by a later one.

Each has a file beside it that its process holds locked: a lock goes with its process, however that ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pathlib
import shutil
import tempfile
import uuid
import weakref
from typing import Any

_LOCK = ".lock"


def home_of(parent: str | os.PathLike[str] | None = None) -> pathlib.Path:
    """Where the folders of this user are, below `parent` or in the system's place for temporary files."""
    return pathlib.Path(parent or tempfile.gettempdir()) / f"ehi-scratch-{os.getuid()}"


class Scratch:
    """A folder, `path`, that goes when it is closed, or with its process."""

    def __init__(self, kind: str, parent: str | os.PathLike[str] | None = None) -> None:
        home = home_of(parent)
        home.mkdir(parents=True, exist_ok=True)
        sweep(parent)
        while True:
            self.path = home / f"{kind}-{uuid.uuid4().hex}"
            lock = self.path.with_suffix(_LOCK)
            handle = os.open(lock, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
            fcntl.flock(handle, fcntl.LOCK_EX)
            if lock.exists():
                break
            # Another process took it for one that was left, before it was locked.
            os.close(handle)
        self.path.mkdir()
        self._close = weakref.finalize(self, _remove, self.path, handle)

    def close(self) -> None:
        """Safe to call twice."""
        self._close()

    def __enter__(self) -> pathlib.Path:
        return self.path

    def __exit__(self, *_: Any) -> None:
        self.close()


def sweep(parent: str | os.PathLike[str] | None = None) -> list[str]:
    """Removes the folders that killed processes have left; their names."""
    removed = []
    for lock in home_of(parent).glob(f"*{_LOCK}"):
        try:
            handle = os.open(lock, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            continue
        _remove(lock.with_suffix(""), handle)
        removed.append(lock.stem)
    return removed


def _remove(folder: pathlib.Path, handle: int) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    # While it is locked: nobody else takes it then.
    folder.with_suffix(_LOCK).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        os.close(handle)
