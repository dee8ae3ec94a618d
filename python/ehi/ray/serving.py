"""A published set behind Ray Serve: an entry that encodes, routes and merges, and groups of shards. And many
questions at once, offline, through Ray Data.

Each group is a deployment with replicas of its own. The entry says with each request which manifest it means,
and goes over to a new one when all groups have it open, so that no request meets two states.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import dataclasses
import errno
import functools
import http.client
import json
import logging
import os
import socket
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import ray
from ray import serve as ray_serve
from ray.exceptions import RayActorError, RayTaskError

import ehi

from . import manifest as manifests
from . import models
from .basics import Json, Options, ShardsError, Uri, whole_number
from .cache import Cache
from .group import Group
from .merging import Entry, plan_of
from .pool import WORKER_CPUS
from .searcher import Searcher, default_cache, open
from .storage import Storage, connect

# States that a group keeps open: the current one, and the one before or after it.
STATES = 2
# Attempts of a request if its replica dies.
ATTEMPTS = 3
# Seconds for the proxy to learn a new route.
ROUTE_SECONDS = 10
# Errors about what was asked.
_REFUSALS = (ehi.InputError, ValueError, TypeError, OverflowError, RecursionError)
# Searches of an entry at once.
THREADS = 64
# Further seconds for the answer of a group to arrive.
GRACE = 0.25


class GroupReplica:
    """Some shards of a set, those whose place is `number` modulo `groups`."""

    def __init__(
        self, uri: str, number: int, groups: Any, cache: str, budget: int | None, storage_options: Options
    ) -> None:
        self.storage = connect(uri, storage_options)
        self.number, self.groups = number, groups
        self.cache = Cache(cache, budget)
        self.states: dict[int, Group] = {}
        # Requests arrive on several threads.
        self.opening = threading.Lock()

    def _state(self, version: int) -> Group:
        if state := self.states.get(version):
            return state
        with self.opening:
            if state := self.states.get(version):
                return state
            manifest = manifests.read(self.storage, version)
            # Shards have no model, and this machine may not have one yet.
            models.fetch(self.storage, manifest["model"], self.cache.root)
            places = range(self.number, len(manifest["shards"]), self.groups)
            self.states[version] = state = Group(self.storage, manifest, self.cache, places=places)
            for older in sorted(self.states)[:-STATES]:
                # Running requests hold it.
                self.states.pop(older)
            return state

    def prepare(self, version: int) -> dict[str, str]:
        """Opens the shards of a state; keys of those that are refused, with the reason."""
        return self._state(version).prepare()

    def search(self, version: int, request: Json) -> Any:
        return self._state(version).search(request)

    def documents(self, version: int, wanted: Sequence[tuple[int, str]]) -> Any:
        return self._state(version).documents(wanted)


class Groups:
    """The groups of a manifest's shards, each in a deployment, with the calls of a `Group`."""

    def __init__(self, handles: Sequence[Any], manifest: Json) -> None:
        self._handles, self._manifest = handles, manifest

    def prepare(self) -> dict[str, str]:
        """Opens all shards; keys of those that are refused, with the reason."""
        replies = self._replies("prepare", {number: () for number in range(len(self._handles))})
        return {key: why for _, refused in replies for key, why in refused.items()}

    def search(self, request: Json) -> tuple[list[Any], dict[str, str]]:
        """What the groups offer, and the keys of shards whose group has not replied in time."""
        seconds, shards, count = request["seconds"], self._manifest["shards"], len(self._handles)
        offers: list[Any] = []
        missing: dict[str, str] = {}
        for number, reply in self._replies("search", {own: (request,) for own in range(count)}, seconds):
            if reply is None:
                late = range(number, len(shards), count)
                reply = [], {shards[place]["key"]: f"no answer within {seconds} s" for place in late}
            offers += reply[0]
            missing |= reply[1]
        return offers, missing

    def documents(self, wanted: Sequence[tuple[int, str]]) -> Any:
        by_group: dict[int, list[tuple[int, str]]] = {}
        for own in wanted:
            by_group.setdefault(own[0] % len(self._handles), []).append(own)
        documents: dict[tuple[int, str], Json | None] = {}
        missing: dict[str, str] = {}
        arguments = {number: (own,) for number, own in by_group.items()}
        for _, (found, unread) in self._replies("documents", arguments):
            documents |= found
            missing |= unread
        return documents, missing

    def refused(self) -> dict[str, str]:
        """Nothing: `GET /health` names them."""
        return {}

    def _replies(
        self, name: str, arguments: Mapping[int, tuple[Any, ...]], seconds: float | None = None
    ) -> Iterator[tuple[int, Any]]:
        """The replies of groups to a call, by their numbers; `None` of one that is late. What a shard raised
        is raised as it was. Where a replica dies another is asked.
        """
        over = None if seconds is None else time.monotonic() + seconds + GRACE

        def ask(number: int) -> Any:
            return getattr(self._handles[number], name).remote(self._manifest["version"], *arguments[number])

        for number, reply in [(number, ask(number)) for number in arguments]:
            for left in reversed(range(ATTEMPTS)):
                try:
                    found = reply.result(timeout_s=None if over is None else max(over - time.monotonic(), 0))
                except TimeoutError:
                    reply.cancel()
                    found = None
                except RayActorError:
                    if not left:
                        raise
                    reply = ask(number)
                    continue
                except RayTaskError as error:
                    if isinstance(error.cause, (ehi.Error, *_REFUSALS)):
                        raise error.cause from None
                    raise
                yield number, found
                break


class _Deployed(Searcher):
    """A set whose shards are in deployments."""

    def __init__(self, storage: Storage, manifest: Json, cache: Cache, handles: Sequence[Any]) -> None:
        self._handles = handles
        # Keys of shards that cannot be used, with the reason.
        self.refused: dict[str, str] = {}
        super().__init__(storage, manifest, cache)

    def _load(self, manifest: Json, before: Entry | None = None) -> tuple[Entry, Any]:
        groups = Groups(self._handles, manifest)
        if before:
            # Groups open the new state before any request asks for it.
            self.refused = groups.prepare()
        return self._entry(manifest, before), groups


class EntryReplica:
    """Answers requests: `POST /search`, `GET /health`, `GET /manifest`; and `search` through a handle."""

    def __init__(
        self,
        uri: str,
        groups: Any,
        cache: str,
        seconds: float | None,
        refresh: float,
        storage_options: Options,
    ) -> None:
        storage = connect(uri, storage_options)
        self.searcher = _Deployed(storage, manifests.read(storage), Cache(cache), groups)
        self.seconds, self.refresh_seconds = seconds, refresh
        self.threads = concurrent.futures.ThreadPoolExecutor(THREADS)
        self.task: asyncio.Task[None] | None = None

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(self.refresh_seconds)
            try:
                await asyncio.to_thread(self.searcher.refresh)
            except Exception:  # noqa: BLE001 - the next look may succeed
                logging.exception("the newest state cannot be served; the one before it is")

    async def search(self, query: Any, k: int = 10, **options: Any) -> Json:
        """An answer as a dictionary."""
        if self.task is None:
            self.task = asyncio.create_task(self._watch())
        if options.get("seconds") is None:
            options["seconds"] = self.seconds
        call = functools.partial(self.searcher.search, query, k, **options)
        return dataclasses.asdict(await asyncio.get_running_loop().run_in_executor(self.threads, call))

    async def __call__(self, request: Any) -> Any:
        """A request through HTTP; bodies and answers are JSON."""
        from starlette.responses import JSONResponse

        path = request.url.path.rstrip("/").rsplit("/", 1)[-1]
        try:
            if path == "health" and request.method == "GET":
                manifest, refused = self.searcher.manifest, self.searcher.refused
                told = {name: manifest[name] for name in ("version", "documents")}
                return JSONResponse({"status": "partial" if refused else "ok", "refused": refused, **told})
            if path == "manifest" and request.method == "GET":
                return JSONResponse(self.searcher.manifest)
            if path == "search" and request.method == "POST":
                return JSONResponse(await self.search(**_body(await request.body())))
        except _REFUSALS as error:
            return JSONResponse({"error": str(error)}, status_code=400)
        return JSONResponse({"error": "ask POST /search, GET /health or GET /manifest"}, status_code=404)


def _body(data: bytes) -> Json:
    try:
        body = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the body is malformed JSON: {error}") from None
    if not isinstance(body, dict) or "query" not in body:
        raise ValueError("the body is an object with `query`, and `k` and other options if they are wanted")
    return body


def serve(
    uri: Uri,
    *,
    groups: int = 1,
    replicas: int = 1,
    entries: int = 1,
    num_cpus: float = 0.2,
    seconds: float | None = None,
    refresh: float = 2.0,
    cache: Uri | None = None,
    budget: int | None = None,
    name: str = "ehi",
    route_prefix: str = "/",
    host: str = "127.0.0.1",
    port: int = 8000,
    block: bool = False,
    storage_options: Options = None,
) -> Any:
    """Serves the newest state of a set with Ray Serve, and goes over to newer ones; a handle to its entry.

    The shards are divided among `groups` deployments of `replicas` each, before which `entries` replicas
    encode the questions. `seconds` is the deadline of a request that names none. Every `refresh` seconds it
    is looked whether there is a newer manifest. `handle.search.remote(query, k).result()`, or `await` of it
    without `.result()`, and `POST /search` with `{"query": …, "k": …}` give an answer as a dictionary.

    It returns when requests are answered; where this program has started Ray, serving ends with it. With
    `block=True` it serves until Ctrl-C, then takes down what it has started. Where Serve runs already,
    `host` and `port` are its own, and `route_prefix` is none of another `name`, or `ShardsError` is raised;
    what has the same `name` is replaced.
    """
    for what, count in (("groups", groups), ("replicas", replicas), ("entries", entries)):
        whole_number(what, count)
    # Without a published set there is nothing to start.
    storage = connect(uri, storage_options)
    manifests.read(storage)
    at = "127.0.0.1" if host in ("0.0.0.0", "::") else host
    _check_free(at, port, name, route_prefix)
    # Replicas may run in another folder.
    uri, cache = storage.place, os.path.abspath(default_cache() if cache is None else cache)
    started = not ray.is_initialized()
    if started:
        ray.init(include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    ray_serve.start(http_options={"host": host, "port": port})
    resources = {"num_cpus": num_cpus}
    groups_of_shards = [
        ray_serve.deployment(
            name=f"shards-{number}",
            num_replicas=replicas,
            ray_actor_options=resources,
            max_ongoing_requests=64,
        )(GroupReplica).bind(uri, number, groups, cache, budget, storage_options)
        for number in range(groups)
    ]
    entry = ray_serve.deployment(
        name="entry", num_replicas=entries, ray_actor_options=resources, max_ongoing_requests=256
    )(EntryReplica)
    app = entry.bind(uri, groups_of_shards, cache, seconds, refresh, storage_options)
    handle = ray_serve.run(app, name=name, route_prefix=route_prefix)
    if not _answers(at, port, route_prefix):
        ray_serve.delete(name)
        raise ShardsError(f"Ray Serve runs already, and not at {host}:{port}; give its host and port")
    try:
        while block:
            time.sleep(1)
    except KeyboardInterrupt:
        ray_serve.delete(name)
        if started:
            ray.shutdown()
    return handle


def _check_free(host: str, port: int, name: str, route_prefix: str) -> None:
    """`ShardsError` where another program has the port, or another set the route."""
    routes = _routes(host, port)
    if routes is None:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError as error:
                # Serve checks the names of other machines.
                if error.errno == errno.EADDRINUSE:
                    raise ShardsError(f"another program has the port {port}; give another `port`") from None
    elif (other := routes.get(route_prefix, name)) != name:
        raise ShardsError(
            f"`{other}` is served at `{route_prefix}`; give a `route_prefix` of its own, as `/{name}`"
        )


def _answers(host: str, port: int, route_prefix: str) -> bool:
    """Whether there is a proxy at a port that knows a route."""
    over = time.monotonic() + ROUTE_SECONDS
    while time.monotonic() < over:
        if route_prefix in (_routes(host, port) or ()):
            return True
        time.sleep(0.2)
    return False


def _routes(host: str, port: int) -> dict[str, str] | None:
    """Names of what Serve has at a port, by their routes; `None` where it is not there."""
    try:
        with urllib.request.urlopen(f"http://{host}:{port}/-/routes", timeout=5) as response:
            routes = json.load(response)
    except (OSError, ValueError, http.client.HTTPException):
        return None
    return routes if isinstance(routes, dict) else None


class _Asker:
    """An actor that has a set open."""

    def __init__(self, uri: str, column: str, k: int, options: Json, of_set: Json) -> None:
        self.shards = open(uri, threads=1, **of_set)
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

    `questions` is a `ray.data.Dataset` with texts in a `column`. All are answered by one state of the set,
    the newest when this is called. `options` are those of `Searcher.search`. It is run when it is read.
    """
    if not isinstance(questions, ray.data.Dataset):
        raise ehi.DataError(f"questions are a `ray.data.Dataset`, not a {type(questions).__name__}")
    storage = connect(uri, storage_options)
    manifest = manifests.read(storage)
    # Checked before a set is opened anywhere.
    plan_of(manifest, k, **options)
    schema = questions.schema()
    names = schema.names if schema else []
    if column not in names:
        raise ehi.DataError(f"the questions have no column `{column}`; they have {', '.join(names) or 'none'}")
    # Actors may run in another folder.
    cache = os.path.abspath(default_cache() if cache is None else cache)
    of_set = {"version": manifest["version"], "cache": cache, "budget": budget}
    return questions.map_batches(
        _Asker,
        fn_constructor_args=(
            storage.place,
            column,
            k,
            options,
            {**of_set, "storage_options": storage_options},
        ),
        batch_size=batch_size,
        batch_format="numpy",
        # Each start opens the set.
        compute=ray.data.ActorPoolStrategy(size=actors),
        num_cpus=num_cpus,
    )
