"""Building, growing and compacting a set of shards on Ray.

Two phases that do not overlap, so that reads and encoders never wait for each other's CPUs: Ray Data reads
the dataset and divides its documents among files, one for each block and shard; then a pool of actors, each
with the model in memory, makes a shard of the files of each. Between tasks go names of files, not documents.
"""

import contextlib
import hashlib
import json
import math
import os
import pathlib
import tempfile
import uuid

import ray

import ehi
from ehi import shards as parts

from . import changes, documents, models, publishing, shard
from . import manifest as manifests
from .cleaning import BUILDS
from .errors import DatasetError, ManifestError, PublishConflict, ShardsError
from .merging import MOST_EXACT
from .storage import connect

# Share of a CPU that an actor asks for: two of them leave room for reads on two CPUs.
ACTOR_CPUS = 0.4
# Documents that a tree is made from, for each leaf.
SAMPLE_PER_LEAF = 8
# Leaves of a tree for n documents unless asked otherwise: this times the root of n.
LEAVES_PER_ROOT = 4
_PLAN = "plan.json"


def build(
    dataset,
    model,
    uri,
    *,
    shards=8,
    leaves=None,
    beam=publishing.DEFAULT_BEAM,
    alpha=None,
    words=None,
    precision="f32",
    id=None,
    text="text",
    title=None,
    metadata=None,
    name=None,
    publish=True,
    actors=None,
    num_cpus=ACTOR_CPUS,
    num_gpus=0,
    scratch=None,
    storage_options=None,
    progress=None,
):
    """Builds shards of a dataset and publishes them as the newest state of the set at `uri`.

    `dataset` is a `ray.data.Dataset`, or paths or globs of Parquet or JSON lines. Of several documents with
    one id the last of the input's order stays. `leaves` asks for a tree of so many, made from a sample of the
    documents; without it the model's own is used, and a model without a tree gets one where there are more
    than 10,000 documents. `beam`, and `alpha` of hybrid searches, are what searches take unless asked
    otherwise.

    A build that was cut off goes on where it was when it is called again with the same `name`; without one
    the name follows from model, options and the files' names, sizes and times. Returns a dictionary with
    `shards`, `refused` documents, `documents` and, where it was published, `version`.
    """
    options = check_options(shards, leaves, beam, alpha, words, precision)
    storage = connect(uri, storage_options)
    model = model if isinstance(model, ehi.Model) else ehi.Model(model)
    with _running():
        plan = _planned(
            storage,
            dataset,
            model,
            options,
            {"id": id, "text": text, "title": title, "metadata": metadata},
            name,
            {"num_cpus": num_cpus, "scratch": scratch},
        )
        pool = {"actors": actors, "num_cpus": num_cpus, "num_gpus": num_gpus, "scratch": scratch}
        finished = run_shards(storage, plan, plan["shards"], pool, progress)
    built = _result(plan, finished)
    if publish:
        built["version"] = _publish(uri, built, storage_options)
    return built


def append(
    uri,
    dataset,
    *,
    shards=1,
    id=None,
    text="text",
    title=None,
    metadata=None,
    name=None,
    actors=None,
    num_cpus=ACTOR_CPUS,
    num_gpus=0,
    scratch=None,
    storage_options=None,
    progress=None,
):
    """Adds documents to a published set as new shards; the number of the new manifest, in a dictionary.

    A document whose id is there takes its place. Other publishers may be at work meanwhile.
    """
    storage = connect(uri, storage_options)
    newest = manifests.read(storage)
    options = {name: newest[name] for name in ("words", "precision", "beam", "alpha")}
    options |= {"shards": _at_least_one("shards", shards), "leaves": None, "own_tree": True}
    with tempfile.TemporaryDirectory(prefix="ehi-model-", dir=scratch) as folder, _running():
        model = models.fetch(storage, newest["model"], folder)
        plan = _planned(
            storage,
            dataset,
            model,
            options,
            {"id": id, "text": text, "title": title, "metadata": metadata},
            name,
            {"num_cpus": num_cpus, "scratch": scratch},
        )
        pool = {"actors": actors, "num_cpus": num_cpus, "num_gpus": num_gpus, "scratch": scratch}
        finished = run_shards(storage, plan, plan["shards"], pool, progress)
    built = _result(plan, finished)
    ids = sorted(_ids_of(storage, plan))
    tombstones = changes.write(storage, ids)

    def with_shards(current):
        if current["model"]["hash"] != plan["model"]["hash"]:
            raise ManifestError("the set was changed over to another model meanwhile; append to that")
        known = {entry["key"] for entry in current["shards"]}
        if known.issuperset(entry["key"] for entry in finished):
            return None
        version = current["version"] + 1
        added = [{**entry, "added": version} for entry in finished if entry["rows"]]
        older = [*current["tombstones"], {**tombstones, "before": version}]
        return publishing.assemble(storage, current, [*current["shards"], *added], older)

    built["version"] = publishing.change(storage, with_shards)
    return built


def compact(uri, *, actors=None, num_cpus=ACTOR_CPUS, scratch=None, storage_options=None, progress=None):
    """Makes new shards without deleted documents of those that have any; the number of the new manifest.

    Nothing is encoded again. Documents that are deleted meanwhile stay deleted.
    """
    storage = connect(uri, storage_options)
    base = manifests.read(storage)
    if not base["tombstones"]:
        return base["version"]
    with _running():
        pool = {"actors": actors, "num_cpus": num_cpus, "num_gpus": 0, "scratch": scratch}
        tasks = [
            ("compacted", entry, base["tombstones"])
            for entry in base["shards"]
            if any(entry["added"] < own["before"] for own in base["tombstones"])
        ]
        made = _run(storage, base["model"], tasks, pool, progress)
    replaced = {task[1]["key"]: entry for task, entry in zip(tasks, made)}
    applied = {own["name"] for own in base["tombstones"]}
    seen = base["version"]

    def with_compacted(current):
        shards, changed = [], False
        for entry in current["shards"]:
            new = replaced.get(entry["key"])
            if new is None:
                shards.append(entry)
                continue
            changed = True
            if new["rows"]:
                # It has seen the tombstones of that manifest, and none that came later.
                shards.append({**new, "added": seen})
        if not changed:
            return None
        later = [own for own in current["tombstones"] if own["name"] not in applied]
        return publishing.assemble(storage, current, shards, later)

    return publishing.change(storage, with_compacted)


def check_options(shards, leaves, beam, alpha, words, precision):
    """Options of a build, checked before any work."""
    if leaves is not None:
        _at_least_one("leaves", leaves)
        if leaves < 2:
            raise ValueError("`leaves` is 1; a tree has 2 at least")
    if alpha is not None and not 0 <= alpha <= 1:
        raise ValueError(f"`alpha` is {alpha}; it is from 0 to 1")
    if words == "none" and alpha is not None:
        raise ValueError("`alpha` is for hybrid searches, which need words")
    if precision not in ("f32", "int8"):
        raise ValueError(f"`precision` is `{precision}`; known are f32 and int8")
    return {
        "shards": _at_least_one("shards", shards),
        "leaves": leaves,
        "beam": _at_least_one("beam", beam),
        "alpha": alpha,
        "words": words,
        "precision": precision,
    }


def _at_least_one(name, value):
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"`{name}` is {value!r}; it is a whole number from 1")
    return value


@contextlib.contextmanager
def _running():
    """Starts Ray where it does not run, and leaves one that does as it is."""
    started = not ray.is_initialized()
    if started:
        ray.init(include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    try:
        yield
    finally:
        if started:
            ray.shutdown()


def _publish(uri, built, storage_options):
    while True:
        try:
            return publishing.publish(uri, built, storage_options=storage_options)
        except PublishConflict:
            # Another state came first; this one replaces it as a whole, as it would have a second before.
            continue


def _result(plan, finished):
    refused = [own for entry in finished for own in entry["refused"]]
    return {
        "name": plan["name"],
        "model": plan["model"],
        **{name: plan["options"][name] for name in ("words", "precision", "beam", "alpha")},
        "shards": [entry for entry in finished if entry["rows"]] or finished[:1],
        "documents": sum(entry["rows"] for entry in finished),
        "refused": refused,
    }


def _planned(storage, dataset, model, options, columns, name, work):
    """What is to be built: that of an earlier call with this name, or of this one."""
    name = name or _name_of(dataset, model, options, columns)
    if not name.replace("-", "").replace("_", "").isalnum():
        raise ValueError(f"`name` is `{name}`; it is of letters, digits, - and _")
    place = f"{BUILDS}/{name}/{_PLAN}"
    try:
        plan = json.loads(storage.get(place))
    except FileNotFoundError:
        pass
    else:
        if plan["base"] != model.hash or plan["options"] != options:
            raise ShardsError(f"the build `{name}` was begun with another model or other options")
        return plan
    data = read_dataset(dataset)
    schema = data.schema()
    if schema is None or not schema.names:
        raise DatasetError("the dataset is empty")
    columns = documents.choose(schema.names, **columns)
    files = _spool(storage, data, columns, options["shards"], f"{BUILDS}/{name}", work)
    rows = sum(file["rows"] for own in files for file in own)
    if rows == 0:
        raise DatasetError("the dataset is empty")
    base, model = model.hash, _with_tree(storage, model, options, files, rows, work)
    entry = models.store(storage, model)
    of_shard = {"words": options["words"], "precision": options["precision"]}
    shards = []
    for inputs in files:
        sums = [file["sha256"] for file in inputs]
        shards.append({"key": shard.key_of(model.hash, of_shard, sums), "inputs": inputs})
    # Shards without documents have the same inputs, none.
    shards = [own for own in shards if own["inputs"]]
    plan = {"name": name, "base": base, "model": entry, "options": options, "shards": shards, "rows": rows}
    if storage.create(place, json.dumps(plan).encode()):
        return plan
    # Another driver was first: both go on with its plan.
    return json.loads(storage.get(place))


def _name_of(dataset, model, options, columns):
    """A name for a build of files; of another dataset it cannot be told whether it is the same."""
    if isinstance(dataset, ray.data.Dataset):
        return uuid.uuid4().hex
    files = []
    for path in paths_of(dataset):
        stat = os.stat(path)
        files.append([path, stat.st_size, stat.st_mtime_ns])
    made_from = [model.hash, options, columns, files]
    return hashlib.sha256(json.dumps(made_from, sort_keys=True).encode()).hexdigest()[:24]


def paths_of(dataset):
    """Files by their paths, globs and folders, in the order given; those of a glob or folder by name."""
    given = [dataset] if isinstance(dataset, (str, os.PathLike)) else list(dataset)
    found = []
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


def read_dataset(dataset):
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


def _spool(storage, data, columns, shards, folder, work):
    """Divides the documents among files; those of each shard, in the order of the input."""

    def divide(table):
        own = [[] for _ in range(shards)]
        try:
            lists = {name: table.column(name).to_pylist() for name in table.column_names}
            for document in documents.rows_of(columns, lists):
                own[documents.partition_of(document["id"], shards)].append(document)
            files = []
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

    found = [[] for _ in range(shards)]
    divided = data.map_batches(divide, batch_size=None, batch_format="pyarrow", num_cpus=work["num_cpus"])
    for row in divided.iter_rows():
        if row["error"] is not None:
            raise DatasetError(row["error"])
        for own, file in zip(found, json.loads(row["files"])):
            if file is not None:
                own.append(file)
    return found


def _with_tree(storage, model, options, files, rows, work):
    """The model, with a tree of its own where one is asked for or needed."""
    leaves = options["leaves"]
    if leaves is None:
        if options.get("own_tree") or model.has_tree or rows <= MOST_EXACT:
            return model
        leaves = round(LEAVES_PER_ROOT * math.sqrt(rows))
    most = rows // 2
    if leaves > most:
        raise ValueError(f"`leaves` is {leaves}; {rows} documents make a tree of {most} at most")
    folder = tempfile.mkdtemp(prefix="ehi-tree-", dir=work["scratch"])
    task = ray.remote(num_cpus=work["num_cpus"])(_make_tree)
    sample = min(rows, max(SAMPLE_PER_LEAF * leaves, 2 * leaves, 1_000))
    entry = _unwrapped(
        task.remote(storage, str(model.path), options["precision"], leaves, sample, rows, files, folder)
    )
    return models.fetch(storage, entry, folder)


def _make_tree(storage, path, precision, leaves, sample, rows, files, folder):
    """A tree from documents whose ids have the least hashes, a sample that is the same each time."""
    folder = pathlib.Path(folder)
    share = min(1.0, 1.2 * sample / rows) * 2**64
    # Twice the leaves at least, whatever the hashes say.
    with ehi.Index.create(
        folder / "sample", ehi.Model(path), durability="none", words="none", precision=precision
    ) as index:
        batch, passed_over = [], []
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


def _ids_of(storage, plan):
    for own in plan["shards"]:
        for file in own["inputs"]:
            for document in documents.unpacked(storage.get(file["name"])):
                yield document["id"]


class Worker:
    """An actor that has the model in memory and makes shards."""

    def __init__(self, storage, model, scratch):
        self.storage = storage
        self.folder = tempfile.TemporaryDirectory(prefix="ehi-worker-", dir=scratch)
        self.model = models.fetch(storage, model, self.folder.name)

    def ready(self):
        return os.getpid()

    def run(self, task):
        kind, own, more = task
        if kind == "built":
            return shard.build(self.storage, self.model, own, more, self.folder.name)
        return shard.compacted(self.storage, self.model, own, more, self.folder.name)


def run_shards(storage, plan, shards, pool, progress):
    """Entries of shards, built where they are not finished."""
    tasks = [("built", own, plan["options"]) for own in shards]
    return _run(storage, plan["model"], tasks, pool, progress)


def _run(storage, model, tasks, pool, progress):
    """Runs tasks on a pool of actors of a fixed size: each start loads a model."""
    keys = [own["key"] for _, own, _ in tasks]
    finished = {}
    if all(kind == "built" for kind, _, _ in tasks):
        finished = {key: entry for key in keys if (entry := shard.finished(storage, key))}
    open_tasks = [task for task in tasks if task[1]["key"] not in finished]
    if open_tasks:
        count = pool["actors"] or max(1, min(len(open_tasks), int(ray.cluster_resources().get("CPU", 1))))
        remote = ray.remote(Worker).options(
            num_cpus=pool["num_cpus"],
            num_gpus=pool["num_gpus"],
            # One that is killed comes back, and its shard begins again.
            max_restarts=-1,
            max_task_retries=-1,
        )
        actors = [remote.remote(storage, model, pool["scratch"]) for _ in range(min(count, len(open_tasks)))]
        try:
            waiting, running = list(open_tasks), {}
            for actor in actors:
                if waiting:
                    task = waiting.pop(0)
                    running[actor.run.remote(task)] = (actor, task[1]["key"])
            while running:
                done, _ = ray.wait(list(running), num_returns=1)
                actor, key = running.pop(done[0])
                finished[key] = _unwrapped(done[0])
                if progress is not None:
                    progress(len(finished), len(tasks))
                if waiting:
                    task = waiting.pop(0)
                    running[actor.run.remote(task)] = (actor, task[1]["key"])
        finally:
            for actor in actors:
                ray.kill(actor)
    return [finished[key] for key in keys]


def _unwrapped(reference):
    """The value of a task; what it raised as it was raised."""
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        cause = error.cause if getattr(error, "cause", None) is not None else error
        raise cause from None
