"""Building and growing a set of shards on Ray.

Two phases that do not overlap, so that reads and encoders never wait for each other's CPUs: Ray Data reads
the dataset and divides its documents among files, one for each block and shard (`spool.py`); then workers
make a shard of the files of each (`pool.py`). Between tasks go names of files, not documents.

What is to be made is a plan, an object that is created if absent, so that a build that was cut off, or that
two drivers run, follows one.
"""

from __future__ import annotations

import contextlib
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
from .basics import DatasetError, ManifestError, PublishConflict, ShardsError
from .basics import Json, Uri, digest_of, job_name, whole_number
from .merging import MOST_EXACT
from .pool import RayJob
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
    publish: bool = True,
    replace: bool = False,
    **options: Any,
) -> Json:
    """Builds shards of a dataset and publishes them as the newest state of the set at `uri`.

    `dataset` is a `ray.data.Dataset`, or paths, globs or folders of Parquet or of JSON lines. Of several
    documents with one id the last of the input's order stays. The columns are those of `ehi insert`: the id
    is in `_id` or `id`, `title` is taken if it is there, `text` may be several columns, and all others are
    the metadata, together with the members of an object `metadata`. `metadata` as a list names the columns
    that become fields, `[]` none; as a text, one column of objects, or of their JSON, that are the
    metadata.

    `leaves` asks for a tree with that many, made from a sample of the documents; without it the model's own is
    used, and a model without a tree gets one where there are more than 10,000 documents. `beam`, and
    `alpha` of hybrid searches, are what searches take unless asked otherwise. Further `options` are those of
    `RayJob`; stages of its `progress` are Read, Tree and Shards.

    A set that is there is an error unless `replace=True` is given. A build that was cut off goes on where
    it was when it is called again with the same `name`, and one that is published already returns what is
    there; without a name it follows from model, options, columns and the files' names, sizes and times. A
    name that was used for other files or columns is an error; of a `ray.data.Dataset` it cannot be told, so
    that the name stands for the data, and a new dataset needs a new one. Returns a dictionary with `shards`,
    `refused` documents, `documents` and, where it was published, `version`.
    """
    of_build = _checked(shards, leaves, beam, alpha, words, precision)
    columns = documents.given(id, text, title, metadata)
    job = RayJob(uri, **options)
    model = model if isinstance(model, ehi.Model) else ehi.Model(model)
    name, dataset = name_of(dataset, model.hash, of_build, columns, name)
    if publish and (
        done := _published(job, manifests.latest_version(job.storage), name, source_of(dataset), replace)
    ):
        return done
    with job.running():
        plan = planned(job, dataset, model, of_build, columns, name, documents.optional(columns))
        built = _result(plan, job.make(plan["model"], tasks_of(plan)))
    if publish:
        built["version"] = _publish(job, built, replace)
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
    **options: Any,
) -> Json:
    """Adds documents to a published set as new shards; the number of the new manifest, in a dictionary.

    A document whose id is there takes its place; one that is refused takes no place. Other publishers may be
    at work meanwhile. A call that was cut off is published once when it is made again, with the same `name`
    or of the same files. One whose documents have been deleted or replaced since is published anew. The
    columns and `options` are as in `build`; columns that are not named are those that the build was given.
    """
    own = documents.given(id, text, title, metadata)
    job = RayJob(uri, **options)
    newest = manifests.read(job.storage)
    asked = {column: names for column, names in own.items() if names is not None}
    # Together, because a column may be named only once.
    columns = documents.given(**{**(newest.get("columns") or {}), **asked})
    of_build = {name: newest[name] for name in ("words", "precision", "beam", "alpha")}
    of_build |= {"shards": whole_number("shards", shards), "leaves": None, "own_tree": True}
    name, dataset = name_of(dataset, newest["model"]["hash"], of_build, columns, name)
    with work_folder("model", job.scratch) as folder, job.running():
        model = models.fetch(job.storage, newest["model"], folder)
        plan = planned(job, dataset, model, of_build, columns, name, documents.optional(own))
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

    def with_shards(current: Json) -> Json | None:
        if current["model"]["hash"] != plan["model"]["hash"]:
            raise ManifestError("the set was changed over to another model meanwhile; append to that")
        if _is_there(job.storage, current, plan["name"], ids):
            return None
        version = current["version"] + 1
        added = [{**entry, "added": version} for entry in entries]
        # Equal documents make the same shard, which is kept once, as the newest.
        keys = {entry["key"] for entry in entries}
        others = [entry for entry in current["shards"] if entry["key"] not in keys]
        older = [*current["tombstones"], {**tombstones, "before": version}]
        earlier = [own for own in current["appends"] if own["name"] != plan["name"]]
        base = {**current, "appends": [*earlier, {"name": plan["name"], "version": version}]}
        return publishing.assemble(job.storage, base, [*others, *added], older)

    built["version"] = publishing.change(job.storage, with_shards)
    return built


def _is_there(storage: Storage, current: Json, name: str, ids: set[str]) -> bool:
    """Whether an append was published, and none of its documents was deleted or replaced since."""
    for own in current["appends"]:
        if own["name"] == name:
            later = [file for file in current["tombstones"] if own["version"] < file["before"]]
            return not any(ids.intersection(publishing.read_tombstones(storage, file)) for file in later)
    return False


def _checked(
    shards: int, leaves: int | None, beam: int, alpha: float | None, words: str | None, precision: str
) -> Json:
    """Options of a build, checked before any work."""
    if leaves is not None:
        whole_number("leaves", leaves, least=2)
    if alpha is not None and not 0 <= alpha <= 1:
        raise ValueError(f"`alpha` is {alpha}; it is from 0 to 1")
    with contextlib.suppress(ehi.Error):
        # Invalid words raise a `ValueError` before the impossible folder is noticed.
        ehi.Index.create(f"{os.devnull}/index", f"{os.devnull}/model", words=words)
    if words == "none" and alpha is not None:
        raise ValueError("`alpha` is for hybrid searches, which need words")
    if precision not in ("f32", "int8"):
        raise ValueError(f"`precision` is `{precision}`; known are f32 and int8")
    whole_number("shards", shards)
    whole_number("beam", beam)
    shared = {"beam": beam, "alpha": alpha, "words": words, "precision": precision}
    return {"shards": shards, "leaves": leaves, **shared}


def _published(job: RayJob, version: int, name: str, source: str | None, replace: bool) -> Json | None:
    """What a build, by its name and files, has returned if it is the newest state, `version`. `ShardsError`
    where that is another one's, unless it may be replaced.
    """
    if version == 0:
        return None
    newest = manifests.read(job.storage, version)
    if (newest.get("build"), newest.get("source")) == (name, source):
        shards = [
            {own: value for own, value in entry.items() if own != "added"} for entry in newest["shards"]
        ]
        return {**_told({**newest, "name": name}, shards), "version": version}
    if replace:
        return None
    raise ShardsError(
        f"there is a set at {os.fspath(job.uri)}, version {version}: `append` adds documents to it, "
        "`replace=True` puts what is built in its place"
    )


def _publish(job: RayJob, built: Json, replace: bool) -> int:
    while True:
        newest = manifests.latest_version(job.storage)
        if done := _published(job, newest, built["name"], built.get("source"), replace):
            # Another driver of this build was first.
            return done["version"]
        with contextlib.suppress(PublishConflict):
            return publishing.publish_at(job.storage, built, newest)


def _result(plan: Json, finished: Sequence[Json]) -> Json:
    kept = [entry for entry in finished if entry["rows"]] or list(finished[:1])
    # Refusals of shards without documents would be lost.
    refused = [own for entry in finished if entry not in kept for own in entry["refused"]]
    kept[0] = {**kept[0], "refused": [*kept[0]["refused"], *refused]}
    return _told({**plan, **plan["options"]}, kept)


def _told(of: Json, shards: Sequence[Json]) -> Json:
    shared = ("name", "model", "columns", "words", "precision", "beam", "alpha", "source")
    return {
        **{name: of.get(name) for name in shared},
        "shards": shards,
        "documents": sum(entry["rows"] for entry in shards),
        "refused": [own for entry in shards for own in entry["refused"]],
    }


def name_of(dataset: Any, of_model: str, options: Json, columns: Json, name: str | None) -> tuple[str, Any]:
    """The name of a build, and the dataset, its paths found: files say whether a build is the same."""
    if not isinstance(dataset, ray.data.Dataset):
        dataset = paths_of(dataset)
    source = source_of(dataset)
    if name is not None:
        return job_name(name), dataset
    if source is None:
        # It cannot be told whether another dataset is the same.
        return uuid.uuid4().hex, dataset
    made_from = [documents.RULES, of_model, options, columns, source]
    return digest_of(made_from)[:24], dataset


def source_of(dataset: Any) -> str | None:
    """Stands for files, their sizes and times. `None` of a dataset of Ray's, for which the name stands."""
    if isinstance(dataset, ray.data.Dataset):
        return None
    files = [[path, (stat := os.stat(path)).st_size, stat.st_mtime_ns] for path in dataset]
    return digest_of(files)


def planned(
    job: RayJob,
    dataset: Any,
    model: ehi.Model,
    options: Json,
    columns: Json,
    name: str,
    required: Sequence[str],
) -> Json:
    """What is to be built: that of an earlier call with this name, or of this one. `required` are columns
    that some record must have.
    """
    place = f"{publishing.BUILDS}/{name}/plan.json"
    begun = {
        "base": (model.hash, ShardsError, "another model"),
        "options": (options, ShardsError, "other options"),
        "rules": (documents.RULES, ShardsError, "another version of ehi"),
        "columns": (columns, ShardsError, "other columns"),
        "source": (source_of(dataset), DatasetError, "other files, or with files that have changed since"),
    }
    plan: Json | None = read_json(job.storage, place)
    if plan is None:
        plan = {"name": name, **{what: own for what, (own, _, _) in begun.items()}}
        files = spool(job, dataset, columns, options["shards"], f"{publishing.BUILDS}/{name}", required)
        rows = sum(file["rows"] for own in files for file in own)
        if rows == 0:
            raise DatasetError("the dataset is empty")
        plan["model"] = _with_tree(job, model, options, files, rows)
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
    for what, (own, error, other) in begun.items():
        if plan.get(what) != own:
            raise error(f"the build `{name}` was begun with {other}; give another `name`")
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
    made: Json = job.run("Tree", _make_tree, job.storage, plain, *about)
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
    share = min(1.0, 1.2 * sample / rows) * 2**64
    with work_folder("tree", scratch) as folder:
        model = models.fetch(storage, plain, folder)
        options: Json = {"durability": "none", "words": "none", "precision": precision}
        with ehi.Index.create(folder / "sample", model, **options) as index:
            # At least twice the leaves, whatever the hashes.
            batch: list[Json] = []
            passed_over: list[Json] = []
            for document in documents.spooled(storage, inputs):
                if documents.hash_of(document["id"], b"ehi-sample") < share:
                    batch.append(document)
                elif len(passed_over) < 2 * leaves:
                    passed_over.append(document)
                if len(batch) >= shard.BATCH:
                    index.add(batch)
                    batch = []
            index.add(batch)
            if len(index) < 2 * leaves:
                index.add(passed_over)
            parts.make_tree(index, folder / "tree", leaves=leaves)
        return models.store(storage, ehi.Model(folder / "tree"))
