"""A pool of Ray's actors, each with the model in memory, that makes shards."""

from __future__ import annotations

import collections
import contextlib
import math
import os
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import ray

import ehi

from . import models, remaking, shard
from .errors import ShardsError
from .names import Json
from .options import whole_number
from .progress import Tell
from .scratch import Scratch
from .storage import Storage

# Share of a CPU that an actor asks for: two of them leave room for reads on two CPUs.
ACTOR_CPUS = 0.4
# Workers that may die of one shard, or as they start, for each that there is to be.
DEATHS = 10
# Seconds without a worker that starts, after which there is a warning.
PATIENCE = 60
_RESOURCES = (("num_cpus", "CPU"), ("num_gpus", "GPU"))
# Seconds that actors have to remove their folders; one that is killed leaves it to the next.
CLOSING_SECONDS = 10


@contextlib.contextmanager
def running() -> Iterator[None]:
    """Starts Ray where it does not run, and leaves one that does as it is."""
    started = not ray.is_initialized()
    if started:
        ray.init(include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    try:
        yield
    finally:
        if started:
            ray.shutdown()


class Worker:
    """An actor that has the model in memory and makes shards."""

    def __init__(self, storage: Storage, model: Json, scratch: str | None) -> None:
        self.storage = storage
        self.folder = Scratch("worker", scratch)
        self._named = model

    def ready(self) -> int:
        """Loads the model: here, since what a constructor raises reaches nobody as it was raised."""
        self.model = models.fetch(self.storage, self._named, self.folder.path)
        return os.getpid()

    def close(self) -> None:
        """Removes what lies on the local disk: the process itself is killed."""
        self.folder.close()

    def run(self, task: Json) -> Any:
        if task["kind"] == "built":
            return shard.build(self.storage, self.model, task, task["options"], self.folder.path)
        return remaking.remake(self.storage, self.model, task, self.folder.path)


def check(pool: Json) -> None:
    """Refuses a pool that the cluster cannot have: Ray would wait for it for ever."""
    if pool["actors"] is not None:
        whole_number("actors", pool["actors"])
    there = ray.cluster_resources()
    for name, kind in _RESOURCES:
        asked = pool[name]
        if isinstance(asked, bool) or not isinstance(asked, (int, float)) or not asked >= 0:
            raise ValueError(f"`{name}` is {asked!r}; it is a number from 0")
        if asked > there.get(kind, 0):
            raise ShardsError(f"`{name}` is {asked}, and Ray's cluster has {there.get(kind, 0):g} {kind}s")
    if _fitting(pool) < 1:
        raise ShardsError("no machine of Ray's cluster has the CPUs and GPUs that one worker asks for")


def _fitting(pool: Json) -> float:
    """Actors that the machines of the cluster hold at a time."""
    asked = {kind: pool[name] for name, kind in _RESOURCES if pool[name]}
    if not asked:
        return math.inf
    machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    # The quotient of 2 and 0.4 may be a little below 5.
    return sum(min(int(own.get(kind, 0) / each + 1e-9) for kind, each in asked.items()) for own in machines)


def run(
    storage: Storage,
    model: Json,
    tasks: Sequence[Json],
    pool: Json,
    tell: Tell,
    stage: str = "Shards",
) -> list[Any]:
    """Entries of shards, one for each task, on a pool of actors of a fixed size: each start loads a model.

    A task has `kind` and `key`; those whose shard is finished are not run. `tell` hears of the shards that
    are.
    """
    check(pool)
    keys = [task["key"] for task in tasks]
    finished = {key: entry for key in keys if (entry := shard.finished(storage, key))}
    waiting = [task for task in tasks if task["key"] not in finished]
    tell(stage, len(finished), len(tasks))
    if waiting:
        cpus = max(1, int(ray.cluster_resources().get("CPU", 1)))
        count = pool["actors"] or min(cpus, _fitting(pool))
        workers = _Workers(storage, model, pool, waiting)
        try:
            workers.start(int(min(count, len(waiting))))
            for key, entry in workers.results():
                finished[key] = entry
                tell(stage, len(finished), len(tasks))
        finally:
            workers.close()
    return [finished[key] for key in keys]


class _Workers:
    """Actors at work on tasks. One that dies is replaced, and its task begins again."""

    def __init__(self, storage: Storage, model: Json, pool: Json, waiting: list[Json]) -> None:
        self._waiting = waiting
        # Ray's own restarts would go on for ever.
        self._remote = ray.remote(Worker).options(num_cpus=pool["num_cpus"], num_gpus=pool["num_gpus"])
        self._arguments = (storage, model, pool["scratch"])
        self._actors: list[Any] = []
        # What is awaited of which actor: of a task, or that it is ready.
        self._awaited: dict[Any, tuple[Any, Json | None]] = {}
        # By the key of a task; of those that died as they started, in a row, by the empty one.
        self._deaths: collections.Counter[str] = collections.Counter()

    def start(self, count: int = 1) -> None:
        for _ in range(count):
            actor = self._remote.remote(*self._arguments)
            self._actors.append(actor)
            # It gets no task before: one that finds no room would keep it for ever.
            self._awaited[actor.ready.remote()] = (actor, None)

    def results(self) -> Iterator[tuple[str, Any]]:
        """Keys and entries of the shards, as they are made."""
        told = False
        while self._waiting or self._is_at_work():
            done, _ = ray.wait(list(self._awaited), num_returns=1, timeout=PATIENCE)
            if not done:
                if not told and not self._is_at_work():
                    warnings.warn(f"no worker has started within {PATIENCE} s: Ray has no room", stacklevel=4)
                    told = True
                continue
            actor, task = self._awaited.pop(done[0])
            try:
                result = unwrapped(done[0])
            except (ray.exceptions.RayActorError, ray.exceptions.OutOfMemoryError) as error:
                self._died(actor, task, error)
                continue
            if task is None:
                self._deaths[""] = 0
            else:
                yield task["key"], result
            if self._waiting:
                given = self._waiting.pop(0)
                self._awaited[actor.run.remote(given)] = (actor, given)
            else:
                # Its room may be what another one waits for.
                self._end(actor)

    def _is_at_work(self) -> bool:
        return any(task is not None for _, task in self._awaited.values())

    def _died(self, actor: Any, task: Json | None, error: Exception) -> None:
        self._actors.remove(actor)
        ray.kill(actor)
        key = task["key"] if task else ""
        self._deaths[key] += 1
        deaths = self._deaths[key]
        if task and deaths >= DEATHS:
            raise ShardsError(
                f"shard {key} was not made: {deaths} workers died of it, as where the memory is too small for its "
                f"documents; more `shards` make each smaller. The last one: {error}"
            ) from error
        # As many as a machine holds may be lost at once.
        if deaths >= DEATHS * (len(self._actors) + 1):
            raise ShardsError(f"{deaths} workers died as they started. The last one: {error}") from error
        if task:
            self._waiting.insert(0, task)
        if self._waiting:
            self.start()

    def _end(self, actor: Any) -> None:
        """Lets an actor remove its folder; the process itself is killed."""
        self._actors.remove(actor)
        with contextlib.suppress(ray.exceptions.RayError):
            ray.get(actor.close.remote(), timeout=CLOSING_SECONDS)
        ray.kill(actor)

    def close(self) -> None:
        """Ends those that are left, also those at work."""
        for actor in self._actors:
            ray.kill(actor)


def unwrapped(reference: Any) -> Any:
    """The value of a task; what it raised as it was raised."""
    with as_raised():
        return ray.get(reference)


@contextlib.contextmanager
def as_raised() -> Iterator[None]:
    """What a task of Ray raised, as it was raised; of our errors also those that Ray Data wraps."""
    try:
        yield
    except ray.exceptions.RayTaskError as error:
        inner: Any = error
        while inner is not None:
            inner = getattr(inner, "cause", None) or inner.__cause__
            if isinstance(inner, ehi.Error):
                raise inner from None
        raise (error.cause or error) from None
