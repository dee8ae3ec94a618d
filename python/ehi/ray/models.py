"""The model of a set: it lies beside the shards, and every one that builds or searches fetches it once."""

from __future__ import annotations

import contextlib
import pathlib
import uuid

import ehi

from .basics import Json, ManifestError, Uri
from .scratch import work_folder
from .storage import Storage, create_json, download_folder, read_json, upload_folder

FOLDER = "models"


def done_name(hash: str) -> str:
    return f"{FOLDER}/{hash}/DONE.json"


def files_prefix(entry: Json) -> str:
    return f"{FOLDER}/{entry['hash']}/{entry['attempt']}"


def names_of_files(entry: Json) -> list[str]:
    """Objects of a model's files."""
    return [f"{files_prefix(entry)}/{file['name']}" for file in entry["files"]]


def store(storage: Storage, model: ehi.Model) -> Json:
    """Copies a model to the storage, once; what the manifest says of it."""
    known: Json | None = read_json(storage, done_name(model.hash))
    if known:
        return known
    entry: Json = {"hash": model.hash, "attempt": uuid.uuid4().hex}
    entry |= {"dim": model.dim, "has_tree": model.has_tree}
    entry["files"] = upload_folder(storage, files_prefix(entry), model.path)
    kept: Json = create_json(storage, done_name(model.hash), entry)
    # The reply to the first of two attempts may have been lost; it was this one.
    if kept["attempt"] != entry["attempt"]:
        storage.delete(names_of_files(entry))
    return kept


def folder_of(cache: Uri, hash: str) -> pathlib.Path:
    return pathlib.Path(cache) / FOLDER / hash


def fetch(storage: Storage, entry: Json, cache: Uri) -> ehi.Model:
    """The model, from a folder of the cache."""
    folder = folder_of(cache, entry["hash"])
    if folder.exists():
        with contextlib.suppress(ehi.ModelError, ManifestError):
            return _opened(folder, entry)
        # Damaged since it was fetched: fetch again. Open handles keep their files.
        with work_folder("model", cache) as dropped, contextlib.suppress(FileNotFoundError):
            folder.rename(dropped / "model")
    folder.parent.mkdir(parents=True, exist_ok=True)
    # Below the cache, so that it can be renamed.
    with work_folder("model", cache) as staged:
        wrong = download_folder(storage, files_prefix(entry), entry["files"], staged / "model")
        if wrong:
            raise ManifestError(f"the model {entry['hash']} cannot be used: {wrong}")
        try:
            (staged / "model").rename(folder)
        except OSError:
            # Another process may have been first.
            if not folder.exists():
                raise
    return _opened(folder, entry)


def _opened(folder: pathlib.Path, entry: Json) -> ehi.Model:
    model = ehi.Model(folder)
    if model.hash != entry["hash"]:
        raise ManifestError(f"the model in {folder} is {model.hash}, the manifest names {entry['hash']}")
    return model
