"""Shards on the local disk: fetched on use, checked, and evicted by least use within a budget."""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import threading
import uuid
from collections.abc import Callable, Sequence
from typing import TypeVar

import ehi

from . import changes, models, shard
from .errors import ShardError
from .names import Json, Uri
from .scratch import Scratch
from .storage import Storage, download_folder

FOLDER = "shards"
# How often a shard is fetched for one opening.
ATTEMPTS = 5
_INDEX = "index"
# Its time is that of the last use.
_USED = "used"

T = TypeVar("T")


class Cache:
    """A folder of fetched shards. Several processes may share it; `budget` bytes are kept at most.

    The budget is for the shards' own files, and for those that one process fetches.
    """

    def __init__(self, root: Uri, budget: int | None = None, model: Uri | None = None) -> None:
        self.root = pathlib.Path(root)
        self.budget = budget
        self._model = model
        self._reserved: dict[str, int] = {}
        self._evicting = threading.Lock()
        self._tombstones: dict[str, list[str]] = {}
        self._reading = threading.Lock()
        (self.root / FOLDER).mkdir(parents=True, exist_ok=True)

    def opened(
        self, storage: Storage, entry: Json, tombstones: Sequence[Json], open: Callable[[pathlib.Path], T]
    ) -> T:
        """What `open` makes of the folder that `path_of` names; again where that has been evicted meanwhile."""
        for _ in range(ATTEMPTS - 1):
            try:
                return open(self.path_of(storage, entry, tombstones))
            except ShardError:
                raise
            except (ehi.Error, OSError):
                # By another thread or process that needed room, unless something else is wrong.
                continue
        return open(self.path_of(storage, entry, tombstones))

    def path_of(self, storage: Storage, entry: Json, tombstones: Sequence[Json]) -> pathlib.Path:
        """The folder of a shard's index without what was deleted, fetched if it is not there.

        `ShardError` where it is not what the manifest says.
        """
        name = f"{entry['key']}-{entry['attempt']}"
        base = self._made(name, entry["bytes"], lambda folder: self._fetch(storage, entry, folder))
        ids = self._deleted_from(storage, entry, tombstones)
        if not ids:
            return base
        present = _present(base, ids)
        if not present:
            return base
        digest = hashlib.sha256(json.dumps(sorted(present)).encode()).hexdigest()[:16]

        def without(folder: pathlib.Path) -> None:
            # It shares the files that never change.
            index = ehi.Index.open_read_only(base, lazy_encoder=True)
            index.snapshot(folder)
            del index
            with ehi.Index.open(folder, lazy_encoder=True) as copy:
                copy.delete(present)

        return self._made(f"{name}-{digest}", 0, without)

    def _deleted_from(self, storage: Storage, entry: Json, tombstones: Sequence[Json]) -> list[str]:
        """Ids that were deleted since a shard was added; each file is read once for all shards."""
        with self._reading:
            own = {file["name"] for file in tombstones}
            known = {name: ids for name, ids in self._tombstones.items() if name in own}
            for file in tombstones:
                if file["name"] not in known:
                    known[file["name"]] = changes.read(storage, file)
            self._tombstones = known
        since = (known[file["name"]] for file in tombstones if entry["added"] < file["before"])
        return sorted(set().union(*since))

    def _made(self, name: str, size: int, make: Callable[[pathlib.Path], object]) -> pathlib.Path:
        folder = self.root / FOLDER / name
        if not (folder / _USED).exists():
            attempt = uuid.uuid4().hex
            self._make_room(attempt, size)
            try:
                with Scratch("shard", self.root) as own:
                    staged = own / "shard"
                    staged.mkdir()
                    make(staged / _INDEX)
                    (staged / _USED).write_text(str(size))
                    try:
                        staged.rename(folder)
                    except OSError:
                        # Another thread or process was first, unless something else is wrong.
                        if not (folder / _USED).exists():
                            raise
            finally:
                with self._evicting:
                    self._reserved.pop(attempt, None)
        try:
            os.utime(folder / _USED)
        except FileNotFoundError:
            pass
        return folder / _INDEX

    def _fetch(self, storage: Storage, entry: Json, folder: pathlib.Path) -> None:
        folder.mkdir()
        model = self._model or models.folder_of(self.root, entry["model"])
        wrong = download_folder(storage, shard.files_prefix(entry), entry["files"], folder, model)
        if wrong:
            raise ShardError(entry["key"], wrong)

    def _make_room(self, name: str, size: int) -> None:
        if self.budget is None:
            return
        with self._evicting:
            self._evict(size, self.budget)
            self._reserved[name] = size

    def _evict(self, size: int, budget: int) -> None:
        found = []
        for folder in (self.root / FOLDER).iterdir():
            try:
                used = (folder / _USED).stat().st_mtime
                found.append((used, int((folder / _USED).read_text() or 0), folder))
            except FileNotFoundError:
                continue
        total = sum(taken for _, taken, _ in found) + sum(self._reserved.values())
        for _, taken, folder in sorted(found):
            if total + size <= budget:
                break
            # Files that are mapped stay readable for those who have them open.
            with Scratch("evicted", self.root) as gone:
                try:
                    folder.rename(gone / "shard")
                except OSError:
                    continue
            total -= taken


def _present(path: pathlib.Path, ids: Sequence[str]) -> list[str]:
    index = ehi.Index.open_read_only(path, lazy_encoder=True)
    return [id for id in ids if id in index]
