"""Shards on the local disk: fetched on use, checked, and evicted by least use within a budget."""

import hashlib
import json
import os
import pathlib
import shutil
import uuid

import ehi

from . import changes, shard
from .errors import ShardError
from .storage import download_folder

FOLDER = "shards"
_INDEX = "index"
# Its time is that of the last use.
_USED = "used"


class Cache:
    """A folder of fetched shards. Several processes may share it; `budget` bytes are kept at most."""

    def __init__(self, root, budget=None):
        self.root = pathlib.Path(root)
        self.budget = budget
        (self.root / FOLDER).mkdir(parents=True, exist_ok=True)

    def path_of(self, storage, entry, tombstones):
        """The folder of a shard's index without what was deleted, fetched if it is not there.

        `ShardError` where it is not what the manifest says.
        """
        name = f"{entry['key']}-{entry['attempt']}"
        base = self._made(name, entry["bytes"], lambda folder: self._fetch(storage, entry, folder))
        ids = changes.deleted_from(storage, entry, tombstones)
        if not ids:
            return base
        present = _present(base, ids)
        if not present:
            return base
        digest = hashlib.sha256(json.dumps(sorted(present)).encode()).hexdigest()[:16]

        def without(folder):
            # It shares the files that never change.
            index = ehi.Index.open_read_only(base)
            index.snapshot(folder)
            del index
            with ehi.Index.open(folder) as copy:
                copy.delete(present)

        return self._made(f"{name}-{digest}", 0, without)

    def _made(self, name, size, make):
        folder = self.root / FOLDER / name
        if not (folder / _USED).exists():
            self._make_room(size)
            staged = folder.parent / f".{name}-{uuid.uuid4().hex}"
            staged.mkdir()
            try:
                make(staged / _INDEX)
                (staged / _USED).touch()
                try:
                    staged.rename(folder)
                except OSError:
                    # Another thread or process was first, unless something else is wrong.
                    if not (folder / _USED).exists():
                        raise
            finally:
                shutil.rmtree(staged, ignore_errors=True)
        try:
            os.utime(folder / _USED)
        except FileNotFoundError:
            pass
        return folder / _INDEX

    def _fetch(self, storage, entry, folder):
        folder.mkdir()
        wrong = download_folder(storage, shard.files_prefix(entry), entry["files"], folder)
        if wrong:
            raise ShardError(entry["key"], wrong)

    def _make_room(self, size):
        if self.budget is None:
            return
        found = []
        for folder in (self.root / FOLDER).iterdir():
            try:
                used = (folder / _USED).stat().st_mtime
                taken = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
            except FileNotFoundError:
                continue
            if not folder.name.startswith("."):
                found.append((used, taken, folder))
        total = sum(taken for _, taken, _ in found)
        for _, taken, folder in sorted(found):
            if total + size <= self.budget:
                break
            # Files that are mapped stay readable for those who have them open.
            gone = folder.with_name(f".{folder.name}-{uuid.uuid4().hex}")
            try:
                folder.rename(gone)
            except OSError:
                continue
            shutil.rmtree(gone, ignore_errors=True)
            total -= taken


def _present(path, ids):
    index = ehi.Index.open_read_only(path)
    return [id for id in ids if id in index]
