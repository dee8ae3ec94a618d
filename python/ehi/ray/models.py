"""The model of a set: it lies beside the shards, and every one that builds or searches fetches it once."""

from __future__ import annotations

import contextlib
import json
import pathlib
import uuid

import ehi

from .errors import ManifestError
from .names import Json, Uri
from .scratch import Scratch
from .storage import Storage, download_folder, sha256_of, upload_folder

FOLDER = "models"
_DONE = "DONE.json"


def store(storage: Storage, model: ehi.Model) -> Json:
    """Copies a model to the storage, once; what the manifest says of it."""
    prefix = f"{FOLDER}/{model.hash}"
    try:
        return json.loads(storage.get(f"{prefix}/{_DONE}"))
    except FileNotFoundError:
        pass
    attempt = uuid.uuid4().hex
    files = upload_folder(storage, f"{prefix}/{attempt}", model.path)
    entry = {
        "hash": model.hash,
        "attempt": attempt,
        "dim": model.dim,
        "has_tree": model.has_tree,
        "files": files,
    }
    if storage.create(f"{prefix}/{_DONE}", json.dumps(entry).encode()):
        return entry
    other = json.loads(storage.get(f"{prefix}/{_DONE}"))
    # Else the reply to the first of two tries was lost.
    if other["attempt"] != attempt:
        storage.delete(f"{prefix}/{attempt}/{file['name']}" for file in files)
    return other


def folder_of(cache: Uri, hash: str) -> pathlib.Path:
    return pathlib.Path(cache) / FOLDER / hash


def checksums(model: ehi.Model) -> dict[str, str]:
    """Names of a model's files by their checksums: every shard has them, and none needs to carry them."""
    folder = pathlib.Path(model.path)
    return {
        sha256_of(path): path.relative_to(folder).as_posix()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def fetch(storage: Storage, entry: Json, cache: Uri) -> ehi.Model:
    """The model, from a folder of the cache."""
    folder = folder_of(cache, entry["hash"])
    if folder.exists():
        with contextlib.suppress(ehi.ModelError, ManifestError):
            return _opened(folder, entry)
        # Damaged since it was fetched: once more. Those who have it open keep their files.
        with Scratch("model", cache) as dropped, contextlib.suppress(FileNotFoundError):
            folder.rename(dropped / "model")
    folder.parent.mkdir(parents=True, exist_ok=True)
    prefix = f"{FOLDER}/{entry['hash']}/{entry['attempt']}"
    # Below the cache, so that it can be renamed.
    with Scratch("model", cache) as staged:
        wrong = download_folder(storage, prefix, entry["files"], staged / "model")
        if wrong:
            raise ManifestError(f"the model {entry['hash']} cannot be used: {wrong}")
        _rename(staged / "model", folder)
    return _opened(folder, entry)


def _opened(folder: pathlib.Path, entry: Json) -> ehi.Model:
    model = ehi.Model(folder)
    if model.hash != entry["hash"]:
        raise ManifestError(f"the model in {folder} is {model.hash}, the manifest names {entry['hash']}")
    return model


def _rename(staged: pathlib.Path, folder: pathlib.Path) -> None:
    try:
        staged.rename(folder)
    except OSError:
        # Another process may have been first.
        if not folder.exists():
            raise
