"""One shard: built by any number of workers, finished by one."""

import hashlib
import json
import pathlib
import shutil
import tempfile
import uuid

import ehi
from ehi import shards as parts

from . import documents as rows
from . import models
from .errors import ShardError
from .manifest import pack_counts
from .storage import upload_folder

FOLDER = "shards"
# Documents that are handed to the encoder together.
BATCH = 256
# Changes with what a shard's bytes consist of.
LAYOUT = 1


def key_of(model_hash, options, inputs):
    """The name of a shard: a hash of all that it is made from."""
    made_from = {
        "layout": LAYOUT,
        "version": ehi.__version__,
        "model": model_hash,
        **options,
        "inputs": inputs,
    }
    return hashlib.sha256(json.dumps(made_from, sort_keys=True).encode()).hexdigest()[:32]


def done_name(key):
    return f"{FOLDER}/{key}/DONE.json"


def terms_name(entry):
    return f"{FOLDER}/{entry['key']}/{entry['attempt']}.terms"


def files_prefix(entry):
    return f"{FOLDER}/{entry['key']}/{entry['attempt']}"


def finished(storage, key):
    """What is known of a shard that is finished; `None` of any other."""
    try:
        return json.loads(storage.get(done_name(key)))
    except FileNotFoundError:
        return None


def build(storage, model, shard, options, scratch=None):
    """Builds a shard, unless it is finished; its entry for a manifest.

    `shard` has its key and the spool files that it is made from, in the order of the input.
    """
    key = shard["key"]
    entry = finished(storage, key)
    if entry:
        return entry

    def read():
        for file in shard["inputs"]:
            try:
                data = storage.get(file["name"])
            except FileNotFoundError:
                raise ShardError(key, f"its input {file['name']} is missing") from None
            if hashlib.sha256(data).hexdigest() != file["sha256"]:
                raise ShardError(key, f"its input {file['name']} is damaged")
            yield from rows.unpacked(data)

    return write(storage, model, key, rows.last_of_each(read), options, scratch)


def write(storage, model, key, documents, options, scratch=None):
    """Writes documents, each id once, as the shard of a key."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="ehi-shard-", dir=scratch))
    try:
        path = folder / "index"
        digest, refused, batch = hashlib.sha256(), [], []
        create = {"words": options["words"], "precision": options["precision"]}
        with ehi.Index.create(path, model, durability="none", **create) as index:

            def add():
                summary = index.add(batch)
                refused.extend(_refused(summary))
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
            index.compact()
        return finish(storage, path, model, key, digest.hexdigest(), refused)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def finish(storage, path, model, key, content, refused=()):
    """Puts an index where its shard belongs, and says that it is finished if nobody has.

    The files of its model stay with the set's; a shard names them.
    """
    attempt = uuid.uuid4().hex
    entry = {"key": key, "attempt": attempt, "content": content, "refused": list(refused)}
    index = ehi.Index.open_read_only(path)
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
    drop_attempt(storage, entry)
    if other["content"] != content:
        raise ShardError(key, "two workers built it from the same inputs, and it is not the same")
    return other


def _store_terms(storage, entry, index):
    data = parts.term_statistics(index).to_bytes()
    storage.create(terms_name(entry), data)
    return {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}


def drop_attempt(storage, entry):
    """Removes the files of a worker that another one was faster than."""
    storage.delete(names_of_files(entry))
    storage.delete([terms_name(entry)])


def names_of_files(entry):
    """Objects of a shard's own files."""
    return [f"{files_prefix(entry)}/{file['name']}" for file in entry["files"] if "same" not in file]


def read_terms(storage, entry):
    """Statistics of a shard's words; `None` where it has none."""
    if entry["terms"] is None:
        return None
    data = storage.get(terms_name(entry))
    if hashlib.sha256(data).hexdigest() != entry["terms"]["sha256"]:
        raise ShardError(entry["key"], "the statistics of its words are damaged")
    return parts.TermStatistics.from_bytes(data)


def _refused(summary):
    return [{"id": own["id"], "reason": own["error"]} for own in summary["refused"]]


def compacted(storage, model, entry, tombstones, scratch=None):
    """The shard that is left of one without what was deleted since it was added; nothing is encoded."""
    from .cache import Cache
    from .changes import deleted_from

    ids = deleted_from(storage, entry, tombstones)
    digest = hashlib.sha256("\0".join(ids).encode("utf-8", "surrogatepass")).hexdigest()
    key = key_of(entry["model"], {"of": entry["key"]}, [digest])
    made = finished(storage, key)
    if made:
        return made
    folder = pathlib.Path(tempfile.mkdtemp(prefix="ehi-compacted-", dir=scratch))
    try:
        base = Cache(folder / "base", model=model.path).path_of(storage, entry, [])
        index = ehi.Index.open_read_only(base)
        index.snapshot(folder / "copy")
        del index
        with ehi.Index.open(folder / "copy") as copy:
            copy.delete(ids)
            copy.compact()
        content = hashlib.sha256(f"{entry['content']} {digest}".encode()).hexdigest()
        return finish(storage, folder / "copy", model, key, content, entry["refused"])
    finally:
        shutil.rmtree(folder, ignore_errors=True)
