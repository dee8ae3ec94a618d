"""What a build is to make: the documents of a dataset, divided among files, and the shards of each.

The plan is an object that is created if absent, so that a build that was cut off, or that two drivers run,
follows one.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import pathlib
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

import ray

import ehi
from ehi import shards as parts

from . import documents, models, shard
from .cleaning import BUILDS
from .errors import DatasetError, ShardsError
from .merging import MOST_EXACT
from .names import Json, Uri
from .options import job_name
from .pool import unwrapped
from .scratch import Scratch
from .storage import Storage

# Documents that a tree is made from, for each leaf.
SAMPLE_PER_LEAF = 8
# Leaves of a tree for n documents unless asked otherwise: this times the root of n.
LEAVES_PER_ROOT = 4
_PLAN = "plan.json"


def planned(
    storage: Storage,
    dataset: Any,
    model: ehi.Model,
    options: Json,
    columns: Json,
    name: str | None,
    work: Json,
) -> Json:
    """What is to be built: that of an earlier call with this name, or of this one."""
    source = _source_of(dataset, columns)
    name = job_name(name or _name_of(dataset, model, options, source))
    place = f"{BUILDS}/{name}/{_PLAN}"
    try:
        plan = json.loads(storage.get(place))
    except FileNotFoundError:
        pass
    else:
        if plan["base"] != model.hash or plan["options"] != options:
            raise ShardsError(f"the build `{name}` was begun with another model or other options")
        return _checked(plan, source)
    data = read_dataset(dataset)
    schema = data.schema()
    if schema is None or not schema.names:
        raise DatasetError("the dataset is empty")
    columns = documents.choose(schema.names, **columns)
    files = _spool(storage, data, columns, options["shards"], f"{BUILDS}/{name}", work)
    rows = sum(file["rows"] for own in files for file in own)
    if rows == 0:
        raise DatasetError("the dataset is empty")
    base, entry = model.hash, _with_tree(storage, model, options, files, rows, work)
    of_shard = {"words": options["words"], "precision": options["precision"]}
    shards = []
    for inputs in files:
        sums = [file["sha256"] for file in inputs]
        shards.append({"key": shard.key_of(entry["hash"], of_shard, sums), "inputs": inputs})
    # Shards without documents have the same inputs, none.
    shards = [own for own in shards if own["inputs"]]
    plan = {"name": name, "base": base, "model": entry, "options": options, "shards": shards, "rows": rows}
    plan["source"] = source
    if storage.create(place, json.dumps(plan).encode()):
        return plan
    # Another driver was first: both go on with its plan.
    return _checked(json.loads(storage.get(place)), source)


def _checked(plan: Json, source: str) -> Json:
    """A plan of an earlier call, if that was for the same files and columns."""
    if plan.get("source") != source:
        raise DatasetError(
            f"the build `{plan['name']}` was begun with other files, with files that have changed since, or "
            "with other columns; give another name"
        )
    return plan


def _source_of(dataset: Any, columns: Json) -> str:
    """Stands for columns and files, with their sizes and times. For a dataset of Ray's its name has to."""
    files = None
    if not isinstance(dataset, ray.data.Dataset):
        files = []
        for path in paths_of(dataset):
            stat = os.stat(path)
            files.append([path, stat.st_size, stat.st_mtime_ns])
    return hashlib.sha256(json.dumps([columns, files], sort_keys=True).encode()).hexdigest()


def _name_of(dataset: Any, model: ehi.Model, options: Json, source: str) -> str:
    """A name for a build of files; of another dataset it cannot be told whether it is the same."""
    if isinstance(dataset, ray.data.Dataset):
        return uuid.uuid4().hex
    made_from = [model.hash, options, source]
    return hashlib.sha256(json.dumps(made_from, sort_keys=True).encode()).hexdigest()[:24]


def paths_of(dataset: Any) -> list[str]:
    """Files by their paths, globs and folders, in the order given; those of a glob or folder by name."""
    given = [dataset] if isinstance(dataset, (str, os.PathLike)) else list(dataset)
    found: list[str] = []
    for one in given:
        path = pathlib.Path(one)
        if any(sign in str(one) for sign in "*?["):
            own = sorted(pathlib.Path(path.anchor or ".").glob(str(path.relative_to(path.anchor))))
        elif path.is_dir():
            own = sorted(
                own for own in path.rglob("*") if own.is_file() and not own.name.startswith((".", "_"))
            )
        else:
            own = [path] if path.exists() else []
        if not own:
            raise DatasetError(f"there is no file {one}")
        found.extend(str(own.absolute()) for own in own)
    return found


def read_dataset(dataset: Any) -> Any:
    """A dataset of Ray's, in the order of its input."""
    context = ray.data.DataContext.get_current()
    context.execution_options.preserve_order = True
    context.enable_progress_bars = False
    if isinstance(dataset, ray.data.Dataset):
        dataset.context.execution_options.preserve_order = True
        return dataset
    paths = paths_of(dataset)
    endings = {pathlib.Path(path).name.removesuffix(".gz").rsplit(".", 1)[-1] for path in paths}
    if endings == {"parquet"}:
        return ray.data.read_parquet(paths)
    if endings <= {"jsonl", "json", "ndjson"}:
        return ray.data.read_json(paths, file_extensions=None)
    raise DatasetError(f"files of {', '.join(sorted(endings))}: Parquet and JSON lines are read")


def _spool(
    storage: Storage, data: Any, columns: Json, shards: int, folder: str, work: Json
) -> list[list[Json]]:
    """Divides the documents among files; those of each shard, in the order of the input."""

    def divide(table: Any) -> Iterator[Json]:
        own: list[list[Json]] = [[] for _ in range(shards)]
        try:
            lists = {name: table.column(name).to_pylist() for name in table.column_names}
            for document in documents.rows_of(columns, lists):
                own[documents.partition_of(document["id"], shards)].append(document)
            files: list[Json | None] = []
            for documents_of_shard in own:
                if not documents_of_shard:
                    files.append(None)
                    continue
                packed = documents.packed(documents_of_shard)
                digest = hashlib.sha256(packed).hexdigest()
                name = f"{folder}/spool/{digest}.jsonl.gz"
                # Named by what is in it: a task that runs again writes nothing new.
                storage.create(name, packed)
                files.append({"name": name, "sha256": digest, "rows": len(documents_of_shard)})
            yield {"files": [json.dumps(files)], "error": [None]}
        except DatasetError as error:
            yield {"files": [None], "error": [str(error)]}

    found: list[list[Json]] = [[] for _ in range(shards)]
    divided = data.map_batches(divide, batch_size=None, batch_format="pyarrow", num_cpus=work["num_cpus"])
    for row in divided.iter_rows():
        if row["error"] is not None:
            raise DatasetError(row["error"])
        for own, file in zip(found, json.loads(row["files"])):
            if file is not None:
                own.append(file)
    return found


def _with_tree(
    storage: Storage, model: ehi.Model, options: Json, files: Sequence[Sequence[Json]], rows: int, work: Json
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
    return unwrapped(
        task.remote(storage, plain, options["precision"], leaves, sample, rows, files, work["scratch"])
    )


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
