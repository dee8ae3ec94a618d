"""Shards: one collection over many immutable indexes of one model, on a folder or an object store.

    import ehi.ray

    ehi.ray.build("abstracts/*.parquet", model="models/scifact-minilm", uri="s3://bucket/abstracts", shards=8)
    with ehi.ray.open("s3://bucket/abstracts") as shards:
        for hit in shards.search("does vitamin d protect against infection?", k=10):
            print(hit.score, hit.id)

`build`, `append`, `compact`, `retrain`, `adopt`, `serve` and `search_batch` run on Ray
(`pip install "ehi[ray]"`); `open`, `delete`, `judge`, `forget`, `versions`, `restore` and `clean` need none.
`docs/distributed.md` has the guarantees.
"""

from typing import TYPE_CHECKING, Any

from .basics import ManifestError, PublishConflict, ShardError, ShardsError, StorageError
from .publishing import clean, delete, forget, judge, restore, versions
from .searcher import Answer, Hit, Searcher, open

if TYPE_CHECKING:
    from .building import append, build
    from .reshaping import compact
    from .retraining import adopt, retrain
    from .serving import search_batch, serve

# Names that need Ray, loaded on first use.
_HOMES = {
    "adopt": "retraining",
    "append": "building",
    "build": "building",
    "compact": "reshaping",
    "retrain": "retraining",
    "search_batch": "serving",
    "serve": "serving",
}


def __getattr__(name: str) -> Any:
    import importlib

    if name in _HOMES:
        try:
            return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
        except ImportError as error:
            if (error.name or "").split(".")[0] not in ("ray", "pyarrow"):
                raise
            # Not an `ImportError`, because the caller may only check whether the attribute exists.
            raise AttributeError(f'ehi.ray.{name} needs Ray: pip install "ehi[ray]"') from error
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "Answer",
    "Hit",
    "ManifestError",
    "PublishConflict",
    "Searcher",
    "ShardError",
    "ShardsError",
    "StorageError",
    "adopt",
    "append",
    "build",
    "clean",
    "compact",
    "delete",
    "forget",
    "judge",
    "open",
    "restore",
    "retrain",
    "search_batch",
    "serve",
    "versions",
]
