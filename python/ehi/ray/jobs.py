"""Building and growing a set of shards on Ray.

Two phases that do not overlap, so that reads and encoders never wait for each other's CPUs: Ray Data reads
the dataset and divides its documents among files, one for each block and shard (`spool.py`); then a pool of
actors, each with the model in memory, makes a shard of the files of each (`pool.py`). Between tasks go names
of files, not documents.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import ehi

from . import changes, documents, models, publishing, shard
from . import manifest as manifests
from .errors import ManifestError, PublishConflict, ShardsError
from .names import Json, Options, Uri
from .options import whole_number
from .plans import ids_of, name_of, planned, source_of
from .pool import ACTOR_CPUS, check, run, running
from .progress import Progress, Tell, told
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
    text: str | Sequence[str] | None = None,
    title: str | None = None,
    metadata: str | Sequence[str] | None = None,
    name: str | None = None,
    publish: bool = True,
    replace: bool = False,
    actors: int | None = None,
    num_cpus: float = ACTOR_CPUS,
    num_gpus: float = 0,
    scratch: Uri | None = None,
    storage_options: Options = None,
    progress: Progress = None,
) -> Json:
    """Builds shards of a dataset and publishes them as the newest state of the set at `uri`.

    `dataset` is a `ray.data.Dataset`, or paths, globs or folders of Parquet or of JSON lines. Of several
    documents with one id the last of the input's order stays. The columns are those of `ehi insert`: the id
    is in `_id` or `id`, `title` is taken if it is there, `text` may be several columns, and all others are
    the metadata, the members of an object `metadata` beside them. `metadata` as a list names the columns
    that become fields, `[]` none; as a text, one column of objects, or of their JSON, that are the
    metadata.

    `leaves` asks for a tree of so many, made from a sample of the documents; without it the model's own is
    used, and a model without a tree gets one where there are more than 10,000 documents. `beam`, and
    `alpha` of hybrid searches, are what searches take unless asked otherwise.

    A set that is there is an error unless `replace=True` is given. A build that was cut off goes on where
    it was when it is called again with the same `name`, and one that is published already returns what is
    there; without a name it follows from model, options, columns and the files' names, sizes and times. A
    name that was used for other files or columns is an error; of a `ray.data.Dataset` it cannot be told, so
    that the name stands for the data, and a new dataset needs a new one. `progress` is a function of stage
    (Read, Tree, Shards), done and total, or `True` for bars. Returns a dictionary with `shards`, `refused`
    documents, `documents` and, where it was published, `version`.
    """
    options = check_options(shards, leaves, beam, alpha, words, precision)
    columns = documents.given(id, text, title, metadata)
    storage = connect(uri, storage_options)
    model = model if isinstance(model, ehi.Model) else ehi.Model(model)
    name, dataset = name_of(dataset, model.hash, options, columns, name)
    known = (name, source_of(dataset))
    if publish and (done := _published(uri, storage, manifests.latest_version(storage), known, replace)):
        return done
    work = {"num_cpus": num_cpus, "scratch": scratch, "required": documents.optional(columns)}
    pool = {"actors": actors, "num_cpus": num_cpus, "num_gpus": num_gpus, "scratch": scratch}
    with told(progress) as tell, running():
        check(pool)
        plan = planned(storage, dataset, model, options, columns, name, work, tell)
        finished = _run_shards(storage, plan, pool, tell)
    built = _result(plan, finished)
    if publish:
        built["version"] = _publish(uri, storage, built, replace)
    return built


def append(
    uri: Uri,
    dataset: Any,
    *,
    shards: int = 1,
    id: str | None = None,
    text: str | Sequence[str] | None = None,
    title: str | None = None,
    metadata: str | Sequence[str] | None = None,
    name: str | None = None,
    actors: int | None = None,
    num_cpus: float = ACTOR_CPUS,
    num_gpus: float = 0,
    scratch: Uri | None = None,
    storage_options: Options = None,
    progress: Progress = None,
) -> Json:
    """Adds documents to a published set as new shards; the number of the new manifest, in a dictionary.

    A document whose id is there takes its place; one that is refused takes no place. Other publishers may be
    at work meanwhile. A call that was cut off is published once when it is made again, with the same `name`
    or of the same files. One whose documents have been deleted or replaced since is published anew. The
    columns, and `progress`, are as in `build`; those that are not named are those that the build was given.
    """
    own = documents.given(id, text, title, metadata)
    storage = connect(uri, storage_options)
    newest = manifests.read(storage)
    asked = {column: names for column, names in own.items() if names is not None}
    # Together, since a column may be named once.
    columns = documents.given(**{**(newest.get("columns") or {}), **asked})
    options = {name: newest[name] for name in ("words", "precision", "beam", "alpha")}
    options |= {"shards": whole_number("shards", shards), "leaves": None, "own_tree": True}
    work = {"num_cpus": num_cpus, "scratch": scratch, "required": documents.optional(own)}
    pool = {"actors": actors, "num_cpus": num_cpus, "num_gpus": num_gpus, "scratch": scratch}
    name, dataset = name_of(dataset, newest["model"]["hash"], options, columns, name)
    with told(progress) as tell, Scratch("model", scratch) as folder, running():
        check(pool)
        model = models.fetch(storage, newest["model"], folder)
        plan = planned(storage, dataset, model, options, columns, name, work, tell)
        finished = _run_shards(storage, plan, pool, tell)
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
    check_words(words)
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


def check_words(words: str | None) -> None:
    """A `ValueError` where it names no way to find words."""
    try:
        # It says that before it finds that there can be no such folder.
        ehi.Index.create(f"{os.devnull}/index", f"{os.devnull}/model", words=words)
    except ehi.Error:
        pass


def _published(
    uri: Uri, storage: Storage, version: int, build: tuple[str, str | None], replace: bool
) -> Json | None:
    """What a build, by its name and files, has returned if it is the newest state, `version`. `ShardsError`
    where that is another one's, unless it may be replaced.
    """
    if version == 0:
        return None
    newest = manifests.read(storage, version)
    name = build[0]
    if (newest.get("build"), newest.get("source")) == build:
        shards = [
            {own: value for own, value in entry.items() if own != "added"} for entry in newest["shards"]
        ]
        return _told({**newest, "name": name}, shards, version)
    if replace:
        return None
    raise ShardsError(
        f"there is a set at {os.fspath(uri)}, version {version}: `append` adds documents to it, "
        "`replace=True` puts what is built in its place"
    )


def _publish(uri: Uri, storage: Storage, built: Json, replace: bool) -> int:
    while True:
        newest = manifests.latest_version(storage)
        if done := _published(uri, storage, newest, (built["name"], built.get("source")), replace):
            # Another driver of this build was first.
            return done["version"]
        try:
            return publishing.publish_at(storage, built, newest)
        except PublishConflict:
            continue


def _result(plan: Json, finished: Sequence[Json]) -> Json:
    kept = [entry for entry in finished if entry["rows"]] or list(finished[:1])
    # Those of shards without a document would be forgotten.
    refused = [own for entry in finished if entry not in kept for own in entry["refused"]]
    kept[0] = {**kept[0], "refused": [*kept[0]["refused"], *refused]}
    return _told({**plan, **plan["options"]}, kept, None)


def _told(of: Json, shards: Sequence[Json], version: int | None) -> Json:
    shared = ("name", "model", "columns", "words", "precision", "beam", "alpha")
    built = {
        **{name: of[name] for name in shared},
        "source": of.get("source"),
        "shards": shards,
        "documents": sum(entry["rows"] for entry in shards),
        "refused": [own for entry in shards for own in entry["refused"]],
    }
    return built if version is None else {**built, "version": version}


def _run_shards(storage: Storage, plan: Json, pool: Json, tell: Tell) -> list[Json]:
    """Entries of a plan's shards, built where they are not finished."""
    tasks = [{"kind": "built", "options": plan["options"], **own} for own in plan["shards"]]
    return run(storage, plan["model"], tasks, pool, tell)
