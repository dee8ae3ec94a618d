"""Building and growing a set of shards on Ray.

Two phases that do not overlap, so that reads and encoders never wait for each other's CPUs: Ray Data reads
the dataset and divides its documents among files, one for each block and shard (`plans.py`); then a pool of
actors, each with the model in memory, makes a shard of the files of each (`pool.py`). Between tasks go names
of files, not documents.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ehi

from . import changes, models, publishing, shard
from . import manifest as manifests
from .errors import ManifestError, PublishConflict
from .names import Json, Options, Uri
from .options import whole_number
from .plans import ids_of, planned
from .pool import ACTOR_CPUS, check, run, running
from .scratch import Scratch
from .storage import Storage, connect


def build(
    dataset: Any,
    model: ehi.Model | Uri,
    uri: Uri,
    *,
    shards: int = 8,
    leaves: int | None = None,
    beam: int = publishing.DEFAULT_BEAM,
    alpha: float | None = None,
    words: str | None = None,
    precision: str = "f32",
    id: str | None = None,
    text: str = "text",
    title: str | None = None,
    metadata: str | Sequence[str] | None = None,
    name: str | None = None,
    publish: bool = True,
    actors: int | None = None,
    num_cpus: float = ACTOR_CPUS,
    num_gpus: float = 0,
    scratch: Uri | None = None,
    storage_options: Options = None,
    progress: Callable[[int, int], object] | None = None,
) -> Json:
    """Builds shards of a dataset and publishes them as the newest state of the set at `uri`.

    `dataset` is a `ray.data.Dataset`, or paths or globs of Parquet or JSON lines. Of several documents with
    one id the last of the input's order stays. `leaves` asks for a tree of so many, made from a sample of the
    documents; without it the model's own is used, and a model without a tree gets one where there are more
    than 10,000 documents. `beam`, and `alpha` of hybrid searches, are what searches take unless asked
    otherwise.

    A build that was cut off goes on where it was when it is called again with the same `name`; without one
    the name follows from model, options and the files' names, sizes and times. A name that was used for other
    files or columns is an error; of a `ray.data.Dataset` it cannot be told, so that there the name stands for
    the data, and a new dataset needs a new one. Returns a dictionary with
    `shards`, `refused` documents, `documents` and, where it was published, `version`.
    """
    options = check_options(shards, leaves, beam, alpha, words, precision)
    storage = connect(uri, storage_options)
    model = model if isinstance(model, ehi.Model) else ehi.Model(model)
    pool = {"actors": actors, "num_cpus": num_cpus, "num_gpus": num_gpus, "scratch": scratch}
    with running():
        check(pool)
        plan = planned(
            storage,
            dataset,
            model,
            options,
            {"id": id, "text": text, "title": title, "metadata": metadata},
            name,
            {"num_cpus": num_cpus, "scratch": scratch},
        )
        finished = _run_shards(storage, plan, pool, progress)
    built = _result(plan, finished)
    if publish:
        built["version"] = _publish(uri, built, storage_options)
    return built


def append(
    uri: Uri,
    dataset: Any,
    *,
    shards: int = 1,
    id: str | None = None,
    text: str = "text",
    title: str | None = None,
    metadata: str | Sequence[str] | None = None,
    name: str | None = None,
    actors: int | None = None,
    num_cpus: float = ACTOR_CPUS,
    num_gpus: float = 0,
    scratch: Uri | None = None,
    storage_options: Options = None,
    progress: Callable[[int, int], object] | None = None,
) -> Json:
    """Adds documents to a published set as new shards; the number of the new manifest, in a dictionary.

    A document whose id is there takes its place; one that is refused takes no place. Other publishers may be
    at work meanwhile. A call that was cut off is published once when it is made again, with the same `name`
    or of the same files. One whose documents have been deleted or replaced since is published anew.
    """
    storage = connect(uri, storage_options)
    newest = manifests.read(storage)
    options = {name: newest[name] for name in ("words", "precision", "beam", "alpha")}
    options |= {"shards": whole_number("shards", shards), "leaves": None, "own_tree": True}
    pool = {"actors": actors, "num_cpus": num_cpus, "num_gpus": num_gpus, "scratch": scratch}
    with Scratch("model", scratch) as folder, running():
        check(pool)
        model = models.fetch(storage, newest["model"], folder)
        plan = planned(
            storage,
            dataset,
            model,
            options,
            {"id": id, "text": text, "title": title, "metadata": metadata},
            name,
            {"num_cpus": num_cpus, "scratch": scratch},
        )
        finished = _run_shards(storage, plan, pool, progress)
    built = _result(plan, finished)
    entries = [entry for entry in finished if entry["rows"]]
    if not entries:
        built["version"] = manifests.latest_version(storage)
        return built
    ids = set(ids_of(storage, plan)).difference(*(shard.not_stored(entry) for entry in finished))
    tombstones = changes.write(storage, ids)

    def with_shards(current: Json) -> Json | None:
        if current["model"]["hash"] != plan["model"]["hash"]:
            raise ManifestError("the set was changed over to another model meanwhile; append to that")
        if _is_there(storage, current, plan["name"], ids):
            return None
        version = current["version"] + 1
        added = [{**entry, "added": version} for entry in entries]
        # One that is made of the same documents is the same shard, and is there once, as the newest.
        keys = {entry["key"] for entry in entries}
        others = [entry for entry in current["shards"] if entry["key"] not in keys]
        older = [*current["tombstones"], {**tombstones, "before": version}]
        earlier = [own for own in current.get("appends", []) if own["name"] != plan["name"]]
        base = {**current, "appends": [*earlier, {"name": plan["name"], "version": version}]}
        return publishing.assemble(storage, base, [*others, *added], older)

    built["version"] = publishing.change(storage, with_shards)
    return built


def _is_there(storage: Storage, current: Json, name: str, ids: set[str]) -> bool:
    """Whether an append was published, and none of its documents was deleted or replaced since."""
    published = [own["version"] for own in current.get("appends", []) if own["name"] == name]
    later = [file for file in current["tombstones"] if published and published[-1] < file["before"]]
    return bool(published) and not any(ids.intersection(changes.read(storage, file)) for file in later)


def check_options(
    shards: int, leaves: int | None, beam: int, alpha: float | None, words: str | None, precision: str
) -> Json:
    """Options of a build, checked before any work."""
    if leaves is not None:
        whole_number("leaves", leaves)
        if leaves < 2:
            raise ValueError("`leaves` is 1; a tree has 2 at least")
    if alpha is not None and not 0 <= alpha <= 1:
        raise ValueError(f"`alpha` is {alpha}; it is from 0 to 1")
    if words == "none" and alpha is not None:
        raise ValueError("`alpha` is for hybrid searches, which need words")
    if precision not in ("f32", "int8"):
        raise ValueError(f"`precision` is `{precision}`; known are f32 and int8")
    return {
        "shards": whole_number("shards", shards),
        "leaves": leaves,
        "beam": whole_number("beam", beam),
        "alpha": alpha,
        "words": words,
        "precision": precision,
    }


def _publish(uri: Uri, built: Json, storage_options: Options) -> int:
    while True:
        try:
            return publishing.publish(uri, built, storage_options=storage_options)
        except PublishConflict:
            # Another state came first; this one replaces it as a whole, as it would have a second before.
            continue


def _result(plan: Json, finished: Sequence[Json]) -> Json:
    refused = [own for entry in finished for own in entry["refused"]]
    return {
        "name": plan["name"],
        "model": plan["model"],
        **{name: plan["options"][name] for name in ("words", "precision", "beam", "alpha")},
        "shards": [entry for entry in finished if entry["rows"]] or finished[:1],
        "documents": sum(entry["rows"] for entry in finished),
        "refused": refused,
    }


def _run_shards(
    storage: Storage, plan: Json, pool: Json, progress: Callable[[int, int], object] | None
) -> list[Json]:
    """Entries of a plan's shards, built where they are not finished."""
    tasks = [{"kind": "built", "options": plan["options"], **own} for own in plan["shards"]]
    return run(storage, plan["model"], tasks, pool, progress)
