"""One shard: built by any number of workers, finished by one."""

from __future__ import annotations

import hashlib
import itertools
import json
import pathlib
import uuid
from collections.abc import Iterable, Sequence
from typing import Any

import ehi
from ehi import shards as parts
from ehi.reports import InsertSummary

from . import documents as rows
from .basics import Json, ShardError, Uri, digest_of
from .scratch import work_folder
from .storage import Storage, create_json, download_folder, read_checked, read_json, sha256_of, upload_folder

FOLDER = "shards"
# Documents passed to the encoder at once.
BATCH = 256
# Changes with the layout of a shard's bytes.
LAYOUT = 3


def key_of(model_hash: str, options: Json, inputs: Sequence[Any]) -> str:
    """The name of a shard: a hash of all that it is made from."""
    made_from = {
        "layout": LAYOUT,
        "version": ehi.__version__,
        "model": model_hash,
        **options,
        "inputs": inputs,
    }
    return digest_of(made_from)[:32]


def done_name(key: str) -> str:
    return f"{FOLDER}/{key}/DONE.json"


def terms_name(entry: Json) -> str:
    return f"{FOLDER}/{entry['key']}/{entry['attempt']}.terms"


def files_prefix(entry: Json) -> str:
    return f"{FOLDER}/{entry['key']}/{entry['attempt']}"


def finished(storage: Storage, key: str) -> Any:
    """What is known of a shard that is finished; `None` of any other."""
    return read_json(storage, done_name(key))


def build(storage: Storage, model: ehi.Model, task: Json, scratch: Uri | None = None) -> Json:
    """Builds a shard; its entry for a manifest.

    `task` has its key, its options, and the spool files that it is made from, in the order of the input.
    """
    documents = rows.spooled(storage, task["inputs"])
    return write(storage, model, task["key"], documents, task["options"], scratch)


def write(
    storage: Storage,
    model: ehi.Model,
    key: str,
    documents: Iterable[Json],
    options: Json,
    scratch: Uri | None = None,
) -> Json:
    """Writes documents as the shard of a key; of several with the same id, the last that can be stored stays."""
    refused: list[Json] = []
    documents = iter(documents)
    with work_folder("shard", scratch) as folder:
        path = folder / "index"
        digest = hashlib.sha256()
        create = {"words": options["words"], "precision": options["precision"]}
        with ehi.Index.create(path, model, durability="none", passages=False, **create) as index:
            while batch := list(itertools.islice(documents, BATCH)):
                digest.update(json.dumps(batch, sort_keys=True).encode())
                refused += refused_of(index.add(batch))
            refused = [{**own, "kept": True} if own["id"] in index else own for own in refused]
            index.compact()
        return finish(storage, path, model, key, digest.hexdigest(), refused)


def finish(
    storage: Storage,
    path: pathlib.Path,
    model: ehi.Model,
    key: str,
    content: str,
    refused: Iterable[Json] = (),
) -> Json:
    """Puts an index where its shard belongs, and says that it is finished if nobody has.

    The files of its model stay with the set's; a shard names them.
    """
    entry: Json = {"key": key, "attempt": uuid.uuid4().hex, "content": content, "refused": list(refused)}
    index = ehi.Index.open(path, lazy_encoder=True, read_only=True)
    entry["model"] = index.model.hash
    entry["rows"] = len(index)
    entry["terms"] = None
    if index.stats()["lexical"]:
        data = parts.term_statistics(index).to_bytes()
        storage.create(terms_name(entry), data)
        entry["terms"] = {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
    del index
    of_model = pathlib.Path(model.path)
    shared = {
        sha256_of(own): own.relative_to(of_model).as_posix() for own in of_model.rglob("*") if own.is_file()
    }
    entry["files"] = upload_folder(storage, files_prefix(entry), path, shared)
    entry["bytes"] = sum(file["bytes"] for file in entry["files"] if "same" not in file)
    kept: Json = create_json(storage, done_name(key), entry)
    # The reply to the first of two attempts may have been lost; it was this one.
    if kept["attempt"] != entry["attempt"]:
        storage.delete([*names_of_files(entry), terms_name(entry)])
        if kept["content"] != content:
            raise ShardError(key, "two workers built it from the same inputs, and it is not the same")
    return kept


def fetch(storage: Storage, entry: Json, folder: pathlib.Path, model: Uri) -> None:
    """Copies the index of a shard to a folder; the files of its model are linked from the folder `model`."""
    wrong = download_folder(storage, files_prefix(entry), entry["files"], folder, model)
    if wrong:
        raise ShardError(entry["key"], wrong)


def names_of_files(entry: Json) -> list[str]:
    """Objects of a shard's own files."""
    return [f"{files_prefix(entry)}/{file['name']}" for file in entry["files"] if "same" not in file]


def read_terms(storage: Storage, entry: Json) -> parts.TermStatistics | None:
    """Statistics of a shard's words; `None` where it has none."""
    if entry["terms"] is None:
        return None
    data = read_checked(storage, terms_name(entry), entry["terms"]["sha256"])
    return parts.TermStatistics.from_bytes(data)


def not_stored(entry: Json) -> set[str]:
    """Ids that were given and are not in a shard. One is refused and `kept` where another document has it."""
    return {own["id"] for own in entry["refused"] if not own.get("kept")}


def refused_of(summary: InsertSummary) -> list[Json]:
    """Documents that could not be stored, each with the reason."""
    return [{"id": own["id"], "reason": own["error"]} for own in summary["refused"]]
