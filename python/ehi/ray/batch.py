"""Many questions at once, offline, through Ray Data."""

from __future__ import annotations

import os
from typing import Any

import ray

from . import manifest as manifests
from . import searcher
from .errors import DatasetError
from .merging import plan_of
from .names import Json, Options, Uri
from .pool import WORKER_CPUS
from .storage import connect


class _Asker:
    """An actor that has a set open."""

    def __init__(self, uri: str, column: str, k: int, options: Json, of_set: Json) -> None:
        self.shards = searcher.open(uri, threads=1, **of_set)
        self.column, self.k, self.options = column, k, options

    def __call__(self, batch: Json) -> Json:
        answers = [self.shards.search(str(own), self.k, **self.options) for own in batch[self.column]]
        found = {
            "hits": [answer.ids for answer in answers],
            "scores": [[hit.score for hit in answer] for answer in answers],
            "partial": [answer.partial for answer in answers],
        }
        return {**{name: list(values) for name, values in batch.items()}, **found}


def search_batch(
    uri: Uri,
    questions: Any,
    k: int = 10,
    *,
    column: str = "text",
    actors: int | None = 1,
    num_cpus: float = WORKER_CPUS,
    batch_size: int = 64,
    cache: Uri | None = None,
    budget: int | None = None,
    storage_options: Options = None,
    **options: Any,
) -> Any:
    """The answers to a dataset of questions: the dataset with the columns `hits`, `scores` and `partial`.

    `questions` is a `ray.data.Dataset` with texts in a `column`. All are answered by one state of the set, the
    newest when this is called. `options` are those of `Searcher.search`. It is run when it is read.
    """
    if not isinstance(questions, ray.data.Dataset):
        raise DatasetError(f"questions are a `ray.data.Dataset`, not a {type(questions).__name__}")
    storage = connect(uri, storage_options)
    manifest = manifests.read(storage)
    # Before a set is opened anywhere.
    plan_of(manifest, k, **options)
    schema = questions.schema()
    names = schema.names if schema else []
    if column not in names:
        raise DatasetError(f"the questions have no column `{column}`; they have {', '.join(names) or 'none'}")
    # Actors may be in another folder than this program.
    cache = os.path.abspath(searcher.default_cache() if cache is None else cache)
    of_set = {"version": manifest["version"], "cache": cache, "budget": budget}
    return questions.map_batches(
        _Asker,
        fn_constructor_args=(storage.place, column, k, options, {**of_set, "storage_options": storage_options}),
        batch_size=batch_size,
        batch_format="numpy",
        # Each start opens the set.
        compute=ray.data.ActorPoolStrategy(size=actors),
        num_cpus=num_cpus,
    )
