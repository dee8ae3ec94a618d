"""Deleting from a published set: tombstone files beside shards that never change."""

from __future__ import annotations

import gzip
import hashlib
import json
import uuid
import zlib
from collections.abc import Iterable, Sequence

from .errors import ManifestError
from .names import Json, Options, Uri
from .publishing import assemble, change
from .storage import Storage, connect

FOLDER = "tombstones"


def delete(uri: Uri, ids: str | Iterable[str], *, storage_options: Options = None) -> int:
    """Deletes documents from a published set; the number of the new manifest.

    Ids that are not there are no error, an id that is no Unicode text is a `ValueError`. Other publishers may
    be at work: the deletion is published after theirs, and holds for the shards that are there then.
    """
    if isinstance(ids, str):
        ids = [ids]
    ids = list(ids)
    if not all(isinstance(id, str) for id in ids):
        raise TypeError("ids are strings")
    wrong = next((id for id in ids if not _is_text(id)), None)
    if wrong is not None:
        raise ValueError(f"{wrong!r} is no id: it has half of a surrogate pair, and is no Unicode text")
    storage = connect(uri, storage_options)
    file = write(storage, ids) if ids else None

    def with_tombstones(newest: Json) -> Json | None:
        if file is None:
            return None
        added = {**file, "before": newest["version"] + 1}
        return assemble(storage, newest, newest["shards"], [*newest["tombstones"], added])

    return change(storage, with_tombstones)


def _is_text(id: str) -> bool:
    try:
        id.encode()
    except UnicodeEncodeError:
        return False
    return True


def write(storage: Storage, ids: Iterable[str]) -> Json:
    """A tombstone file; its entry for a manifest."""
    data = gzip.compress(json.dumps(sorted(set(ids)), ensure_ascii=False).encode(), mtime=0)
    name = f"{FOLDER}/{uuid.uuid4().hex}.json.gz"
    storage.create(name, data)
    return {"name": name, "sha256": hashlib.sha256(data).hexdigest(), "ids": len(set(ids))}


def read(storage: Storage, entry: Json) -> list[str]:
    """Ids that a tombstone file names, without those that no document can have."""
    try:
        data = storage.get(entry["name"])
    except FileNotFoundError:
        raise ManifestError(f"the tombstones {entry['name']} are missing") from None
    if hashlib.sha256(data).hexdigest() != entry["sha256"]:
        raise ManifestError(f"the tombstones {entry['name']} are damaged")
    try:
        ids = json.loads(gzip.decompress(data).decode("utf-8", "surrogatepass"))
    except (OSError, EOFError, zlib.error, ValueError, RecursionError) as error:
        raise ManifestError(f"the tombstones {entry['name']} are damaged: {error}") from None
    if not isinstance(ids, list):
        raise ManifestError(f"the tombstones {entry['name']} are damaged: they are no list")
    return [id for id in ids if isinstance(id, str) and _is_text(id)]


def ids_of(storage: Storage, tombstones: Sequence[Json]) -> list[str]:
    """Ids that tombstone files name."""
    ids = set()
    for entry in tombstones:
        ids.update(read(storage, entry))
    return sorted(ids)


def deleted_from(storage: Storage, shard: Json, tombstones: Sequence[Json]) -> list[str]:
    """Ids that were deleted since a shard was added."""
    return ids_of(storage, [entry for entry in tombstones if shard["added"] < entry["before"]])
