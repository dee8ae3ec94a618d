"""One shard: built by any number of workers, finished by one."""

from __future__ import annotations

import hashlib
import json
import pathlib
import uuid
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import ehi
from ehi import shards as parts

from . import documents as rows
from . import models
from .errors import ShardError
from .manifest import pack_counts
from .names import Json, Uri
from .scratch import Scratch
from .storage import Storage, upload_folder

FOLDER = "shards"
# Documents that are handed to the encoder together.
BATCH = 256
# Changes with what a shard's bytes consist of.
LAYOUT = 2
# What an index takes for white space: `str.strip` takes four control characters more.
_WHITE = "\t\n\x0b\x0c\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
_WHITE += "\u2028\u2029\u202f\u205f\u3000"


def key_of(model_hash: str, options: Json, inputs: Sequence[Any]) -> str:
    """The name of a shard: a hash of all that it is made from."""
    made_from = {
        "layout": LAYOUT,
        "version": ehi.__version__,
        "model": model_hash,
        **options,
        "inputs": inputs,
    }
    return hashlib.sha256(json.dumps(made_from, sort_keys=True).encode()).hexdigest()[:32]


def done_name(key: str) -> str:
    return f"{FOLDER}/{key}/DONE.json"


def terms_name(entry: Json) -> str:
    return f"{FOLDER}/{entry['key']}/{entry['attempt']}.terms"


def files_prefix(entry: Json) -> str:
    return f"{FOLDER}/{entry['key']}/{entry['attempt']}"


def finished(storage: Storage, key: str) -> Any:
    """What is known of a shard that is finished; `None` of any other."""
    try:
        return json.loads(storage.get(done_name(key)))
    except FileNotFoundError:
        return None


def build(storage: Storage, model: ehi.Model, shard: Json, options: Json, scratch: Uri | None = None) -> Json:
    """Builds a shard, unless it is finished; its entry for a manifest.

    `shard` has its key and the spool files that it is made from, in the order of the input.
    """
    key = shard["key"]
    entry = finished(storage, key)
    if entry:
        return entry

    def read() -> Iterator[Json]:
        for file in shard["inputs"]:
            try:
                data = storage.get(file["name"])
            except FileNotFoundError:
                raise ShardError(key, f"its input {file['name']} is missing") from None
            if hashlib.sha256(data).hexdigest() != file["sha256"]:
                raise ShardError(key, f"its input {file['name']} is damaged")
            yield from rows.unpacked(data)

    without_text: set[str] = set()

    def with_text() -> Iterator[Json]:
        # As in one index, a document that cannot be stored takes no other one's place.
        for document in read():
            if _is_blank(document):
                without_text.add(document["id"])
            else:
                yield document

    return write(storage, model, key, rows.last_of_each(with_text), options, scratch, without_text)


def _is_blank(document: Json) -> bool:
    """Whether there is nothing to encode; known without the encoder, unlike other reasons to refuse."""
    return not document["text"].strip(_WHITE) and not (document.get("title") or "").strip(_WHITE)


def write(
    storage: Storage,
    model: ehi.Model,
    key: str,
    documents: Iterable[Json],
    options: Json,
    scratch: Uri | None = None,
    without_text: Collection[str] = (),
) -> Json:
    """Writes documents, each id once, as the shard of a key.

    `without_text` has ids of documents that were left out; reading `documents` may fill it.
    """
    with Scratch("shard", scratch) as folder:
        path = folder / "index"
        digest = hashlib.sha256()
        refused: list[Json] = []
        batch: list[Json] = []
        create = {"words": options["words"], "precision": options["precision"]}
        with ehi.Index.create(path, model, durability="none", **create) as index:

            def add() -> None:
                summary = index.add(batch)
                refused.extend(refused_of(summary))
                batch.clear()

            for document in documents:
                digest.update(
                    json.dumps(document, ensure_ascii=False, sort_keys=True).encode("utf-8", "replace")
                )
                batch.append(document)
                if len(batch) == BATCH:
                    add()
            if batch:
                add()
            stored = set(parts.ids(index)) if without_text else set()
            for id in sorted(without_text):
                own: Json = {"id": id, "reason": f"document `{id}` has neither title nor text"}
                refused.append({**own, "kept": True} if id in stored else own)
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
    attempt = uuid.uuid4().hex
    entry: Json = {"key": key, "attempt": attempt, "content": content, "refused": list(refused)}
    index = ehi.Index.open_read_only(path, lazy_encoder=True)
    entry["model"] = index.model.hash
    entry["rows"] = len(index)
    entry["leaf_rows"] = pack_counts(parts.leaf_rows(index))
    entry["terms"] = None
    if index.stats()["lexical"]:
        entry["terms"] = _store_terms(storage, entry, index)
    del index
    entry["files"] = upload_folder(storage, files_prefix(entry), path, models.checksums(model))
    entry["bytes"] = sum(file["bytes"] for file in entry["files"] if "same" not in file)
    if storage.create(done_name(key), json.dumps(entry).encode()):
        return entry
    other = finished(storage, key)
    if other["attempt"] == attempt:
        # The reply to the first of two tries was lost.
        return other
    drop_attempt(storage, entry)
    if other["content"] != content:
        raise ShardError(key, "two workers built it from the same inputs, and it is not the same")
    return other


def _store_terms(storage: Storage, entry: Json, index: ehi.Index) -> Json:
    data = parts.term_statistics(index).to_bytes()
    storage.create(terms_name(entry), data)
    return {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}


def drop_attempt(storage: Storage, entry: Json) -> None:
    """Removes the files of a worker that another one was faster than."""
    storage.delete(names_of_files(entry))
    storage.delete([terms_name(entry)])


def names_of_files(entry: Json) -> list[str]:
    """Objects of a shard's own files."""
    return [f"{files_prefix(entry)}/{file['name']}" for file in entry["files"] if "same" not in file]


def read_terms(storage: Storage, entry: Json) -> parts.TermStatistics | None:
    """Statistics of a shard's words; `None` where it has none."""
    if entry["terms"] is None:
        return None
    try:
        data = storage.get(terms_name(entry))
    except FileNotFoundError:
        raise ShardError(entry["key"], "the statistics of its words are missing") from None
    if hashlib.sha256(data).hexdigest() != entry["terms"]["sha256"]:
        raise ShardError(entry["key"], "the statistics of its words are damaged")
    return parts.TermStatistics.from_bytes(data)


def not_stored(entry: Json) -> set[str]:
    """Ids that were given and are not in a shard. One is refused and `kept` where another document has it."""
    return {own["id"] for own in entry["refused"] if not own.get("kept")}


def refused_of(summary: Json) -> list[Json]:
    """Documents that could not be stored, each with the reason."""
    return [{"id": own["id"], "reason": own["error"]} for own in summary["refused"]]
