"""Building and growing a set of shards on Ray.

Two phases that do not overlap, so that reads and encoders never wait for each other's CPUs: Ray Data reads
the dataset and divides its documents among files, one for each block and shard (`spool.py`); then workers
make a shard of the files of each (`pool.py`). Between tasks go names of files, not documents.

What is to be made is a plan, an object that is created if absent, so that a build that was cut off, or that
two drivers run, follows one.
"""

from __future__ import annotations

import contextlib
import heapq
import math
import os
import uuid
from collections.abc import Sequence
from typing import Any

import ray

import ehi
from ehi import shards as parts

from . import documents, models, publishing, shard
from . import manifest as manifests
from .basics import ManifestError, PublishConflict, ShardsError
from .basics import Json, Uri, digest_of, job_name, whole_number
from .merging import MOST_EXACT
from .pool import RayJob
from .publishing import deleted_from
from .scratch import work_folder
from .spool import paths_of, spool
from .storage import Storage, create_json, read_json

# Documents that a tree is made from, for each leaf.
SAMPLE_PER_LEAF = 8
# Default leaves of a tree for n documents: this times the square root of n.
LEAVES_PER_ROOT = 4


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
    replace: bool = False,
    **options: Any,
) -> Json:
    """Builds shards of a dataset and publishes them as the newest state of the set at `uri`.

    `dataset` is a `ray.data.Dataset`, or paths, globs or folders of files that `ehi insert` reads, and the
    columns are those of `ehi insert`. Of several documents with one id the last of the input's order stays.
    `metadata` as a list names the columns that become fields, `[]` none; as a text, one column of objects, or
    of their JSON, that are the metadata.

    `leaves` asks for a tree with that many, made from a sample of the documents; without it the model's own is
    used, and a model without a tree gets one where there are more than 10,000 documents. `beam`, and
    `alpha` of hybrid searches, are what searches take unless asked otherwise. Further `options` are those of
    `RayJob`; stages of its `progress` are Read, Tree and Shards.

    A set that is there is an error unless `replace=True` is given. A build that was cut off goes on where
    it was when it is called again with the same `name`, and one that is published already returns what is
    there; without a name it follows from model, options, columns and the files' names, sizes and times. A
    name that was used for something else is an error; what a `ray.data.Dataset` has cannot be told, so that
    the name stands for the data, and a new dataset needs a new one. Returns a dictionary with `shards`,
    `refused` documents, `documents` and `version`.
    """
    of_build = _checked(shards, leaves, beam, alpha, words, precision)
    columns = documents.given(id, text, title, metadata)
    job = RayJob(uri, **options)
    model = model if isinstance(model, ehi.Model) else ehi.Model(model)
    begun, dataset = begun_with(dataset, model.hash, of_build, columns, name)
    if done := _published(job, manifests.latest_version(job.storage), begun, replace):
        return done
    with job.running():
        plan = planned(job, dataset, model, begun, columns)
        built = _result(plan, job.make(plan["model"], tasks_of(plan)))
    while True:
        newest = manifests.latest_version(job.storage)
        # Another driver of this build may be first.
        if done := _published(job, newest, begun, replace):
            return {**built, "version": done["version"]}
        with contextlib.suppress(PublishConflict):
            return {**built, "version": publishing.publish(job.storage, built, newest)}


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
    **options: Any,
) -> Json:
    """Adds documents to a published set as new shards; the number of the new manifest, in a dictionary.

    A document whose id is there takes its place; one that is refused takes no place. Other publishers may be
    at work meanwhile. A call that was cut off goes on when it is made again, with the same `name` or of the
    same files, and publishes nothing where its documents are there as it would add them. The columns and
    `options` are as in `build`; columns that are not named are those that the build was given.
    """
    own = documents.given(id, text, title, metadata)
    job = RayJob(uri, **options)
    newest = manifests.read(job.storage)
    asked = {column: names for column, names in own.items() if names is not None}
    # Together, because a column may be named only once.
    columns = documents.given(**{**(newest.get("columns") or {}), **asked})
    of_build = {name: newest[name] for name in ("words", "precision", "beam", "alpha")}
    of_build |= {"shards": whole_number("shards", shards), "leaves": None, "own_tree": True}
    begun, dataset = begun_with(dataset, newest["model"]["hash"], of_build, columns, name)
    with work_folder("model", job.scratch) as folder, job.running():
        model = models.fetch(job.storage, newest["model"], folder)
        plan = planned(job, dataset, model, begun, own)
        finished = job.make(plan["model"], tasks_of(plan))
    built = _result(plan, finished)
    entries = [entry for entry in finished if entry["rows"]]
    if not entries:
        built["version"] = manifests.latest_version(job.storage)
        return built
    inputs = [file for task in plan["shards"] for file in task["inputs"]]
    ids = {document["id"] for document in documents.spooled(job.storage, inputs)}
    ids = ids.difference(*(shard.not_stored(entry) for entry in finished))
    tombstones = publishing.write_tombstones(job.storage, ids)
    # Equal documents make the same shard, which is kept once, as the newest.
    keys = {entry["key"] for entry in entries}

    def with_shards(current: Json) -> Json | None:
        if current["model"]["hash"] != plan["model"]["hash"]:
            raise ManifestError("the set was changed over to another model meanwhile; append to that")
        there = [entry for entry in current["shards"] if entry["key"] in keys]
        gone = {id for entry in there for id in deleted_from(job.storage, entry, current["tombstones"])}
        if len(there) == len(keys) and not ids.intersection(gone):
            return None
        version = current["version"] + 1
        added = [{**entry, "added": version} for entry in entries]
        others = [entry for entry in current["shards"] if entry["key"] not in keys]
        older = [*current["tombstones"], {**tombstones, "before": version}]
        return publishing.assemble(job.storage, current, [*others, *added], older)

    built["version"] = publishing.change(job.storage, with_shards)
    return built


def _checked(
    shards: int, leaves: int | None, beam: int, alpha: float | None, words: str | None, precision: Any
) -> Json:
    """Options of a build, checked before any work."""
    if leaves is not None:
        whole_number("leaves", leaves, least=2)
    if alpha is not None and not 0 <= alpha <= 1:
        raise ValueError(f"`alpha` is {alpha}; it is from 0 to 1")
    with contextlib.suppress(ehi.Error):
        # Bad values raise a `ValueError` before the impossible folder is noticed.
        ehi.Index.create(f"{os.devnull}/index", f"{os.devnull}/model", words=words, precision=precision)
    if words == "none" and alpha is not None:
        raise ValueError("`alpha` is for hybrid searches, which need words")
    whole_number("shards", shards)
    whole_number("beam", beam)
    shared = {"beam": beam, "alpha": alpha, "words": words, "precision": precision}
    return {"shards": shards, "leaves": leaves, **shared}


def _published(job: RayJob, version: int, begun: Json, replace: bool) -> Json | None:
    """What a build has returned if it is the newest state, `version`. `ShardsError` where that is another
    one's, unless it may be replaced.
    """
    if version == 0:
        return None
    newest = manifests.read(job.storage, version)
    if newest.get("build") == [begun["name"], begun["made_from"]]:
        shards = [
            {own: value for own, value in entry.items() if own != "added"} for entry in newest["shards"]
        ]
        return {**_told({**newest, **begun}, shards), "version": version}
    if replace:
        return None
    raise ShardsError(
        f"there is a set at {os.fspath(job.uri)}, version {version}: `append` adds documents to it, "
        "`replace=True` puts what is built in its place"
    )


def _result(plan: Json, finished: Sequence[Json]) -> Json:
    kept = [entry for entry in finished if entry["rows"]] or list(finished[:1])
    # Refusals of shards without documents would be lost.
    refused = [own for entry in finished if entry not in kept for own in entry["refused"]]
    kept[0] = {**kept[0], "refused": [*kept[0]["refused"], *refused]}
    return _told({**plan, **plan["options"]}, kept)


def _told(of: Json, shards: Sequence[Json]) -> Json:
    shared = ("name", "made_from", "model", "columns", "words", "precision", "beam", "alpha")
    return {
        **{name: of[name] for name in shared},
        "shards": shards,
        "documents": sum(entry["rows"] for entry in shards),
        "refused": [own for entry in shards for own in entry["refused"]],
    }


def begun_with(
    dataset: Any, of_model: str, options: Json, columns: Json, name: str | None
) -> tuple[Json, Any]:
    """What a build is made from, by which it is known again, and the dataset, its paths found."""
    is_files = not isinstance(dataset, ray.data.Dataset)
    # Files stand for their content; for a dataset of Ray's its name stands.
    dataset = paths_of(dataset) if is_files else dataset
    stats = [(path, os.stat(path)) for path in dataset] if is_files else []
    files = [[path, of.st_size, of.st_mtime_ns] for path, of in stats]
    made_from = digest_of([documents.RULES, of_model, options, columns, files])
    if name is None:
        name = made_from[:24] if is_files else uuid.uuid4().hex
    return {"name": job_name(name), "made_from": made_from, "options": options, "columns": columns}, dataset


def planned(job: RayJob, dataset: Any, model: ehi.Model, begun: Json, named: Json) -> Json:
    """What is to be built: that of an earlier call with this name, or of this one. Some record must have each
    column that is `named`.
    """
    name, options = begun["name"], begun["options"]
    place = f"{publishing.BUILDS}/{name}/plan.json"
    plan: Json | None = read_json(job.storage, place)
    if plan is None:
        folder, required = f"{publishing.BUILDS}/{name}", documents.named(named)
        files = spool(job, dataset, begun["columns"], options["shards"], folder, required)
        rows = sum(file["rows"] for own in files for file in own)
        if rows == 0:
            raise ehi.DataError("the dataset is empty")
        plan = {**begun, "model": _with_tree(job, model, options, files, rows)}
        of_shard = {"words": options["words"], "precision": options["precision"]}
        # Shards without documents have the same inputs, none.
        plan["shards"] = [
            {
                "key": shard.key_of(plan["model"]["hash"], of_shard, [file["sha256"] for file in inputs]),
                "inputs": inputs,
            }
            for inputs in filter(None, files)
        ]
        # If another driver was first, both continue with its plan.
        plan = create_json(job.storage, place, plan)
    if plan["made_from"] != begun["made_from"]:
        raise ShardsError(
            f"the build `{name}` was begun with another model, other options, columns or files, or files that "
            "have changed since; give another `name`"
        )
    return plan


def tasks_of(plan: Json) -> list[Json]:
    """Tasks that make the shards of a plan."""
    return [{"make": shard.build, "options": plan["options"], **own} for own in plan["shards"]]


def _with_tree(
    job: RayJob, model: ehi.Model, options: Json, files: Sequence[Sequence[Json]], rows: int
) -> Json:
    """The model in the storage, with a tree of its own where one is asked for or needed."""
    # Without a tree; wherever the task runs, it is there.
    plain = models.store(job.storage, model)
    leaves = options["leaves"]
    if leaves is None:
        if options.get("own_tree") or model.has_tree or rows <= MOST_EXACT:
            return plain
        leaves = leaves_for(rows)
    most = rows // 2
    if leaves > most:
        raise ValueError(f"`leaves` is {leaves}; {rows} documents make a tree of {most} at most")
    inputs = [file for own in files for file in own]
    about = (options["precision"], leaves, rows, inputs, job.scratch)
    made: Json = job.run("tree", _make_tree, job.storage, plain, *about)
    return made


def leaves_for(documents: int) -> int:
    """Leaves of a tree for so many documents."""
    return round(LEAVES_PER_ROOT * math.sqrt(documents))


def _make_tree(
    storage: Storage,
    plain: Json,
    precision: str,
    leaves: int,
    rows: int,
    inputs: Sequence[Json],
    scratch: Uri | None,
) -> Json:
    """A tree from documents whose ids have the least hashes, a sample that is the same each time."""
    sample = min(rows, max(SAMPLE_PER_LEAF * leaves, 1_000))
    every = documents.spooled(storage, inputs)
    chosen = heapq.nsmallest(sample, every, key=lambda own: documents.hash_of(own["id"], b"ehi-sample"))
    with work_folder("tree", scratch) as folder:
        model = models.fetch(storage, plain, folder)
        options: Json = {"durability": "none", "words": "none", "precision": precision, "passages": False}
        with ehi.Index.create(folder / "sample", model, **options) as index:
            index.add(chosen)
            parts.make_tree(index, folder / "tree", leaves=leaves)
        return models.store(storage, ehi.Model(folder / "tree"))
