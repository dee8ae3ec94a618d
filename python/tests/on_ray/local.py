"""Sets of a small model, made and changed in this process: what Ray's tasks do, without Ray."""

import contextlib
import gzip
import hashlib

from places import SMALL

import ehi
from ehi.ray import documents as rows
from ehi.ray import building, models, publishing, shard
from ehi.ray import manifest as manifests
from ehi.ray.pool import RayJob, make_shard
from ehi.ray.storage import connect

__all__ = ["document", "local", "made", "planned"]
OPTIONS = {"words": None, "precision": "f32", "beam": 16, "alpha": None}


def document(id, text="word"):
    return {"id": id, "text": text}


def planned(storage, documents, model, options, name, shards=1):
    """A plan for a list of documents."""
    own = [[each for each in documents if rows.partition_of(each["id"], shards) == n] for n in range(shards)]
    entries = []
    for number, part in enumerate(own):
        data = gzip.compress(b"".join(map(rows.line_of, part)), mtime=0)
        digest = hashlib.sha256(data).hexdigest()
        file = {"name": f"builds/{name}/spool/{digest}.jsonl.gz", "sha256": digest, "rows": len(part)}
        storage.create(file["name"], data)
        of_shard = {"words": options["words"], "precision": options["precision"]}
        entries.append({"key": shard.key_of(model.hash, of_shard, [digest]), "inputs": [file]})
    entry = models.store(storage, model)
    shared = {"columns": None, "made_from": name}
    return {"name": name, "model": entry, "options": options, "shards": entries, **shared}


def made(uri, documents, shards=2, name="first"):
    """A set of documents; what `build` returns."""
    storage, model = connect(uri), ehi.Model(SMALL)
    plan = planned(storage, documents, model, OPTIONS, name, shards)
    tasks = building.tasks_of(plan)
    finished = [shard.finished(storage, own["key"]) or shard.build(storage, model, own) for own in tasks]
    built = building._result(plan, finished)
    return {**built, "version": publishing.publish(storage, built, manifests.latest_version(storage))}


def local(monkeypatch, between=lambda: None):
    """Has jobs work in this process; `between` is called when shards are made, and not published yet."""

    def make(job, model, tasks):
        found = [make_shard(job.storage, model, task, None) for task in tasks]
        between()
        return found

    def plan(job, documents, model, begun, named):
        return planned(job.storage, documents, model, begun["options"], begun["name"], begun["options"]["shards"])

    def begun_with(dataset, model, options, columns, name):
        return {"name": name, "made_from": name, "options": options, "columns": columns}, dataset

    monkeypatch.setattr(RayJob, "make", make)
    monkeypatch.setattr(RayJob, "running", lambda job: contextlib.nullcontext())
    monkeypatch.setattr(building, "planned", plan)
    monkeypatch.setattr(building, "begun_with", begun_with)
