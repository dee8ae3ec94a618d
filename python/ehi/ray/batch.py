"""Many questions at once, offline, through Ray Data."""

from __future__ import annotations

import os
from typing import Any

import ray

from . import manifest as manifests
from .errors import DatasetError
from .merging import plan_of
from .names import Json, Options, Uri
from .pool import ACTOR_CPUS, as_raised, running
from .searcher import default_cache
from .storage import connect


class _Asker:
    """An actor that has a set open."""

    def __init__(
        self,
        uri: str,
        version: int,
        cache: str,
        budget: int | None,
        column: str,
        k: int,
        options: Json,
        storage_options: Options,
    ) -> None:
        from . import searcher

        self.shards = searcher.open(
            uri, version=version, cache=cache, budget=budget, threads=1, storage_options=storage_options
        )
        self.column, self.k, self.options = column, k, options

    def __call__(self, batch: Json) -> Json:
        found: dict[str, list[Any]] = {"hits": [], "scores": [], "partial": []}
        for question in batch[self.column]:
            answer = self.shards.search(str(question), self.k, **self.options)
            found["hits"].append([hit.id for hit in answer.hits])
            found["scores"].append([hit.score for hit in answer.hits])
            found["partial"].append(answer.partial)
        return {**{name: list(values) for name, values in batch.items()}, **found}


def _texts(questions: Any) -> list[str]:
    if isinstance(questions, (list, tuple)) and all(isinstance(own, str) for own in questions):
        return list(questions)
    raise DatasetError(
        f"questions are a `ray.data.Dataset`, or a list of texts, not a {type(questions).__name__}"
        + (" of others" if isinstance(questions, (list, tuple)) else "")
    )


def search_batch(
    uri: Uri,
    questions: Any,
    k: int = 10,
    *,
    column: str = "text",
    actors: int | None = 1,
    num_cpus: float = ACTOR_CPUS,
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
    texts = None if isinstance(questions, ray.data.Dataset) else _texts(questions)
    storage = connect(uri, storage_options)
    manifest = manifests.read(storage)
    # Before a set is opened anywhere.
    plan_of(manifest, k, **options)
    version = manifest["version"]
    # Actors may be in another folder than this program.
    cache = os.path.abspath(default_cache() if cache is None else cache)
    asker = (storage.place, version, cache, budget, column, k, options, storage_options)

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

    if texts is None:
        return asked(questions)
    if not texts:
        return []
    with running(), as_raised():
        context = ray.data.DataContext.get_current()
        context.execution_options.preserve_order = True
        context.enable_progress_bars = False
        rows = asked(ray.data.from_items([{column: text} for text in texts])).take_all()
    return [
        {
            column: row[column],
            "hits": [str(id) for id in row["hits"]],
            "scores": [float(score) for score in row["scores"]],
            "partial": bool(row["partial"]),
        }
        for row in rows
    ]
