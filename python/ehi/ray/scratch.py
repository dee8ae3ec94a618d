"""Folders for work under way on the local disk. One whose process was killed is removed by a later one.

Each has a file next to it that its process holds locked: a lock goes with its process, however that ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pathlib
import re
import shutil
import stat
import tempfile
import uuid
from collections.abc import Iterator

from .basics import StorageError

_LOCK = ".lock"
# Names given here; nothing else is removed.
_OWN = re.compile(rf"[a-z]+-[0-9a-f]{{32}}{re.escape(_LOCK)}")


def home_of(parent: str | os.PathLike[str] | None = None) -> pathlib.Path:
    """Where the folders of this user are, below `parent` or in the system's place for temporary files."""
    return pathlib.Path(parent or tempfile.gettempdir()).absolute() / f"ehi-scratch-{os.getuid()}"


def _check_own(home: pathlib.Path) -> None:
    """Refuses a folder that somebody else has made, and a link: what is in it would be removed, or be read by
    others.
    """
    found = home.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise StorageError(f"{home} is not a folder of this user; remove it, or give another place for work")
    if stat.S_IMODE(found.st_mode) != 0o700:
        home.chmod(0o700)


@contextlib.contextmanager
def work_folder(
    kind: str, parent: str | os.PathLike[str] | None = None, own: bool = True
) -> Iterator[pathlib.Path]:
    """A folder for work, below `parent` or in the system's directory for temporary files, removed at the end.
    With `own` false, for a place that several machines write to, folders that others have left are not removed.
    """
    home = home_of(parent)
    home.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        home.mkdir(mode=0o700)
    if own:
        sweep(parent)
    while True:
        path = home / f"{kind}-{uuid.uuid4().hex}"
        lock = path.with_suffix(_LOCK)
        handle = os.open(lock, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(handle, fcntl.LOCK_EX)
        if lock.exists():
            break
        # Another process took it for an abandoned one before it was locked.
        os.close(handle)
    try:
        path.mkdir()
        yield path
    finally:
        _remove(path, handle)


def sweep(parent: str | os.PathLike[str] | None = None, own: bool = True) -> list[str]:
    """Removes the folders that killed processes have left; their names."""
    removed = []
    home = home_of(parent)
    if own and os.path.lexists(home):
        _check_own(home)
    for lock in home.glob(f"*{_LOCK}"):
        if not _OWN.fullmatch(lock.name):
            continue
        try:
            handle = os.open(lock, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            # Gone, or not a file of ours.
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
    # While locked, so that no other process takes it.
    folder.with_suffix(_LOCK).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        os.close(handle)
