"""Shards made from shards: several as one, a part of one, one without what was deleted, or one in the space
of another model. With one encoder nothing is encoded again. The new ones are published in place of the old.
"""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from typing import Any

import ehi
from ehi import shards as parts

from . import documents, models, publishing, shard
from . import manifest as manifests
from .basics import Json, Uri, digest_of, whole_number
from .pool import RayJob
from .publishing import later_tombstones
from .scratch import work_folder
from .storage import Storage

# Ids passed to the engine at once.
IDS = 100_000


def compact(uri: Uri, *, rows: int | None = None, least: int | None = None, **options: Any) -> int:
    """Drops what is deleted, splits shards of more than `rows` documents into equal parts, and merges those
    of fewer than `least` into ones of at most `rows`. Unless given, `rows` are the documents of the largest
    shard, and `least` is half of `rows`. The number of the new manifest.

    Embeddings are copied, not computed again, so that searches find what they found before. Documents that
    are deleted meanwhile stay deleted; a shard that another publisher has replaced meanwhile stays as that
    one left it. Old shards are there until `clean`. `options` are those of `RayJob`.
    """
    job = RayJob(uri, **options)
    if rows is not None:
        whole_number("rows", rows)
    if least is not None and whole_number("least", least) > (rows or least):
        raise ValueError(f"`least` is {least}, above `rows`, {rows}")
    base = manifests.read(job.storage)
    # 0 for a set with everything deleted.
    most = rows or max([1, *(entry["rows"] for entry in base["shards"])])
    # Documents that are deleted count here: how many are left is known when the shards are read.
    # No part of a shard that is split is smaller than half of `most`, to be merged by the next call.
    groups = _merges(base["shards"], least or most // 2, most)
    parts_of = [max(1, -(-own[0]["rows"] // most)) if len(own) == 1 else 1 for own in groups]
    return _reshape(job, base, list(zip(groups, parts_of)))


def _merges(entries: Sequence[Json], least: int, most: int) -> list[list[Json]]:
    """All shards, those of fewer than `least` documents together up to `most`: each in the first group that
    has room, so that no two groups of small ones could be one.
    """
    groups: list[list[Json]] = []
    small: list[list[Json]] = []
    for entry in entries:
        if entry["rows"] >= least:
            groups.append([entry])
            continue
        for own in small:
            if sum(each["rows"] for each in own) + entry["rows"] <= most:
                own.append(entry)
                break
        else:
            small.append([entry])
            groups.append(small[-1])
    return groups


def _reshape(job: RayJob, base: Json, groups: Sequence[tuple[list[Json], int]]) -> int:
    """Makes shards of each group, so many equal parts, and publishes them in place of the group's."""
    chosen = [
        (sources, count)
        for sources, count in groups
        if len(sources) > 1 or count > 1 or later_tombstones(sources[0], base["tombstones"])
    ]
    if not chosen:
        return int(base["version"])
    tasks = [task_of(base, sources, (own, count)) for sources, count in chosen for own in range(count)]
    with job.running():
        made = iter(job.make(base["model"], tasks))
    remade = [(sources, [next(made) for _ in range(count)]) for sources, count in chosen]

    def with_remade(current: Json) -> Json | None:
        entries = _replaced(current, remade, base)
        if entries == current["shards"]:
            return None
        return publishing.assemble(job.storage, current, entries, pruned(entries, current["tombstones"]))

    return publishing.change(job.storage, with_remade)


def _replaced(
    current: Json, remade: Sequence[tuple[Sequence[Json], Sequence[Json]]], base: Json
) -> list[Json]:
    """The shards of a manifest with those that were made in place of their sources, where all of these are
    there still.

    The new ones have seen the tombstones of the manifest `base`, and none that came later. Where an earlier
    state was restored meanwhile, other tombstones may hold for a source than those that were applied to it:
    that one stays.
    """
    seen = base["version"]
    result = {identity(entry): [entry] for entry in current["shards"]}
    for sources, news in remade:
        names = [identity(entry) for entry in sources]
        if not all(name in result for name in names):
            continue
        if any(applied(entry, current, seen) != applied(entry, base, seen) for entry in sources):
            continue
        result |= {name: [] for name in names}
        result[names[0]] = [{**entry, "added": seen} for entry in news if entry["rows"]]
    found = [entry for own in result.values() for entry in own]
    # An empty one records the kind of words.
    return found or [{**remade[0][1][0], "added": seen}]


def applied(entry: Json, manifest: Json, seen: int) -> list[str]:
    """Tombstones of a manifest that hold for a shard, of those that were there when manifest `seen` was."""
    later = later_tombstones(entry, manifest["tombstones"])
    return sorted(own["name"] for own in later if own["before"] <= seen)


def pruned(entries: Sequence[Json], tombstones: Sequence[Json]) -> list[Json]:
    """The tombstones that are older than none of the shards they would be for."""
    return [own for own in tombstones if any(entry["added"] < own["before"] for entry in entries)]


def identity(entry: Json) -> tuple[str, str, int]:
    """Of a shard as a manifest has it: one that was published anew is another."""
    return entry["key"], entry["attempt"], entry["added"]


def task_of(
    manifest: Json, sources: Sequence[Json], part: tuple[int, int] = (0, 1), model: Json | None = None
) -> Json:
    """What a worker makes: of the documents of a manifest's shards that no tombstone names, part `part[0]` of
    `part[1]` equal ones; under `model` where that is another than the manifest's.
    """
    own: list[Json] = [
        {"entry": dict(entry), "tombstones": later_tombstones(entry, manifest["tombstones"])}
        for entry in sources
    ]
    options = {"words": manifest["words"], "precision": manifest["precision"]}
    inputs = [[each["entry"]["key"], sorted(file["sha256"] for file in each["tombstones"])] for each in own]
    of_model = (model or manifest["model"])["hash"]
    return {
        "make": remake,
        "key": shard.key_of(of_model, {**options, "part": list(part)}, inputs),
        "options": options,
        "sources": own,
        "part": part,
        "of_model": manifest["model"] if model else None,
    }


def remake(storage: Storage, model: ehi.Model, task: Json, scratch: pathlib.Path) -> Any:
    """Makes the shard of a task; its entry. Where nothing would change the entry is that of the source, and
    nothing is made.
    """
    sources, options, (number, count) = task["sources"], task["options"], task["part"]
    same_model = task["of_model"] is None
    of_model = model if same_model else models.fetch(storage, task["of_model"], scratch)
    copies = same_model or model.has_encoder_of(of_model)
    refused: list[Any] = []
    with work_folder("remade", scratch) as folder:
        path = folder / "index"
        # No encoder is loaded where none is needed.
        create = {"durability": "none", "passages": False, "lazy_encoder": copies, **options}
        with ehi.Index.create(path, model, **create) as index:
            for place, source in enumerate(sources):
                entry = source["entry"]
                base, ids = publishing.opened(
                    storage, entry, source["tombstones"], folder / str(place), of_model.path
                )
                if same_model and len(sources) == count == 1 and len(ids) == entry["rows"]:
                    return entry
                ids, size = _part(ids, number, count), IDS if copies else shard.BATCH
                for start in range(0, len(ids), size):
                    batch = ids[start : start + size]
                    if copies:
                        parts.copy(base, index, batch)
                    else:
                        found = [each for each in base.get(batch) if each is not None]
                        refused.extend(shard.refused_of(index.add(found)))
                if number == 0:
                    refused.extend(entry["refused"])
                del base
            index.compact()
        # Stands for the documents.
        of = [
            [own["entry"]["content"], sorted(file["sha256"] for file in own["tombstones"])] for own in sources
        ]
        return shard.finish(storage, path, model, task["key"], digest_of([of, [number, count]]), refused)


def _part(ids: list[str], number: int, count: int) -> list[str]:
    """One of `count` parts of equal size, by hashes of ids that have nothing to do with those of a build."""
    if count == 1:
        return ids
    ordered = sorted(ids, key=lambda id: (documents.hash_of(id, b"ehi-part"), id))
    return sorted(ordered[number * len(ids) // count : (number + 1) * len(ids) // count])
