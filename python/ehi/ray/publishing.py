"""From finished shards to a manifest that searches read, changes of a published set, and removing what no
kept manifest names: staging of workers that were cut off, old shards, spool files.

Shards never change: what is deleted is in tombstone files next to them, and so are judgments.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import pathlib
import re
import uuid
import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import ehi
from ehi import shards as parts

from . import manifest as manifests
from . import models, shard
from .basics import Json, ManifestError, Options, PublishConflict, ShardsError, Uri, whole_number
from .scratch import sweep
from .storage import Storage, connect, read_checked

STATISTICS = "statistics"
TOMBSTONES = "tombstones"
JUDGMENTS = "judgments"
BUILDS = "builds"
CANDIDATES = "candidates"
_HASH, _KEY, _NAME = "[0-9a-f]{64}", "[0-9a-f]{32}", r"[\w-]+"
_PLAN = re.compile(rf"{BUILDS}/{_NAME}/plan\.json")
# Names given here; no other object is removed.
_OWN = re.compile(
    rf"{shard.FOLDER}/{_KEY}/(DONE\.json|{_KEY}\.terms|{_KEY}/.+)"
    rf"|{STATISTICS}/{_HASH}\.terms"
    rf"|{TOMBSTONES}/{_KEY}\.json\.gz"
    rf"|{JUDGMENTS}/{_HASH}\.jsonl\.gz"
    rf"|{BUILDS}/{_NAME}/(plan\.json|spool/{_HASH}\.jsonl\.gz)"
    rf"|{CANDIDATES}/{_NAME}/(trained|verdict)\.json"
    rf"|{models.FOLDER}/{_HASH}/(DONE\.json|{_KEY}/.+)",
    re.DOTALL,
)
# Documents that an error names.
_NAMED = 5
# Default number of leaves that a search visits.
DEFAULT_BEAM = 16
# Attempts of a change while other publishers are first.
_ATTEMPTS = 100


def publish(storage: Storage, built: Json, parent: int) -> int:
    """Makes what was built the state of the set after the manifest `parent`, in place of what there was except
    judgments; its number.

    `PublishConflict` where another publisher was first; `ShardsError` where no document was stored.
    """
    if not built["documents"]:
        refused = built["refused"]
        told = [f"; `{own['id'][:50]}`: {own['reason'][:200]}" for own in refused[:_NAMED]]
        more = f"; and {len(refused) - _NAMED} more" if len(refused) > _NAMED else ""
        raise ShardsError(f"nothing is published: no document could be stored{''.join(told)}{more}")
    shards = [{**entry, "added": parent + 1} for entry in built["shards"]]
    kept = {JUDGMENTS: manifests.read(storage, parent).get(JUDGMENTS)} if parent else {}
    manifest = assemble(storage, {**built, **kept}, shards, [])
    # A build that is called again finds that it is done.
    return manifests.publish(storage, {**manifest, "build": [built["name"], built["made_from"]]}, parent)


def assemble(storage: Storage, base: Json, shards: Sequence[Json], tombstones: Sequence[Json]) -> Json:
    """A manifest of shards, with the sum of the statistics of their words. `base` says what they share."""
    for entry in shards:
        if entry["model"] != base["model"]["hash"]:
            raise ManifestError(
                f"shard {entry['key']} was made with model {entry['model']}, "
                f"the set has {base['model']['hash']}"
            )
    if len({entry["key"] for entry in shards}) < len(shards):
        raise ManifestError("a shard is named twice")
    return {
        **{name: base[name] for name in ("model", "words", "precision", "beam", "alpha")},
        # As named by the caller; `append` reads them the same way.
        "columns": base.get("columns"),
        JUDGMENTS: base.get(JUDGMENTS),
        "documents": sum(entry["rows"] for entry in shards),
        "shards": shards,
        "tombstones": tombstones,
        "statistics": _statistics(storage, base, shards),
    }


def _statistics(storage: Storage, base: Json, shards: Sequence[Json]) -> Json | None:
    """The sum of the statistics of shards' words; that of `base` where it has the same shards."""
    attempts = [{entry["attempt"] for entry in of} for of in (base["shards"], shards)]
    if "statistics" in base and attempts[0] == attempts[1]:
        known: Json | None = base["statistics"]
        return known
    total = None
    for entry in shards:
        own = shard.read_terms(storage, entry)
        if own is not None:
            total = own if total is None else total + own
    if total is None:
        return None
    data = total.to_bytes()
    digest = hashlib.sha256(data).hexdigest()
    # Named by its content: the first writer writes it.
    storage.create(statistics_name(digest), data)
    return {"sha256": digest, "bytes": len(data), "documents": total.documents}


def statistics_name(sha256: str) -> str:
    return f"{STATISTICS}/{sha256}.terms"


def change(storage: Storage, make: Callable[[Json], Json | None]) -> int:
    """Publishes what `make` makes of the newest manifest, again where another publisher was first; the number
    of the newest manifest then. `make` returns `None` where nothing is to be changed.
    """
    for _ in range(_ATTEMPTS):
        newest = manifests.read(storage)
        changed = make(newest)
        if changed is None:
            return int(newest["version"])
        try:
            return manifests.publish(storage, changed, newest["version"])
        except PublishConflict:
            continue
    raise ManifestError(f"other publishers were first {_ATTEMPTS} times")


def restore(uri: Uri, version: int, *, storage_options: Options = None) -> int:
    """Publishes what the set was in an earlier state as its newest one; the number of the new manifest.

    `version` is one of `versions`. What was appended, deleted, or changed over to another model since is not
    in it; those states stay, and can be restored in their turn, until `clean`. Other publishers may be at
    work: this state comes after theirs.
    """
    version = whole_number("version", version)
    storage = connect(uri, storage_options)
    earlier = manifests.read(storage, version)
    return change(storage, lambda newest: None if newest["version"] == version else earlier)


def versions(uri: Uri, *, storage_options: Options = None) -> list[int]:
    """Numbers of the manifests that are kept, ascending."""
    return manifests.versions(connect(uri, storage_options))


def delete(uri: Uri, ids: str | Iterable[str], *, storage_options: Options = None) -> int:
    """Deletes documents from a published set; the number of the new manifest, as of every change. How many of
    the documents there were is not known, since no shard is read: `Searcher.count` tells it before and after.

    Unknown ids are no error, an id that is not Unicode text is a `ValueError`. Other publishers may be at
    work: the deletion is published after theirs, and holds for the shards that are there then.
    """
    ids = [ids] if isinstance(ids, str) else list(ids)
    if not all(isinstance(id, str) for id in ids):
        raise TypeError("ids are strings")
    storage = connect(uri, storage_options)
    if not ids:
        return int(manifests.read(storage)["version"])
    file = write_tombstones(storage, ids)

    def with_tombstones(newest: Json) -> Json:
        added = {**file, "before": newest["version"] + 1}
        return assemble(storage, newest, newest["shards"], [*newest["tombstones"], added])

    return change(storage, with_tombstones)


def judge(uri: Uri, judgments: Iterable[Any], *, storage_options: Options = None) -> int:
    """Judges documents of a published set: which answer which questions; the number of the new manifest.

    `judgments` are in the forms of `Index.judge`. A later judgment of the same question and document replaces
    the earlier one; a document that the set does not have counts once it has it. Other publishers may be at
    work: these judgments are published after theirs.
    """
    new = parts.Judgments(judgments).all()
    return _judged_anew(uri, lambda known: [*known, *new], storage_options)


def forget(uri: Uri, pairs: Iterable[tuple[str, str]], *, storage_options: Options = None) -> int:
    """Takes judgments back, given as pairs of question and id; the number of the newest manifest then. Unknown
    pairs are no error.
    """
    gone = {(question, id) for question, id in pairs}
    return _judged_anew(
        uri, lambda known: [own for own in known if (own["question"], own["id"]) not in gone], storage_options
    )


def _judged_anew(uri: Uri, make: Callable[[list[Json]], list[Json]], storage_options: Options) -> int:
    """Publishes what `make` makes of the judgments of the set."""
    storage = connect(uri, storage_options)

    def with_judgments(newest: Json) -> Json | None:
        known = read_judgments(storage, newest)
        judgments = parts.Judgments(make(known.all() if known else []))
        entry = None
        if len(judgments):
            data = gzip.compress(judgments.to_bytes(), mtime=0)
            digest = hashlib.sha256(data).hexdigest()
            # Named by its content: the first writer writes it.
            storage.create(judgments_name(digest), data)
            entry = {"sha256": digest, "bytes": len(data), "judgments": len(judgments)}
        return None if entry == newest.get(JUDGMENTS) else {**newest, JUDGMENTS: entry}

    return change(storage, with_judgments)


def judgments_name(sha256: str) -> str:
    return f"{JUDGMENTS}/{sha256}.jsonl.gz"


def read_judgments(storage: Storage, manifest: Json) -> parts.Judgments | None:
    """The judgments that a manifest names; `None` where there are none."""
    if not (entry := manifest.get(JUDGMENTS)):
        return None
    name = judgments_name(entry["sha256"])
    data = read_checked(storage, name, entry["sha256"])
    try:
        return parts.Judgments.from_bytes(gzip.decompress(data))
    except (OSError, EOFError, zlib.error, ValueError, ehi.Error) as error:
        raise ManifestError(f"{name} is damaged: {error}") from None


def write_tombstones(storage: Storage, ids: Iterable[str]) -> Json:
    """A file of deleted ids; its entry for a manifest."""
    unique = sorted(set(ids))
    data = gzip.compress(json.dumps(unique, ensure_ascii=False).encode(), mtime=0)
    name = f"{TOMBSTONES}/{uuid.uuid4().hex}.json.gz"
    storage.create(name, data)
    return {"name": name, "sha256": hashlib.sha256(data).hexdigest(), "ids": len(unique)}


def read_tombstones(storage: Storage, entry: Json) -> list[str]:
    """Ids that a tombstone file names."""
    data = read_checked(storage, entry["name"], entry["sha256"])
    try:
        ids: list[str] = list(json.loads(gzip.decompress(data)))
        # An error where one is not text.
        "".join(ids).encode()
    except (OSError, EOFError, zlib.error, TypeError, ValueError, RecursionError) as error:
        raise ManifestError(f"{entry['name']} is damaged: {error}") from None
    return ids


def later_tombstones(entry: Json, tombstones: Sequence[Json]) -> list[Json]:
    """Of tombstone files those that are younger than a shard, which they hold for."""
    return [own for own in tombstones if entry["added"] < own["before"]]


def deleted_from(storage: Storage, entry: Json, tombstones: Sequence[Json]) -> set[str]:
    """Ids that were deleted since a shard was added."""
    later = later_tombstones(entry, tombstones)
    return {id for own in later for id in read_tombstones(storage, own)}


def opened(
    storage: Storage, entry: Json, tombstones: Sequence[Json], folder: pathlib.Path, model: Uri
) -> tuple[ehi.Index, list[str]]:
    """The index of a shard, fetched to a folder, and the ids in it that were not deleted since."""
    shard.fetch(storage, entry, folder, model)
    index = ehi.Index.open(folder, lazy_encoder=True, read_only=True)
    deleted = deleted_from(storage, entry, tombstones)
    return index, [id for id in index.ids() if id not in deleted]


def clean(
    uri: Uri, *, keep: int = 1, scratch: Uri | None = None, storage_options: Options = None
) -> list[str]:
    """Removes what the newest `keep` manifests do not name; returns the names of the removed objects.

    Older manifests are removed too, and so are unfinished builds and candidates of `retrain`. Nothing may be
    building or searching an older state meanwhile: a build under way loses what it has finished.
    `ManifestError` where there is neither a manifest nor an unfinished build, so that a wrong path costs
    nothing; objects with other names than are given here stay. What killed processes have left on this
    machine, in `scratch` or the system's place for temporary files, goes too.
    """
    whole_number("keep", keep)
    storage = connect(uri, storage_options)
    sweep(scratch)
    numbers = manifests.versions(storage)
    if not numbers and not any(_PLAN.fullmatch(name) for name, _ in storage.list(BUILDS)):
        raise ManifestError("there is no manifest, and no build: this is no set of shards")
    kept = set()
    for version in numbers[-keep:]:
        manifest = manifests.read(storage, version)
        kept |= {models.done_name(manifest["model"]["hash"]), *models.names_of_files(manifest["model"])}
        if manifest["statistics"]:
            kept.add(statistics_name(manifest["statistics"]["sha256"]))
        if judgments := manifest.get(JUDGMENTS):
            kept.add(judgments_name(judgments["sha256"]))
        kept.update(entry["name"] for entry in manifest["tombstones"])
        for entry in manifest["shards"]:
            kept |= {shard.done_name(entry["key"]), shard.terms_name(entry), *shard.names_of_files(entry)}
    folders = (shard.FOLDER, STATISTICS, TOMBSTONES, JUDGMENTS, BUILDS, CANDIDATES, models.FOLDER)
    there = (name for folder in folders for name, _ in storage.list(folder))
    removed = [name for name in there if name not in kept and _OWN.fullmatch(name)]
    # Manifests first: none may name a missing object.
    manifests.remove(storage, numbers[:-keep])
    # Marks before their files: an interrupted `clean` must not leave a mark whose files are gone.
    storage.delete(sorted(removed, key=lambda name: not name.endswith("/DONE.json")))
    return [manifests.name_of(version) for version in numbers[:-keep]] + removed + storage.sweep()
