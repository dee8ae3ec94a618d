"""Where shards lie: a folder, or an object store.

Both offer what the guarantees rest on: an object is created whole and *if absent*, and never changes. Nothing
is renamed, so that an object store needs no more than a conditional put.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pathlib
import shutil
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, List, TypeAlias

from .basics import Json, ManifestError, Options, StorageError, Uri
from .scratch import sweep, work_folder

# Bytes that are read or written at a time.
CHUNK = 8 << 20
# Checksums of files by identity: a model has about ten, a process a few models.
_SUMS: dict[tuple[int, int, int, int], str] = {}


def connect(uri: Uri, options: Options = None) -> Storage:
    """The storage of a URI: a path, `file://…`, or a URL that `obstore` opens (`s3://`, `gs://`, `az://`).

    `options` go to `obstore.store.from_url`, as `{"endpoint": …, "access_key_id": …}`.
    """
    uri = os.fspath(uri)
    parsed = urllib.parse.urlparse(uri)
    if len(parsed.scheme) <= 1:
        path = uri
    elif parsed.scheme == "file":
        if parsed.netloc not in ("", "localhost"):
            raise StorageError(f"`{uri}` names a machine, `{parsed.netloc}`; a path begins with file:///")
        path = urllib.parse.unquote(parsed.path)
    else:
        return ObjectStorage(uri, options)
    if options:
        raise StorageError("storage options are for object stores, not for a folder")
    return FolderStorage(path)


def is_inside(name: Any) -> bool:
    """Whether a value is the name of a file below a folder."""
    parts = name.split("/") if isinstance(name, str) else [""]
    return not any(part in ("", ".", "..") or "\0" in part or "\\" in part for part in parts)


def check_key(key: str) -> str:
    """Refuses keys that would leave the place."""
    if not is_inside(key):
        raise StorageError(f"`{key}` is not the name of an object")
    return key


class FolderStorage:
    """A folder of this machine, or one that several share."""

    def __init__(self, root: Uri) -> None:
        self.root = pathlib.Path(root).absolute()
        # Its name in errors.
        self.place = str(self.root)

    def _path(self, key: str) -> pathlib.Path:
        return self.root / check_key(key)

    def get(self, key: str) -> bytes:
        """Bytes of an object; `FileNotFoundError` without one."""
        return self._path(key).read_bytes()

    def create(self, key: str, data: bytes) -> bool:
        """Creates an object if there is none; whether it did. It is there as a whole or not at all."""
        path = self._path(key)
        with work_folder("staged", self.root, own=False) as folder:
            staged = folder / "object"
            staged.write_bytes(data)
            _sync(staged)
            while True:
                path.parent.mkdir(parents=True, exist_ok=True)
                try:
                    # Unlike a rename, it fails if the object exists.
                    os.link(staged, path)
                except FileExistsError:
                    return False
                except FileNotFoundError:
                    if not staged.exists():
                        raise
                    # The folder of the object was removed meanwhile.
                    continue
                _sync(path.parent)
                return True

    def upload(self, key: str, path: Uri) -> None:
        """Copies a file to an object that nobody else writes."""
        target = self._path(key)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
        _sync(target)
        _sync(target.parent)

    def download(self, key: str, path: Uri) -> None:
        """Copies an object to a file."""
        shutil.copyfile(self._path(key), path)

    def list(self, prefix: str) -> List[tuple[str, int]]:
        """Names and sizes of the objects below a folder, in the order of their names."""
        found = []
        for folder, _, names in os.walk(self._path(prefix.rstrip("/"))):
            for path in (pathlib.Path(folder) / name for name in names):
                # Objects deleted meanwhile are skipped.
                with contextlib.suppress(FileNotFoundError):
                    found.append((path.relative_to(self.root).as_posix(), path.stat().st_size))
        return sorted(found)

    def sweep(self) -> List[str]:
        """Removes what killed processes have left of objects that they were creating; the names."""
        return sweep(self.root, own=False)

    def delete(self, keys: Iterable[str]) -> None:
        """Deletes objects, those that are there."""
        for key in keys:
            path = self._path(key)
            path.unlink(missing_ok=True)
            # Also removes folders that become empty.
            with contextlib.suppress(OSError):
                for folder in path.relative_to(self.root).parents[:-1]:
                    (self.root / folder).rmdir()

    def __reduce__(self) -> Any:
        return (FolderStorage, (str(self.root),))


class ObjectStorage:
    """An object store with conditional puts, through `obstore`."""

    def __init__(self, uri: str, options: Options = None) -> None:
        try:
            import obstore
            from obstore.store import from_url
        except ImportError as error:
            raise StorageError(
                'an object store needs the package `obstore`: pip install "ehi[ray]"'
            ) from error
        self.uri = self.place = uri
        self.options = options
        self._obstore = obstore
        with self._told():
            given: Any = options or {}
            self._store = from_url(uri, **given)

    @contextlib.contextmanager
    def _told(self, reads: bool = False) -> Iterator[None]:
        """What the store says as a `StorageError`, but that an object is there or, where it `reads`, is not."""
        try:
            yield
        except (self._obstore.exceptions.AlreadyExistsError, StorageError):
            raise
        except BaseException as error:
            if reads and isinstance(error, FileNotFoundError) and "NoSuchBucket" not in str(error):
                raise
            # Some options make it panic, which is not an `Exception`.
            if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
                raise
            # Without the debug details it appends.
            said = str(error).partition("\n\nDebug source")[0].strip()
            raise StorageError(f"{self.uri}: {said or type(error).__name__}") from error

    def get(self, key: str) -> bytes:
        with self._told(reads=True):
            return bytes(self._obstore.get(self._store, check_key(key)).bytes())

    def create(self, key: str, data: bytes) -> bool:
        try:
            with self._told():
                self._obstore.put(self._store, check_key(key), data, mode="create", use_multipart=False)
        except self._obstore.exceptions.AlreadyExistsError:
            return False
        return True

    def upload(self, key: str, path: Uri) -> None:
        with self._told():
            self._obstore.put(self._store, check_key(key), pathlib.Path(path))

    def download(self, key: str, path: Uri) -> None:
        with open(path, "wb") as file, self._told(reads=True):
            for chunk in self._obstore.get(self._store, check_key(key)).stream(min_chunk_size=CHUNK):
                file.write(chunk)

    def list(self, prefix: str) -> List[tuple[str, int]]:
        found: List[tuple[str, int]] = []
        with self._told():
            for batch in self._obstore.list(self._store, prefix=prefix.rstrip("/")):
                found.extend((meta["path"], meta["size"]) for meta in batch)
        return sorted(found)

    def sweep(self) -> List[str]:
        """Nothing: an object is there as a whole or not at all. Parts of uploads that were cut off are for
        a rule of the bucket to remove.
        """
        return []

    def delete(self, keys: Iterable[str]) -> None:
        for key in keys:
            with contextlib.suppress(FileNotFoundError), self._told(reads=True):
                self._obstore.delete(self._store, check_key(key))

    def __reduce__(self) -> Any:
        return (ObjectStorage, (self.uri, self.options))


Storage: TypeAlias = FolderStorage | ObjectStorage


def read_checked(storage: Storage, name: str, sha256: str) -> bytes:
    """Bytes of an object that must have this checksum."""
    try:
        data = storage.get(name)
    except FileNotFoundError:
        raise ManifestError(f"{name} is missing") from None
    if hashlib.sha256(data).hexdigest() != sha256:
        raise ManifestError(f"{name} is damaged")
    return data


def read_json(storage: Storage, name: str) -> Any:
    """What an object of JSON says; `None` where there is no such object."""
    try:
        return json.loads(storage.get(name))
    except FileNotFoundError:
        return None


def create_json(storage: Storage, name: str, value: Json) -> Json:
    """Creates an object of JSON if there is none; what is there then: the value, or that of another process."""
    if storage.create(name, json.dumps(value).encode()):
        return value
    there: Json = read_json(storage, name)
    return there


def _sync(path: pathlib.Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sha256_of(path: Uri) -> str:
    """SHA-256 of a file."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _known_sha256(path: pathlib.Path) -> str:
    """SHA-256 of a file that never changes, read once for all its names."""
    stat = path.stat()
    of = (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns)
    if of not in _SUMS:
        _SUMS[of] = sha256_of(path)
    return _SUMS[of]


def linked(source: Uri, target: Uri) -> None:
    """Gives a file another name, or copies it where the file system has no hard links."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def upload_folder(
    storage: Storage, prefix: str, folder: Uri, known: Mapping[str, str] | None = None
) -> list[Json]:
    """Copies a folder's files; their names, sizes and checksums.

    `known` has names by checksums of files that are elsewhere: these are not copied, and named as `same`.
    """
    folder = pathlib.Path(folder)
    files = []
    for path in sorted(folder.rglob("*")):
        if not path.is_file():
            continue
        name, digest = path.relative_to(folder).as_posix(), sha256_of(path)
        files.append({"name": name, "bytes": path.stat().st_size, "sha256": digest})
        if known and digest in known:
            files[-1]["same"] = known[digest]
        else:
            storage.upload(f"{prefix}/{name}", path)
    return files


def download_folder(
    storage: Storage, prefix: str, files: Sequence[Json], folder: Uri, elsewhere: Uri | None = None
) -> str | None:
    """Copies files to a folder; each must be what `files` says. The first that is not, and why, or `None`.

    Files that are the `same` as one of the folder `elsewhere` are linked from there.
    """
    folder = pathlib.Path(folder)
    for file in files:
        path = folder / check_key(file["name"])
        path.parent.mkdir(parents=True, exist_ok=True)
        if "same" in file:
            assert elsewhere is not None
            linked(pathlib.Path(elsewhere) / check_key(file["same"]), path)
            if _known_sha256(path) != file["sha256"]:
                return f"the file {file['name']} is not that of the model: its checksum is another"
            continue
        try:
            storage.download(f"{prefix}/{file['name']}", path)
        except FileNotFoundError:
            return f"the file {file['name']} is missing"
        size = path.stat().st_size
        if size != file["bytes"]:
            return f"the file {file['name']} has {size} bytes instead of {file['bytes']}"
        if sha256_of(path) != file["sha256"]:
            return f"the file {file['name']} is damaged: its checksum is not the one in the manifest"
    return None
