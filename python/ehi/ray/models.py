"""The model of a set: it lies beside the shards, and every one that builds or searches fetches it once."""

import json
import pathlib
import shutil
import uuid

import ehi

from .errors import ManifestError
from .storage import download_folder, sha256_of, upload_folder

FOLDER = "models"
_DONE = "DONE.json"


def store(storage, model):
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
    storage.delete(f"{prefix}/{attempt}/{file['name']}" for file in files)
    return json.loads(storage.get(f"{prefix}/{_DONE}"))


def folder_of(cache, hash):
    return pathlib.Path(cache) / FOLDER / hash


def checksums(model):
    """Names of a model's files by their checksums: every shard has them, and none needs to carry them."""
    folder = pathlib.Path(model.path)
    return {
        sha256_of(path): path.relative_to(folder).as_posix()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def fetch(storage, entry, cache):
    """The model, from a folder of the cache."""
    folder = folder_of(cache, entry["hash"])
    if not folder.exists():
        staged = folder.parent / f".{entry['hash']}-{uuid.uuid4().hex}"
        staged.mkdir(parents=True)
        prefix = f"{FOLDER}/{entry['hash']}/{entry['attempt']}"
        wrong = download_folder(storage, prefix, entry["files"], staged)
        if wrong:
            shutil.rmtree(staged, ignore_errors=True)
            raise ManifestError(f"the model {entry['hash']} cannot be used: {wrong}")
        _rename(staged, folder)
    model = ehi.Model(folder)
    if model.hash != entry["hash"]:
        raise ManifestError(f"the model in {folder} is {model.hash}, the manifest names {entry['hash']}")
    return model


def _rename(staged, folder):
    try:
        staged.rename(folder)
    except OSError:
        if not folder.exists():
            raise
        # Another process was first.
        shutil.rmtree(staged, ignore_errors=True)
