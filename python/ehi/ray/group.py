"""Some shards of a manifest, opened from the cache and searched side by side."""

from __future__ import annotations

import concurrent.futures
import contextlib
import functools
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import ehi
from ehi import shards as parts
from ehi.reports import Document

from . import publishing
from .basics import Json, ShardError, ShardsError
from .cache import Cache
from .storage import Storage, read_checked

T = TypeVar("T")

# Errors that a fully fetched index gives only if its files have changed on this disk.
_DAMAGES = ("Corrupt", "NotFound", "NotAnIndex", "InterruptedCreate")


class Group:
    """Shards of one manifest, by their places in it; what they find is not merged yet."""

    def __init__(
        self,
        storage: Storage,
        manifest: Json,
        cache: Cache,
        *,
        places: Iterable[int] | None = None,
        threads: int | None = None,
        most_open: int | None = None,
    ) -> None:
        self.storage = storage
        self.manifest = manifest
        self.cache = cache
        self.places = list(range(len(manifest["shards"])) if places is None else places)
        self._open: dict[int, ehi.Index] = {}
        self._most_open = most_open
        self._refused: dict[int, str] = {}
        # Shards found damaged in the cache, which are fetched once more.
        self._dropped: set[int] = set()
        self._closed = False
        self._owner = os.getpid()
        self._locks = {place: threading.Lock() for place in self.places}
        self._guard = threading.Lock()
        self._statistics = None
        if words := manifest["statistics"]:
            data = read_checked(storage, publishing.statistics_name(words["sha256"]), words["sha256"])
            self._statistics = parts.TermStatistics.from_bytes(data)
        threads = threads or min(len(self.places) or 1, os.cpu_count() or 1)
        self._pool = concurrent.futures.ThreadPoolExecutor(threads, thread_name_prefix="ehi-shard")

    def close(self) -> None:
        """Ends what is under way, with `ShardsError`. Safe to call twice."""
        self._closed = True
        # Not with `cancel_futures`: waiters on a future would not be notified.
        self._pool.shutdown(wait=True)
        with self._guard:
            self._open.clear()

    def _check_open(self) -> None:
        if self._closed:
            raise ShardsError("the set is closed")
        if os.getpid() != self._owner:
            # A fork does not copy the search threads.
            raise ShardsError("this process was forked from one that has the set open; open it here anew")

    def prepare(self) -> dict[str, str]:
        """Fetches and opens all shards; why those that are refused are, by key."""
        self._check_open()
        reasons: dict[str, str] = {}
        for future in [self._submit(self._index, place) for place in self.places]:
            try:
                future.result()
            except ShardError as error:
                reasons[error.shard] = error.reason
        return reasons

    def refused(self) -> dict[str, str]:
        with self._guard:
            return {self.manifest["shards"][place]["key"]: why for place, why in self._refused.items()}

    def retry(self) -> None:
        """Forgets what was refused, so that it is fetched again."""
        with self._guard:
            self._refused.clear()
            self._dropped.clear()

    def _submit(self, call: Callable[..., T], *arguments: Any) -> concurrent.futures.Future[T]:
        try:
            return self._pool.submit(call, *arguments)
        except RuntimeError:
            self._check_open()
            raise

    def _index(self, place: int) -> ehi.Index:
        self._check_open()
        with self._guard:
            if place in self._open:
                # Most recently used last.
                self._open[place] = self._open.pop(place)
                return self._open[place]
        entry = self.manifest["shards"][place]
        with self._locks[place]:
            with self._guard:
                if place in self._open:
                    return self._open[place]
                if place in self._refused:
                    raise ShardError(entry["key"], self._refused[place])
            try:
                index = self._opened(entry)
            except ShardError as error:
                # It fails the manifest's checksums, so a retry would not help.
                with self._guard:
                    self._refused[place] = error.reason
                raise
            except ehi.StoreError as error:
                raise self._damaged(place, error) from error
            except (ShardsError, ehi.Error, OSError) as error:
                # A store that does not answer, or a full disk: the next search tries again.
                raise ShardError(entry["key"], str(error)) from error
            with self._guard:
                self._open[place] = index
                while self._most_open and len(self._open) > self._most_open:
                    # A running search keeps using it.
                    self._open.pop(next(iter(self._open)))
            return index

    def _opened(self, entry: Json) -> ehi.Index:
        # The searcher of the set encodes once for all shards.
        options: Json = {"precision": self.manifest["precision"], "lazy_encoder": True}
        open = functools.partial(ehi.Index.open, read_only=True, **options)
        index = self.cache.opened(self.storage, entry, self.manifest["tombstones"], open)
        found, expected = index.model.hash, self.manifest["model"]["hash"]
        if found != expected:
            raise ShardError(entry["key"], f"its model is {found}, the set has {expected}")
        return index

    def _damaged(self, place: int, error: ehi.StoreError) -> ShardError:
        """The error of a shard. Where its copy on this disk is damaged that is dropped, and the next search
        fetches it again; one that is no better then is refused.
        """
        entry = self.manifest["shards"][place]
        if getattr(error, "kind", None) not in _DAMAGES:
            return ShardError(entry["key"], str(error))
        self.cache.drop(entry)
        with self._guard:
            self._open.pop(place, None)
            if place in self._dropped:
                self._refused[place] = str(error)
            self._dropped.add(place)
        return ShardError(entry["key"], str(error))

    def search(self, request: Json) -> tuple[list[tuple[int, Any]], dict[str, str]]:
        """What each shard has to offer for a request, by its place, and which shards have no answer, with the
        reason.

        `request` has `mode`, `text`, `vector`, `leaves` (of the tree; all documents without), `depth`
        (candidates), `moved` (documents that judgments name), `filter`, `bm25`, `codes` and `seconds`, after
        which shards that have not answered are left out.
        """
        self._check_open()
        seconds = request["seconds"]
        futures = {self._submit(self._ask, place, request): place for place in self.places}
        done, late = concurrent.futures.wait(futures, timeout=seconds)
        offers, missing = [], {}
        for future in sorted(done, key=lambda own: futures[own]):
            try:
                offers.append((futures[future], future.result()))
            except ShardError as error:
                missing[error.shard] = error.reason
        for future in late:
            future.cancel()
            missing[self.manifest["shards"][futures[future]]["key"]] = f"no answer within {seconds} s"
        return offers, missing

    def _ask(self, place: int, request: Json) -> Any:
        index, mode = self._index(place), request["mode"]
        options: Json = {"mode": mode, "filter": request["filter"]}
        if mode != "lexical":
            leaves = request["leaves"]
            options |= {"codes": request["codes"], "leaves": leaves, "exact": leaves is None}
        if mode != "dense":
            options |= {"statistics": self._statistics, "bm25": request["bm25"]}
        question = (request[name] for name in ("text", "vector", "depth", "moved"))
        with self._reading(place):
            return parts.candidates(index, *question, **options)

    def each(self, call: Callable[[ehi.Index], T]) -> list[T]:
        """The results of a call on every shard; `ShardError` where one cannot be used."""
        self._check_open()
        futures = [self._submit(self._call, place, call) for place in self.places]
        return [future.result() for future in futures]

    def _call(self, place: int, call: Callable[[ehi.Index], T]) -> T:
        index = self._index(place)
        with self._reading(place):
            return call(index)

    @contextlib.contextmanager
    def _reading(self, place: int) -> Iterator[None]:
        """Damage that is met while reading, as the error of a shard."""
        try:
            yield
        except ehi.StoreError as error:
            if getattr(error, "kind", None) == "NotLexical":
                raise
            raise self._damaged(place, error) from error

    def documents(
        self, wanted: Sequence[tuple[int, str]]
    ) -> tuple[dict[tuple[int, str], Document | None], dict[str, str]]:
        """Documents by place of their shard and id; those of shards that cannot be read are left out."""
        found, missing = {}, {}
        by_place: dict[int, list[str]] = {}
        for place, id in wanted:
            by_place.setdefault(place, []).append(id)
        for place, ids in by_place.items():
            try:
                index = self._index(place)
                with self._reading(place):
                    found.update({(place, id): own for id, own in zip(ids, index.get(ids))})
            except ShardError as error:
                missing[error.shard] = error.reason
        return found, missing
