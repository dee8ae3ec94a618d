"""One shard: built by any number of workers, finished by one."""

from __future__ import annotations

import hashlib
import json
import pathlib
import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import ehi
from ehi import shards as parts

from . import documents as rows
from .basics import Json, ShardError, Uri, digest_of
from .manifest import pack_counts
from .scratch import work_folder
from .storage import Storage, create_json, download_folder, read_checked, read_json, sha256_of, upload_folder

FOLDER = "shards"
# Documents passed to the encoder at once.
BATCH = 256
# Changes with the layout of a shard's bytes.
LAYOUT = 2
# White space in an index; `str.strip` removes four more control characters.
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
    without_text: set[str] = set()

    def read() -> Iterator[Json]:
        for document in rows.spooled(storage, task["inputs"]):
            # As in a single index, a refused document does not replace another.
            if _is_blank(document):
                without_text.add(document["id"])
            else:
                yield document

    last = {document["id"]: place for place, document in enumerate(read())}
    documents = (own for place, own in enumerate(read()) if last[own["id"]] == place)
    blank = [
        {
            "id": id,
            "reason": f"document `{id}` has neither title nor text",
            **({"kept": True} if id in last else {}),
        }
        for id in sorted(without_text)
    ]
    return write(storage, model, task["key"], documents, task["options"], scratch, blank)


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
    refused: Iterable[Json] = (),
) -> Json:
    """Writes documents, each id once, as the shard of a key. `refused` are documents that were left out
    before.
    """
    refused = list(refused)
    with work_folder("shard", scratch) as folder:
        path = folder / "index"
        digest = hashlib.sha256()
        batch: list[Json] = []
        create = {"words": options["words"], "precision": options["precision"]}
        with ehi.Index.create(path, model, durability="none", **create) as index:
            for document in documents:
                text = json.dumps(document, ensure_ascii=False, sort_keys=True)
                digest.update(text.encode("utf-8", "replace"))
                batch.append(document)
                if len(batch) == BATCH:
                    refused += refused_of(index.add(batch))
                    batch = []
            refused += refused_of(index.add(batch))
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
    index = ehi.Index.open_read_only(path, lazy_encoder=True)
    entry["model"] = index.model.hash
    entry["rows"] = len(index)
    entry["leaf_rows"] = pack_counts(parts.leaf_rows(index))
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


def refused_of(summary: Json) -> list[Json]:
    """Documents that could not be stored, each with the reason."""
    return [{"id": own["id"], "reason": own["error"]} for own in summary["refused"]]
