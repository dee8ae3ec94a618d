"""Searching a published set in this process, without Ray."""

from __future__ import annotations

import os
import pathlib
import sys
import threading
import time
import warnings
from collections.abc import Sequence
from typing import Any

from ehi.reports import Facet

from . import manifest as manifests
from . import models, publishing
from .basics import Json, Options, ShardsError, Uri, whole_number
from .cache import Cache
from .group import Group
from .merging import Answer, Entry, Hit, merged_facets
from .storage import Storage, connect

__all__ = ["Answer", "Hit", "Searcher", "open"]


def default_cache() -> pathlib.Path:
    """Where shards are kept unless asked otherwise: `EHI_SHARD_CACHE`, or a folder of the user's cache."""
    given = os.environ.get("EHI_SHARD_CACHE")
    if given:
        return pathlib.Path(given)
    home = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(home) / "ehi" / "shards"


def open(
    uri: Uri,
    *,
    version: int | None = None,
    cache: Uri | None = None,
    budget: int | None = None,
    threads: int | None = None,
    most_open: int | None = None,
    storage_options: Options = None,
) -> Searcher:
    """Opens the newest state of a published set, or that of a number.

    Shards are fetched to the folder `cache` when they are first searched, checked, and mapped read-only;
    `budget` bytes of them are kept there, the least used are evicted, and `most_open` shards are open at a
    time. The folder is that of `EHI_SHARD_CACHE`, or `~/.cache/ehi/shards`; without a budget all that was
    fetched stays. `ManifestError` where nothing was published.
    """
    if version is not None:
        whole_number("version", version)
    storage = connect(uri, storage_options)
    own = Cache(default_cache() if cache is None else cache, budget)
    return Searcher(storage, manifests.read(storage, version), own, threads, most_open)


class Searcher:
    """A published set, open for searching; made by `open`. It may be shared by threads."""

    def __init__(
        self,
        storage: Storage,
        manifest: Json,
        cache: Cache,
        threads: int | None = None,
        most_open: int | None = None,
    ) -> None:
        self._storage, self._cache = storage, cache
        self._options: Json = {"threads": threads, "most_open": most_open}
        self._changing = threading.Lock()
        self._state = self._load(manifest)
        self._is_closed = False
        # Keys of shards already warned about.
        self._warned: set[str] = set()

    def _load(self, manifest: Json, before: Entry | None = None) -> tuple[Entry, Group]:
        entry = self._entry(manifest, before)
        return entry, Group(self._storage, manifest, self._cache, **self._options)

    def _entry(self, manifest: Json, before: Entry | None) -> Entry:
        model = models.fetch(self._storage, manifest["model"], self._cache.root)
        return Entry(manifest, model, publishing.read_judgments(self._storage, manifest), before)

    def _open_state(self) -> tuple[Entry, Group]:
        if self._is_closed:
            raise ShardsError(f"the set {self._storage.place} is closed")
        return self._state

    @property
    def manifest(self) -> Json:
        """The manifest that is searched, a dictionary."""
        return self._state[0].manifest

    @property
    def version(self) -> int:
        """Its number."""
        return int(self.manifest["version"])

    def __len__(self) -> int:
        """Documents of the set, those included that were deleted and are not compacted away."""
        return int(self.manifest["documents"])

    def refresh(self) -> bool:
        """Changes over to the newest manifest; whether there was one. Searches go on meanwhile."""
        with self._changing:
            entry, _ = self._open_state()
            if manifests.latest_version(self._storage) == self.version:
                return False
            # Running searches hold the previous state.
            self._state = self._load(manifests.read(self._storage), entry)
            return True

    def prepare(self) -> dict[str, str]:
        """Fetches all shards; keys of those that are refused, with the reason."""
        return self._open_state()[1].prepare()

    def retry(self) -> None:
        """Lets refused shards be fetched again."""
        self._open_state()[1].retry()
        self._warned.clear()

    def search(self, query: Any, k: int = 10, **options: Any) -> Answer:
        """The `k` best documents for a text or an embedding, `[dim]`, as an `Answer`.

        `mode` is dense, lexical or hybrid (with `alpha` or `rrf`); `beam` says how many leaves of the tree
        are visited, `exact=True` scores every document. `filter` is a dictionary in the form of MongoDB's.
        Judgments of the same question count, unless `no_memory=True`. After `seconds` the shards that have
        not answered are left out. A shard that cannot be used is left
        out too, and named in `missing`, with a warning the first time. What is published later is seen after
        `refresh`.
        """
        started, (entry, group) = time.monotonic(), self._open_state()
        answer = entry.search(group, entry.request(query, k, **options), started)
        if answer.partial:
            for key, why in group.refused().items():
                if key not in self._warned:
                    self._warned.add(key)
                    warnings.warn(f"shard {key} is left out: {why}", RuntimeWarning, stacklevel=2)
        return answer

    def count(self, filter: Any = None) -> int:
        """Number of documents that pass a filter, or of all, without those that were deleted. Unlike a search
        it needs every shard: `ShardError` where one cannot be used.
        """
        return sum(self._open_state()[1].each(lambda index: index.count(filter)))

    def facets(self, fields: str | Sequence[str], filter: Any = None, most: int = 10) -> dict[str, Facet]:
        """The values of fields among the documents that pass a filter, or among all, as `Index.facets` gives
        them. It needs every shard, as `count` does.
        """
        whole_number("most", most, 0)
        names = [fields] if isinstance(fields, str) else list(fields)
        # What is rare in one shard may be frequent in all.
        found = self._open_state()[1].each(lambda index: index.facets(names, filter, sys.maxsize))
        return merged_facets(names, found, most)

    def close(self) -> None:
        """Gives the shards up. Safe to call twice."""
        self._is_closed = True
        self._state[1].close()

    def __enter__(self) -> Searcher:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()
