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
from .pool import WORKER_CPUS, as_raised, running
from .spool import in_order
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

    `questions` is a `ray.data.Dataset`, or a list of texts. All are answered by one state of the set, the
    newest when this is called. `options` are those of `Searcher.search`. A dataset is run when it is read; of
    a list the answers are returned, as dictionaries.
    """
    is_dataset = isinstance(questions, ray.data.Dataset)
    is_list = isinstance(questions, (list, tuple)) and all(isinstance(own, str) for own in questions)
    if not is_dataset and not is_list:
        raise DatasetError(f"questions are a `ray.data.Dataset`, or a list of texts, not {questions!r:.100}")
    storage = connect(uri, storage_options)
    manifest = manifests.read(storage)
    # Before a set is opened anywhere.
    plan_of(manifest, k, **options)
    # Actors may be in another folder than this program.
    cache = os.path.abspath(searcher.default_cache() if cache is None else cache)
    of_set = {"version": manifest["version"], "cache": cache, "budget": budget}
    asker = (storage.place, column, k, options, {**of_set, "storage_options": storage_options})

    def asked(data: Any) -> Any:
        schema = data.schema()
        names = schema.names if schema else []
        if column not in names:
            raise DatasetError(
                f"the questions have no column `{column}`; they have {', '.join(names) or 'none'}"
            )
        return data.map_batches(
            _Asker,
            fn_constructor_args=asker,
            batch_size=batch_size,
            batch_format="numpy",
            # Each start opens the set.
            compute=ray.data.ActorPoolStrategy(size=actors),
            num_cpus=num_cpus,
        )

    if is_dataset:
        return asked(questions)
    if not questions:
        return []
    with running(), as_raised():
        in_order()
        rows = asked(ray.data.from_items([{column: text} for text in questions])).take_all()
    return [{**row, "hits": list(row["hits"]), "scores": list(row["scores"])} for row in rows]
