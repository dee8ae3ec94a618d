"""Shards: one collection over many immutable indexes of one model, on a folder or an object store.

    import ehi.ray

    ehi.ray.build("abstracts/*.parquet", model="models/scifact-minilm", uri="s3://bucket/abstracts", shards=8)
    with ehi.ray.open("s3://bucket/abstracts") as shards:
        for hit in shards.search("does vitamin d protect against infection?", k=10).hits:
            print(hit.score, hit.id)

`build`, `append`, `compact`, `serve` and `search_batch` run on Ray (`pip install 'ehi[ray]'`); `open`,
`publish`, `delete`, `versions` and `clean` need none. `docs/distributed.md` has the guarantees.
"""

from .changes import delete
from .cleaning import clean
from .errors import DatasetError, ManifestError, PublishConflict, ShardError, ShardsError, StorageError
from .publishing import publish, versions
from .searcher import Answer, Hit, Searcher, open


def __getattr__(name):
    # What needs Ray is loaded when it is asked for.
    import importlib

    homes = {
        "append": "jobs",
        "build": "jobs",
        "compact": "jobs",
        "search_batch": "batch",
        "serve": "serving",
    }
    if name in homes:
        return getattr(importlib.import_module(f"{__name__}.{homes[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "Answer",
    "DatasetError",
    "Hit",
    "ManifestError",
    "PublishConflict",
    "Searcher",
    "ShardError",
    "ShardsError",
    "StorageError",
    "append",
    "build",
    "clean",
    "compact",
    "delete",
    "open",
    "publish",
    "search_batch",
    "serve",
    "versions",
]
