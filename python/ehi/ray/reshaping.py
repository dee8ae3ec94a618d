"""Compacting and rebalancing a published set: new shards in place of some, published as one change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import manifest as manifests
from . import publishing, remaking
from .names import Json, Options, Uri
from .options import whole_number
from .pool import ACTOR_CPUS, run, running
from .progress import Progress, Tell, told
from .storage import Storage, connect


def compact(
    uri: Uri,
    *,
    rows: int | None = None,
    actors: int | None = None,
    num_cpus: float = ACTOR_CPUS,
    scratch: str | None = None,
    storage_options: Options = None,
    progress: Progress = None,
) -> int:
    """Drops what is deleted, and merges small shards: those of at most half of `rows` documents, into ones of
    at most `rows`, the documents of the largest shard unless given. The number of the new manifest.

    Embeddings are copied, not computed again, so that searches find what they found before. Documents that
    are deleted meanwhile stay deleted; a shard that another publisher has replaced meanwhile stays as that one
    left it. Old shards are there until `clean`. `progress` is a function of stage, done and total, or `True`.
    """
    storage = connect(uri, storage_options)
    base = manifests.read(storage)
    entries = base["shards"]
    if rows is None:
        # Of a set of which everything was deleted 0.
        rows = max([1, *(entry["rows"] for entry in entries)])
    most = whole_number("rows", rows)
    groups = _merges(entries, most // 2 + 1, most)
    pool = {"actors": actors, "num_cpus": num_cpus, "num_gpus": 0, "scratch": scratch}
    with told(progress) as tell:
        return _reshape(storage, base, [(own, 1) for own in groups], pool, tell)


def rebalance(
    uri: Uri,
    most: int,
    *,
    least: int | None = None,
    actors: int | None = None,
    num_cpus: float = ACTOR_CPUS,
    scratch: str | None = None,
    storage_options: Options = None,
    progress: Progress = None,
) -> int:
    """Splits shards of more than `most` documents into equal parts, and merges those of fewer than `least`, a
    quarter of `most` unless given, into ones of at most `most`. The number of the new manifest.

    Otherwise as `compact`.
    """
    storage = connect(uri, storage_options)
    most = whole_number("most", most)
    least = max(1, most // 4) if least is None else whole_number("least", least)
    if least > most:
        raise ValueError(f"`least` is {least}, above `most`, {most}")
    base = manifests.read(storage)
    # Documents that are deleted count here: how many are left is known when the shards are read.
    groups = [
        (own, -(-own[0]["rows"] // most) if len(own) == 1 else 1)
        for own in _merges(base["shards"], least, most)
    ]
    pool = {"actors": actors, "num_cpus": num_cpus, "num_gpus": 0, "scratch": scratch}
    with told(progress) as tell:
        return _reshape(storage, base, groups, pool, tell)


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


def _reshape(
    storage: Storage,
    base: Json,
    groups: Sequence[tuple[list[Json], int]],
    pool: Json,
    tell: Tell,
) -> int:
    """Makes shards of each group, so many equal parts, and publishes them in place of the group's."""
    tombstones = base["tombstones"]

    def has_deleted(entry: Json) -> bool:
        return any(entry["added"] < own["before"] for own in tombstones)

    chosen = [
        (sources, count)
        for sources, count in groups
        if len(sources) > 1 or count > 1 or has_deleted(sources[0])
    ]
    if not chosen:
        return base["version"]
    tasks = [
        [remaking.task(base["model"], base, sources, tombstones, (own, count)) for own in range(count)]
        for sources, count in chosen
    ]
    with running():
        made = iter(run(storage, base["model"], [task for own in tasks for task in own], pool, tell))
    remade = [(sources, [next(made) for _ in own]) for (sources, _), own in zip(chosen, tasks)]

    def with_remade(current: Json) -> dict[str, Any] | None:
        entries = replaced(current, remade, base)
        if entries == current["shards"]:
            return None
        return publishing.assemble(storage, current, entries, pruned(entries, current["tombstones"]))

    return publishing.change(storage, with_remade)


def replaced(
    current: Json, remade: Sequence[tuple[Sequence[Json], Sequence[Json]]], base: Json
) -> list[Json]:
    """The shards of a manifest with those that were made in place of their sources, where all of these are
    there still.

    The new ones have seen the tombstones of the manifest `base`, and none that came later. Where an earlier
    state was restored meanwhile, other tombstones may hold for a source than those that were applied to it:
    that one stays.
    """
    entries, seen = current["shards"], base["version"]
    place_of = {identity(entry): place for place, entry in enumerate(entries)}
    result: list[list[Json]] = [[entry] for entry in entries]
    for sources, news in remade:
        places = [place_of.get(identity(entry)) for entry in sources]
        if any(place is None for place in places):
            continue
        if any(applied(entry, current, seen) != applied(entry, base, seen) for entry in sources):
            continue
        for place in places:
            result[place] = []  # type: ignore[index]
        result[places[0]] = [  # type: ignore[index]
            {**entry, "added": seen} for entry in news if entry["rows"]
        ]
    found = [entry for own in result for entry in own]
    # One that is empty says what words there would be.
    return found or [{**remade[0][1][0], "added": seen}]


def applied(entry: Json, manifest: Json, seen: int) -> list[str]:
    """Tombstones of a manifest that hold for a shard, of those that were there when manifest `seen` was."""
    names = (own["name"] for own in manifest["tombstones"] if entry["added"] < own["before"] <= seen)
    return sorted(names)


def pruned(entries: Sequence[Json], tombstones: Sequence[Json]) -> list[Json]:
    """The tombstones that are older than none of the shards they would be for."""
    return [own for own in tombstones if any(entry["added"] < own["before"] for entry in entries)]


def identity(entry: Json) -> tuple[str, str, int]:
    """Of a shard as a manifest has it: one that was published anew is another."""
    return entry["key"], entry["attempt"], entry["added"]
