"""Searching a published set in this process, without Ray."""

import os
import pathlib
import tempfile
import threading
import time

from . import manifest as manifests
from . import models
from .cache import Cache
from .group import Group
from .merging import Answer, Entry, Hit
from .storage import connect

__all__ = ["Answer", "Hit", "Searcher", "open"]


def default_cache():
    """Where shards are kept unless asked otherwise: `EHI_SHARD_CACHE`, or a folder of the user's cache."""
    given = os.environ.get("EHI_SHARD_CACHE")
    if given:
        return pathlib.Path(given)
    home = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(home) / "ehi" / "shards"


def open(uri, *, version=None, cache=None, budget=None, threads=None, most_open=None, storage_options=None):
    """Opens the newest state of a published set, or that of a number.

    Shards are fetched to the folder `cache` when they are first searched, checked, and mapped read-only;
    `budget` bytes of them are kept there, the least used are evicted, and `most_open` shards are open at a
    time. `ManifestError` where nothing was published.
    """
    return Searcher(
        connect(uri, storage_options),
        version=version,
        cache=Cache(default_cache() if cache is None else cache, budget),
        threads=threads,
        most_open=most_open,
    )


class Searcher:
    """A published set, open for searching; made by `open`. It may be shared by threads."""

    def __init__(self, storage, *, version=None, cache=None, threads=None, most_open=None):
        self._storage = storage
        self._temporary = None
        if cache is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="ehi-shards-")
            cache = Cache(self._temporary.name)
        self._cache = cache
        self._options = {"threads": threads, "most_open": most_open}
        self._changing = threading.Lock()
        self._state = self._load(version)

    def _load(self, version, encoder=None):
        manifest = manifests.read(self._storage, version)
        model = models.fetch(self._storage, manifest["model"], self._cache.root)
        entry = Entry(manifest, model, encoder)
        return entry, Group(self._storage, manifest, self._cache, **self._options)

    @property
    def manifest(self):
        """The manifest that is searched, a dictionary."""
        return self._state[0].manifest

    @property
    def version(self):
        """Its number."""
        return self.manifest["version"]

    def __len__(self):
        """Documents of the set, those included that were deleted and are not compacted away."""
        return self.manifest["documents"]

    def refresh(self):
        """Changes over to the newest manifest; whether there was one. Searches go on meanwhile."""
        with self._changing:
            if manifests.latest_version(self._storage) == self.version:
                return False
            entry, group = self._state
            newest = manifests.read(self._storage)
            same = newest["model"]["hash"] == entry.manifest["model"]["hash"]
            same = same and newest["precision"] == entry.manifest["precision"]
            self._state = self._load(newest["version"], entry.encoder if same else None)
            # Those who are searching it hold it.
            del group
            return True

    def prepare(self):
        """Fetches all shards; keys of those that are refused, with the reason."""
        return self._state[1].prepare()

    def retry(self):
        """Lets refused shards be fetched again."""
        self._state[1].retry()

    def search(self, query, k=10, **options):
        """The `k` best documents for a text or an embedding, `[dim]`, as an `Answer`.

        `mode` is dense, lexical or hybrid (with `alpha` or `rrf`); `beam` says how many leaves of the tree
        are visited, `exact=True` scores every document. `filter` is a dictionary in the form of MongoDB's.
        After `seconds` the shards that have not answered are left out. A shard that cannot be used is left
        out too, and named in `missing`.
        """
        entry, group = self._state
        plan = entry.plan(k, **options)
        return run(entry, plan, query, group.search, group.documents)

    def close(self):
        """Gives the shards up. Safe to call twice."""
        self._state[1].close()
        if self._temporary is not None:
            self._temporary.cleanup()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __reduce__(self):
        raise TypeError("an open set of shards cannot be pickled; pickle its URI")


def run(entry, plan, query, ask, fetch):
    """One search through an entry."""
    started = time.monotonic()
    request = entry.requests(query, plan)
    while True:
        if plan.seconds is not None:
            request["seconds"] = max(plan.seconds - (time.monotonic() - started), 0)
        reply = ask(request)
        merged = entry.merge(request, plan, reply["offers"])
        wider = entry.wider(request, plan, len(merged), reply["offers"])
        out_of_time = plan.seconds is not None and time.monotonic() - started >= plan.seconds
        if wider is None or out_of_time:
            break
        request = wider
    documents, unread = fetch([(own["place"], own["id"]) for own in merged])
    return entry.answer(merged, documents, {**reply["missing"], **unread}, request, started)
