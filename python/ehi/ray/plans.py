"""What a build is to make: the documents of a dataset, divided among files, and the shards of each.

The plan is an object that is created if absent, so that a build that was cut off, or that two drivers run,
follows one.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

import ray

import ehi
from ehi import shards as parts

from . import documents, models, shard
from .cleaning import BUILDS
from .errors import DatasetError, ShardsError
from .files import paths_of
from .merging import MOST_EXACT
from .names import Json, Uri
from .options import job_name
from .pool import unwrapped
from .progress import Tell
from .scratch import Scratch
from .spool import spool
from .storage import Storage

# Documents that a tree is made from, for each leaf.
SAMPLE_PER_LEAF = 8
# Leaves of a tree for n documents unless asked otherwise: this times the root of n.
LEAVES_PER_ROOT = 4
_PLAN = "plan.json"


def name_of(
    dataset: Any, of_model: str, options: Json, columns: Json, name: str | None
) -> tuple[str, Any]:
    """The name of a build, and the dataset, its paths found: files say whether a build is the same."""
    if not isinstance(dataset, ray.data.Dataset):
        dataset = paths_of(dataset)
    source = source_of(dataset)
    if name is not None:
        job_name(name)
    elif source is None:
        # It cannot be told whether another dataset is the same.
        name = uuid.uuid4().hex
    else:
        made_from = [documents.RULES, of_model, options, columns, source]
        name = hashlib.sha256(json.dumps(made_from, sort_keys=True).encode()).hexdigest()[:24]
    return name, dataset


def source_of(dataset: Any) -> str | None:
    """Stands for files, their sizes and times. `None` of a dataset of Ray's, for which the name stands."""
    if isinstance(dataset, ray.data.Dataset):
        return None
    files = [[path, (stat := os.stat(path)).st_size, stat.st_mtime_ns] for path in dataset]
    return hashlib.sha256(json.dumps(files).encode()).hexdigest()


def planned(
    storage: Storage,
    dataset: Any,
    model: ehi.Model,
    options: Json,
    columns: Json,
    name: str,
    work: Json,
    tell: Tell,
) -> Json:
    """What is to be built: that of an earlier call with this name, or of this one."""
    place, source = f"{BUILDS}/{name}/{_PLAN}", source_of(dataset)
    try:
        plan = json.loads(storage.get(place))
    except FileNotFoundError:
        pass
    else:
        same = {
            "base": (model.hash, "another model"),
            "options": (options, "other options"),
            "rules": (documents.RULES, "another version of ehi"),
        }
        for what, (own, other) in same.items():
            if plan.get(what) != own:
                raise ShardsError(f"the build `{name}` was begun with {other}; give another `name`")
        return _of_same(plan, name, columns, source)
    files = spool(storage, dataset, columns, options["shards"], f"{BUILDS}/{name}", work, tell)
    rows = sum(file["rows"] for own in files for file in own)
    if rows == 0:
        raise DatasetError("the dataset is empty")
    base, entry = model.hash, _with_tree(storage, model, options, files, rows, work, tell)
    of_shard = {"words": options["words"], "precision": options["precision"]}
    shards = []
    for inputs in files:
        sums = [file["sha256"] for file in inputs]
        shards.append({"key": shard.key_of(entry["hash"], of_shard, sums), "inputs": inputs})
    plan = {
        "name": name,
        "base": base,
        "model": entry,
        "options": options,
        "columns": columns,
        "source": source,
        "rules": documents.RULES,
        # Shards without documents have the same inputs, none.
        "shards": [own for own in shards if own["inputs"]],
        "rows": rows,
    }
    if storage.create(place, json.dumps(plan).encode()):
        return plan
    # Another driver was first: both go on with its plan.
    return _of_same(json.loads(storage.get(place)), name, columns, source)


def _of_same(plan: Json, name: str, columns: Json, source: str | None) -> Json:
    """A plan of an earlier call, if that was for the same files and columns."""
    if plan.get("columns") != columns:
        raise ShardsError(f"the build `{name}` was begun with other columns; give another `name`")
    if plan.get("source") != source:
        raise DatasetError(
            f"the build `{name}` was begun with other files, or with files that have changed since; "
            "give another `name`"
        )
    return plan


def _with_tree(
    storage: Storage,
    model: ehi.Model,
    options: Json,
    files: Sequence[Sequence[Json]],
    rows: int,
    work: Json,
    tell: Tell,
) -> Json:
    """The model in the storage, with a tree of its own where one is asked for or needed."""
    leaves = options["leaves"]
    if leaves is None:
        if options.get("own_tree") or model.has_tree or rows <= MOST_EXACT:
            return models.store(storage, model)
        leaves = leaves_for(rows)
    most = rows // 2
    if leaves > most:
        raise ValueError(f"`leaves` is {leaves}; {rows} documents make a tree of {most} at most")
    sample = min(rows, max(SAMPLE_PER_LEAF * leaves, 2 * leaves, 1_000))
    # Without a tree; wherever the task runs, it is there.
    plain = models.store(storage, model)
    task = ray.remote(num_cpus=work["num_cpus"])(_make_tree)
    tell("Tree", 0, 1)
    made = unwrapped(
        task.remote(storage, plain, options["precision"], leaves, sample, rows, files, work["scratch"])
    )
    tell("Tree", 1, 1)
    return made


def leaves_for(documents: int) -> int:
    """Leaves of a tree for so many documents."""
    return round(LEAVES_PER_ROOT * math.sqrt(documents))


def _make_tree(
    storage: Storage,
    plain: Json,
    precision: str,
    leaves: int,
    sample: int,
    rows: int,
    files: Sequence[Sequence[Json]],
    scratch: Uri | None,
) -> Json:
    """A tree from documents whose ids have the least hashes, a sample that is the same each time."""
    share = min(1.0, 1.2 * sample / rows) * 2**64
    with Scratch("tree", scratch) as folder:
        model = models.fetch(storage, plain, folder)
        options: Json = {"durability": "none", "words": "none", "precision": precision}
        with ehi.Index.create(folder / "sample", model, **options) as index:
            # Twice the leaves at least, whatever the hashes say.
            batch: list[Json] = []
            passed_over: list[Json] = []
            for inputs in files:
                for file in inputs:
                    for document in documents.unpacked(storage.get(file["name"])):
                        digest = hashlib.blake2b(
                            document["id"].encode(), digest_size=8, person=b"ehi-sample"
                        ).digest()
                        into = batch if int.from_bytes(digest, "big") < share else passed_over
                        if into is batch or len(passed_over) < 2 * leaves:
                            into.append(document)
                        if len(batch) >= shard.BATCH:
                            index.add(batch)
                            batch = []
            index.add(batch)
            if len(index) < 2 * leaves:
                index.add(passed_over)
            parts.make_tree(index, folder / "tree", leaves=leaves)
        return models.store(storage, ehi.Model(folder / "tree"))


def ids_of(storage: Storage, plan: Json) -> Iterator[str]:
    for own in plan["shards"]:
        for file in own["inputs"]:
            for document in documents.unpacked(storage.get(file["name"])):
                yield document["id"]
