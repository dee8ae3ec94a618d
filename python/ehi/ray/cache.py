"""Shards on the local disk: fetched on use, checked, and evicted by least use within a budget.

A folder is locked, by a lock that all share who are about to open it, until it is open: none that is locked
is evicted. It is locked before it has its name. Those who have its files mapped read on when it is evicted.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import pathlib
import shutil
import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

import ehi

from . import models, publishing, shard
from .basics import Json, Uri, digest_of
from .scratch import work_folder
from .storage import Storage, linked

FOLDER = "shards"

T = TypeVar("T")


class Cache:
    """A folder of fetched shards. Several processes may share it; `budget` bytes are kept at most, without
    those of models. Where all that is there is about to be opened, it is exceeded.
    """

    def __init__(self, root: Uri, budget: int | None = None) -> None:
        self.root = pathlib.Path(root).absolute()
        self.budget = budget
        self._evicting = threading.Lock()
        self._tombstones: dict[str, list[str]] = {}
        self._reading = threading.Lock()
        (self.root / FOLDER).mkdir(parents=True, exist_ok=True)

    def opened(
        self, storage: Storage, entry: Json, tombstones: Sequence[Json], open: Callable[[pathlib.Path], T]
    ) -> T:
        """What `open` makes of the folder of a shard's index without what was deleted, fetched if it is not
        there.

        `ShardError` where the shard is not what the manifest says.
        """
        name = _name_of(entry)
        ids = self._deleted_from(storage, entry, tombstones)

        def fetch(folder: pathlib.Path) -> None:
            shard.fetch(storage, entry, folder, models.folder_of(self.root, entry["model"]))

        def open_without(base: pathlib.Path) -> T:
            index = ehi.Index.open(base, lazy_encoder=True, read_only=True)
            present = [id for id in ids if id in index]
            del index
            if not present:
                return open(base)

            def copy(folder: pathlib.Path) -> None:
                for file in entry["files"]:
                    # No file of a model ever changes.
                    copied = linked if "same" in file else shutil.copyfile
                    (folder / file["name"]).parent.mkdir(parents=True, exist_ok=True)
                    copied(base / file["name"], folder / file["name"])
                with ehi.Index.open(folder, lazy_encoder=True) as index:
                    index.delete(present)

            # At most this much room, in addition to shared files.
            return self._kept(f"{name}-{digest_of(present)[:16]}", entry, copy, open)

        return self._kept(name, entry, fetch, open_without if ids else open)

    def drop(self, entry: Json) -> None:
        """Removes a shard, which is damaged, so that it is fetched when it is next used."""
        for folder in (self.root / FOLDER).glob(f"{_name_of(entry)}*"):
            self._remove(folder)

    def _deleted_from(self, storage: Storage, entry: Json, tombstones: Sequence[Json]) -> list[str]:
        """Ids that were deleted since a shard was added; each file is read once for all shards."""
        with self._reading:
            known = self._tombstones
            self._tombstones = {
                file["name"]: known.get(file["name"]) or publishing.read_tombstones(storage, file)
                for file in tombstones
            }
            later = publishing.later_tombstones(entry, tombstones)
            return sorted({id for file in later for id in self._tombstones[file["name"]]})

    def _kept(
        self,
        name: str,
        entry: Json,
        make: Callable[[pathlib.Path], object],
        open: Callable[[pathlib.Path], T],
    ) -> T:
        """What `open` makes of a folder of the cache, which is made where it is not there."""
        folder = self.root / FOLDER / name
        while True:
            held = _hold(folder) or self._make(folder, entry["bytes"], make)
            if held is not None:
                try:
                    return open(folder)
                finally:
                    os.close(held)

    def _make(self, folder: pathlib.Path, size: int, make: Callable[[pathlib.Path], object]) -> int | None:
        """The handle by which a new folder is held; `None` where another thread or process was first."""
        self._evict(size)
        with work_folder("shard", self.root) as own:
            make(own / "shard")
            held = _hold(own / "shard")
            try:
                (own / "shard").rename(folder)
            except OSError as error:
                if held is not None:
                    os.close(held)
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
                return None
        # Files fetched meanwhile by others count too.
        self._evict(0)
        return held

    def _evict(self, room: int) -> None:
        """Removes the shards that were not used for longest, so that there is room."""
        if self.budget is None:
            return
        with self._evicting:
            used: dict[pathlib.Path, int] = {}
            for folder in (self.root / FOLDER).iterdir():
                with contextlib.suppress(FileNotFoundError):
                    used[folder] = folder.stat().st_mtime_ns
            total = room
            for folder in sorted(used, key=lambda own: used[own], reverse=True):
                size = _bytes_of(folder)
                if total + size <= self.budget or not self._remove(folder, fcntl.LOCK_EX | fcntl.LOCK_NB):
                    total += size

    def _remove(self, folder: pathlib.Path, lock: int = fcntl.LOCK_UN) -> bool:
        """Whether a folder is removed, which it is not where it cannot be locked."""
        try:
            handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.flock(handle, lock)
            with work_folder("evicted", self.root) as gone:
                folder.rename(gone / "shard")
        except OSError:
            return False
        finally:
            os.close(handle)
        return True


def _name_of(entry: Json) -> str:
    return f"{entry['key']}-{entry['attempt']}"


def _hold(folder: pathlib.Path) -> int | None:
    """A handle that holds a shard's folder; `None` where there is none."""
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    fcntl.flock(handle, fcntl.LOCK_SH)
    # It may have been evicted before it was locked.
    with contextlib.suppress(FileNotFoundError):
        if os.path.samestat(os.fstat(handle), folder.stat()):
            os.utime(folder)
            return handle
    os.close(handle)
    return None


def _bytes_of(folder: pathlib.Path) -> int:
    """Bytes of a folder's own files, without those of a model, which are linked from elsewhere."""
    total = 0
    for own, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                status = os.stat(os.path.join(own, name))
                total += status.st_size if status.st_nlink == 1 else 0
    return total
