"""Shards made from shards: several as one, a part of one, one without what was deleted, or one in the space of
another model. With one encoder nothing is encoded again.
"""

from __future__ import annotations

import hashlib
import json
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

import ehi
from ehi import shards as parts

from . import changes, models, shard
from .cache import Cache
from .names import Json
from .scratch import Scratch
from .storage import Storage

# Ids that are handed to the engine together.
IDS = 100_000


def task(
    model: Json,
    options: Json,
    sources: Sequence[Json],
    tombstones: Sequence[Json],
    part: tuple[int, int] = (0, 1),
    of_model: Json | None = None,
) -> dict[str, Any]:
    """What a worker makes: of the documents of shards that no tombstone of a manifest names, part `part[0]` of
    `part[1]` equal ones. `of_model` is the sources' where `model` is another.
    """
    own: list[Json] = [
        {
            "entry": dict(entry),
            "tombstones": [dict(each) for each in tombstones if entry["added"] < each["before"]],
        }
        for entry in sources
    ]
    shared = {"words": options["words"], "precision": options["precision"]}
    inputs = [[each["entry"]["key"], sorted(file["sha256"] for file in each["tombstones"])] for each in own]
    return {
        "kind": "remade",
        "key": shard.key_of(model["hash"], {**shared, "part": list(part)}, inputs),
        "options": shared,
        "sources": own,
        "part": part,
        "of_model": of_model,
    }


def remake(storage: Storage, model: ehi.Model, task: Json, scratch: pathlib.Path) -> Any:
    """Makes the shard of a task, unless it is finished; its entry.

    Where nothing would change the entry is that of the source, and nothing is made.
    """
    key, options = task["key"], task["options"]
    made = shard.finished(storage, key)
    if made:
        return made
    same_model = task["of_model"] is None
    of_model = model if same_model else models.fetch(storage, task["of_model"], scratch)
    copies = same_model or model.has_encoder_of(of_model)
    refused: list[Any] = []
    with Scratch("remade", scratch) as folder:
        cache = Cache(folder / "sources", model=of_model.path)
        path = folder / "index"
        # No encoder is loaded where none is needed.
        create = {"words": options["words"], "precision": options["precision"], "lazy_encoder": copies}
        with ehi.Index.create(path, model, durability="none", **create) as index:
            for source in task["sources"]:
                base = ehi.Index.open_read_only(
                    cache.path_of(storage, source["entry"], []), lazy_encoder=True
                )
                deleted = set(changes.ids_of(storage, source["tombstones"]))
                there = parts.ids(base)
                ids = [id for id in there if id not in deleted]
                unchanged = len(ids) == len(there) and task["part"] == (0, 1)
                if unchanged and same_model and len(task["sources"]) == 1:
                    return source["entry"]
                for batch in _batches(_part(ids, *task["part"]), IDS if copies else shard.BATCH):
                    if copies:
                        parts.copy(base, index, batch)
                    else:
                        documents = [each for each in base.get(batch) if each is not None]
                        refused.extend(shard.refused_of(index.add(documents)))
                if task["part"][0] == 0:
                    refused.extend(source["entry"]["refused"])
                del base
            index.compact()
        return shard.finish(storage, path, model, key, _content(task), refused)


def _content(task: Json) -> str:
    """Stands for the documents of a task's shard."""
    of = [
        [own["entry"]["content"], sorted(file["sha256"] for file in own["tombstones"])]
        for own in task["sources"]
    ]
    return hashlib.sha256(json.dumps([of, list(task["part"])]).encode()).hexdigest()


def _part(ids: list[str], number: int, count: int) -> list[str]:
    """One of so many parts of equal size, by hashes of ids that have nothing to do with those of a build."""
    if count == 1:
        return ids

    def place(id: str) -> tuple[bytes, str]:
        data = id.encode("utf-8", "surrogatepass")
        return hashlib.blake2b(data, digest_size=8, person=b"ehi-part").digest(), id

    ordered = sorted(ids, key=place)
    return sorted(ordered[number * len(ids) // count : (number + 1) * len(ids) // count])


def _batches(ids: list[str], size: int) -> Iterator[list[str]]:
    for start in range(0, len(ids), size):
        yield ids[start : start + size]
