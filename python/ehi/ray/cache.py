"""Shards on the local disk: fetched on use, checked, and evicted by least use within a budget.

A folder that is about to be opened is held by a lock on its file `used`, shared by all who are; none that is
held is evicted. It is locked before it has its name, so that there is no moment in which it may go.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import pathlib
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import ehi

from . import changes, models, shard
from .errors import ShardError
from .names import Json, Uri
from .scratch import Scratch
from .storage import Storage, download_folder

FOLDER = "shards"
_INDEX = "index"
# Its time is that of the last use, in it are the bytes that the folder takes.
_USED = "used"

T = TypeVar("T")


class Cache:
    """A folder of fetched shards. Several processes may share it; `budget` bytes are kept at most.

    The budget is for what a shard takes beside the files that it shares, and for those that one process
    fetches. Where all that is there is about to be opened, it is exceeded.
    """

    def __init__(self, root: Uri, budget: int | None = None, model: Uri | None = None) -> None:
        self.root = pathlib.Path(root).absolute()
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
        """What `open` makes of the folder that `path_of` names, which is not evicted before."""
        with self._held(storage, entry, tombstones) as path:
            return open(path)

    def path_of(self, storage: Storage, entry: Json, tombstones: Sequence[Json]) -> pathlib.Path:
        """The folder of a shard's index without what was deleted, fetched if it is not there.

        `ShardError` where it is not what the manifest says. With a budget it may be evicted at once.
        """
        with self._held(storage, entry, tombstones) as path:
            return path

    def drop(self, entry: Json) -> None:
        """Removes a shard, which is damaged, so that it is fetched when it is next used."""
        for folder in (self.root / FOLDER).glob(f"{_name_of(entry)}*"):
            self._remove(folder)

    @contextlib.contextmanager
    def _held(
        self, storage: Storage, entry: Json, tombstones: Sequence[Json]
    ) -> Iterator[pathlib.Path]:
        name = _name_of(entry)
        with contextlib.ExitStack() as stack:
            base, held = self._made(name, entry["bytes"], lambda folder: self._fetch(storage, entry, folder))
            stack.callback(os.close, held)
            ids = self._deleted_from(storage, entry, tombstones)
            present = _present(base, ids) if ids else []
            if not present:
                yield base
                return
            digest = hashlib.sha256(json.dumps(sorted(present)).encode()).hexdigest()[:16]

            def without(folder: pathlib.Path) -> None:
                index = ehi.Index.open_read_only(base, lazy_encoder=True)
                index.snapshot(folder)
                del index
                _share_model(entry, base, folder)
                with ehi.Index.open(folder, lazy_encoder=True) as copy:
                    copy.delete(present)

            # As much room at most, beside files that it shares; how much is known when it is made.
            path, held = self._made(f"{name}-{digest}", entry["bytes"], without)
            stack.callback(os.close, held)
            yield path

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

    def _made(
        self, name: str, size: int, make: Callable[[pathlib.Path], object]
    ) -> tuple[pathlib.Path, int]:
        """An index of the cache, and the handle by which it is held; made where it is not there."""
        folder = self.root / FOLDER / name
        while True:
            held = _hold(folder)
            if held is not None:
                os.utime(held)
                return folder / _INDEX, held
            attempt = uuid.uuid4().hex
            self._make_room(attempt, size)
            try:
                with Scratch("shard", self.root) as own:
                    staged = own / "shard"
                    staged.mkdir()
                    make(staged / _INDEX)
                    (staged / _USED).write_text(str(_bytes_of(staged)))
                    held = _hold(staged)
                    try:
                        staged.rename(folder)
                        if held is not None:
                            return folder / _INDEX, held
                    except OSError as error:
                        # Another thread or process was first, unless something else is wrong.
                        if held is not None:
                            os.close(held)
                        # What was there may be evicted again by now.
                        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST) and not folder.exists():
                            raise
                        if _size_of(folder) is None and not self._remove(folder) and folder.exists():
                            # What is there is no shard, and cannot be replaced.
                            raise
            finally:
                with self._evicting:
                    self._reserved.pop(attempt, None)

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
        # A shard and its copies without what was deleted share their files, and go together.
        found: dict[str, list[tuple[float, int, pathlib.Path]]] = {}
        for folder in (self.root / FOLDER).iterdir():
            try:
                used = (folder / _USED).stat().st_mtime
            except OSError:
                continue
            one = (used, _size_of(folder) or 0, folder)
            found.setdefault("-".join(folder.name.split("-")[:2]), []).append(one)
        total = sum(taken for own in found.values() for _, taken, _ in own) + sum(self._reserved.values())
        for own in sorted(found.values(), key=max):
            if total + size <= budget:
                break
            with contextlib.ExitStack() as stack:
                if all(_taken(folder, stack) for _, _, folder in own):
                    total -= sum(taken for _, taken, folder in own if self._remove(folder))

    def _remove(self, folder: pathlib.Path) -> bool:
        """Removes a folder; those who have its files mapped read on."""
        with Scratch("evicted", self.root) as gone:
            try:
                folder.rename(gone / "shard")
            except OSError:
                return False
        return True


def _name_of(entry: Json) -> str:
    return f"{entry['key']}-{entry['attempt']}"


def _hold(folder: pathlib.Path) -> int | None:
    """A handle that holds a shard's folder; `None` where there is none."""
    try:
        handle = os.open(folder / _USED, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH)
        # It may have been evicted before it was locked.
        same = os.path.samestat(os.fstat(handle), (folder / _USED).stat())
        if same and _size_of(folder) is not None:
            return handle
    except FileNotFoundError:
        pass
    except OSError:
        os.close(handle)
        raise
    os.close(handle)
    return None


def _taken(folder: pathlib.Path, stack: contextlib.ExitStack) -> bool:
    """Whether nobody holds a shard's folder, which is locked as long as the stack is there."""
    try:
        handle = os.open(folder / _USED, os.O_RDONLY | os.O_CLOEXEC)
        stack.callback(os.close, handle)
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        # Somebody is about to open it, or has removed it.
        return False
    return True


def _size_of(folder: pathlib.Path) -> int | None:
    """Bytes that a shard's folder takes; `None` of one that is no shard."""
    try:
        return int((folder / _USED).read_bytes())
    except (OSError, ValueError):
        return None


def _bytes_of(folder: pathlib.Path) -> int:
    """Bytes of the files that a folder does not share."""
    files = (path.stat() for path in folder.rglob("*") if path.is_file())
    return sum(own.st_size for own in files if own.st_nlink == 1)


def _share_model(entry: Json, base: pathlib.Path, copy: pathlib.Path) -> None:
    """Has a copy of an index share the model's files, which `Index.snapshot` copies. None ever changes."""
    for file in entry["files"]:
        source, target = base / file["name"], copy / file["name"]
        if "same" not in file or not target.exists():
            continue
        linked = target.with_name(f"{target.name}.linked")
        try:
            os.link(source, linked)
            linked.replace(target)
        except OSError:
            # A file system without second names: the copy stays, and counts.
            linked.unlink(missing_ok=True)


def _present(path: pathlib.Path, ids: Sequence[str]) -> list[str]:
    index = ehi.Index.open_read_only(path, lazy_encoder=True)
    return [id for id in ids if id in index]
