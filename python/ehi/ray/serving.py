"""A published set behind Ray Serve: an entry that encodes, routes and merges, and groups of shards. And many
questions at once, offline, through Ray Data.

Each group is a deployment with replicas of its own. The entry says with each request which manifest it means,
and goes over to a new one when all groups have it open, so that no request meets two states.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import errno
import http.client
import json
import os
import socket
import threading
import time
import urllib.request
from collections.abc import Sequence
from typing import Any

import ray
from ray import serve as ray_serve
from ray.util.metrics import Counter, Histogram

import ehi

from . import manifest as manifests
from . import models
from .basics import DatasetError, Json, Options, ShardsError, Uri, whole_number
from .cache import Cache
from .group import Group
from .merging import Answer, Entry, plan_of
from .pool import WORKER_CPUS
from .searcher import default_cache, open
from .storage import connect

# States that a group keeps open: the current one, and the one before or after it.
STATES = 2
# Attempts of a request if its replica dies.
ATTEMPTS = 3
# Seconds for the proxy to learn a new route.
ROUTE_SECONDS = 10
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
        self.storage = connect(uri, storage_options)
        self.groups = groups
        self.cache = cache
        self.seconds = seconds
        self.refresh_seconds = refresh
        self.changing = asyncio.Lock()
        self.entry = self._load(None)
        self.refused: dict[str, str] = {}
        self.requests = Counter("ehi_requests", "Searches by what became of them.", tag_keys=("outcome",))
        self.latency = Histogram(
            "ehi_search_seconds",
            "Time of a search.",
            boundaries=[0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5],
        )
        self.task: asyncio.Task[None] | None = None

    def _load(self, version: int | None, before: Entry | None = None) -> Entry:
        manifest = manifests.read(self.storage, version)
        return Entry(manifest, models.fetch(self.storage, manifest["model"], self.cache), before)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(self.refresh_seconds)
            try:
                await self.refresh()
            except Exception:  # noqa: BLE001 - what is served is served on, and the next look may succeed
                self.requests.inc(tags={"outcome": "refresh_failed"})

    async def refresh(self) -> int:
        """Goes over to the newest manifest; the number of the one that is served."""
        async with self.changing:
            newest = await asyncio.to_thread(manifests.latest_version, self.storage)
            if newest != self.entry.manifest["version"]:
                entry = await asyncio.to_thread(self._load, newest, self.entry)
                refused = await asyncio.gather(*(_reply(group.prepare, newest) for group in self.groups))
                self.refused = {key: why for own in refused for key, why in own.items()}
                self.entry = entry
            return self.entry.manifest["version"]

    async def search(self, query: Any, k: int = 10, **options: Any) -> Json:
        """An answer as a dictionary."""
        if self.task is None:
            self.task = asyncio.create_task(self._watch())
        started, entry = time.monotonic(), self.entry
        if options.get("seconds") is None:
            options["seconds"] = self.seconds
        try:
            answer = await self._search(entry, started, query, k, options)
        except Exception:
            self.requests.inc(tags={"outcome": "failed"})
            raise
        self.requests.inc(tags={"outcome": "partial" if answer["partial"] else "whole"})
        self.latency.observe(time.monotonic() - started)
        return answer

    async def _search(self, entry: Entry, started: float, query: Any, k: int, options: Json) -> Json:
        request = await asyncio.to_thread(entry.request, query, k, **options)
        steps, reply = entry.steps(request, started), None
        try:
            while True:
                call, given = steps.send(reply)
                reply = await (
                    self._offers(entry, given) if call == "search" else self._documents(entry, given)
                )
        except StopIteration as over:
            answer: Answer = over.value
        return dataclasses.asdict(answer)

    async def _offers(self, entry: Entry, request: Json) -> tuple[list[Any], dict[str, str]]:
        """What the groups offer, and the keys of shards whose group has not replied in time."""
        seconds, shards = request["seconds"], entry.manifest["shards"]
        tasks = {
            asyncio.ensure_future(_reply(group.search, entry.manifest["version"], request)): number
            for number, group in enumerate(self.groups)
        }
        done, late = await asyncio.wait(tasks, timeout=None if seconds is None else seconds + GRACE)
        offers, missing = [], {}
        for task in late:
            task.cancel()
            for place in range(tasks[task], len(shards), len(self.groups)):
                missing[shards[place]["key"]] = f"no answer within {seconds} s"
        for task in sorted(done, key=lambda own: tasks[own]):
            found, unread = task.result()
            offers += found
            missing |= unread
        return offers, missing

    async def _documents(self, entry: Entry, wanted: Sequence[tuple[int, str]]) -> Any:
        by_group: dict[int, list[tuple[int, str]]] = {}
        for own in wanted:
            by_group.setdefault(own[0] % len(self.groups), []).append(own)
        version, groups = entry.manifest["version"], self.groups
        calls = (_reply(groups[number].documents, version, own) for number, own in by_group.items())
        documents: dict[tuple[int, str], Json | None] = {}
        missing: dict[str, str] = {}
        for found, unread in await asyncio.gather(*calls):
            documents |= found
            missing |= unread
        return documents, missing

    async def __call__(self, request: Any) -> Any:
        """A request through HTTP; bodies and answers are JSON."""
        from starlette.responses import JSONResponse

        path = request.url.path.rstrip("/").rsplit("/", 1)[-1]
        try:
            if path == "health" and request.method == "GET":
                told = {name: self.entry.manifest[name] for name in ("version", "documents")}
                status = "partial" if self.refused else "ok"
                return JSONResponse({"status": status, "refused": self.refused, **told})
            if path == "manifest" and request.method == "GET":
                return JSONResponse(self.entry.manifest)
            if path == "search" and request.method == "POST":
                return JSONResponse(await self.search(**_body(await request.body())))
        except (ValueError, TypeError, OverflowError, RecursionError, ehi.InputError) as error:
            return JSONResponse({"error": str(error)}, status_code=400)
        return JSONResponse({"error": "ask POST /search, GET /health or GET /manifest"}, status_code=404)


async def _reply(method: Any, *arguments: Any) -> Any:
    """The reply of a group; what a shard raised as it was raised. Where a replica dies another is asked."""
    try:
        for _ in range(ATTEMPTS - 1):
            with contextlib.suppress(ray.exceptions.RayActorError):
                return await method.remote(*arguments)
        return await method.remote(*arguments)
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, (ehi.Error, ValueError, TypeError, OverflowError, RecursionError)):
            raise error.cause from None
        raise


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
        ray.init(include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    ray_serve.start(http_options={"host": host, "port": port})
    resources = {"num_cpus": num_cpus}
    groups_of_shards = [
        ray_serve.deployment(GroupReplica)
        .options(
            name=f"shards-{number}",
            num_replicas=replicas,
            ray_actor_options=resources,
            max_ongoing_requests=64,
        )
        .bind(uri, number, groups, cache, budget, storage_options)
        for number in range(groups)
    ]
    entry = ray_serve.deployment(EntryReplica).options(
        name="entry", num_replicas=entries, ray_actor_options=resources, max_ongoing_requests=256
    )
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
        raise DatasetError(f"questions are a `ray.data.Dataset`, not a {type(questions).__name__}")
    storage = connect(uri, storage_options)
    manifest = manifests.read(storage)
    # Checked before a set is opened anywhere.
    plan_of(manifest, k, **options)
    schema = questions.schema()
    names = schema.names if schema else []
    if column not in names:
        raise DatasetError(f"the questions have no column `{column}`; they have {', '.join(names) or 'none'}")
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
