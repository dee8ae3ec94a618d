"""A pool of Ray's actors, each with the model in memory, that makes shards."""

from __future__ import annotations

import contextlib
import os
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
# Actors that may die one after another without a shard that is made.
DEATHS = 8
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
        self.model = models.fetch(storage, model, self.folder.path)

    def ready(self) -> int:
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
    for name, kind in (("num_cpus", "CPU"), ("num_gpus", "GPU")):
        asked = pool[name]
        if isinstance(asked, bool) or not isinstance(asked, (int, float)) or not asked >= 0:
            raise ValueError(f"`{name}` is {asked!r}; it is a number from 0")
        if asked > there.get(kind, 0):
            raise ShardsError(f"`{name}` is {asked}, and Ray's cluster has {there.get(kind, 0):g} {kind}s")


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
        count = pool["actors"] or max(1, min(len(waiting), int(ray.cluster_resources().get("CPU", 1))))
        remote = ray.remote(Worker).options(
            num_cpus=pool["num_cpus"],
            num_gpus=pool["num_gpus"],
        )
        actors: list[Any] = []
        at_work: dict[Any, tuple[Any, Json]] = {}
        deaths = 0

        def start() -> Any:
            actors.append(remote.remote(storage, model, pool["scratch"]))
            return actors[-1]

        def give(actor: Any) -> None:
            if waiting:
                task = waiting.pop(0)
                at_work[actor.run.remote(task)] = (actor, task)

        try:
            for _ in range(min(count, len(waiting))):
                give(start())
            while at_work:
                done, _ = ray.wait(list(at_work), num_returns=1)
                actor, task = at_work.pop(done[0])
                try:
                    finished[task["key"]] = unwrapped(done[0])
                except (ray.exceptions.RayActorError, ray.exceptions.OutOfMemoryError) as error:
                    # Another one begins its shard again. Ray's own restarts would go on for ever.
                    deaths += 1
                    if deaths > DEATHS:
                        raise _dies(task, error) from error
                    waiting.insert(0, task)
                    actors.remove(actor)
                    ray.kill(actor)
                    actor = start()
                else:
                    deaths = 0
                    tell(stage, len(finished), len(tasks))
                give(actor)
            closed = [actor.close.remote() for actor in actors]
            ray.wait(closed, num_returns=len(closed), timeout=CLOSING_SECONDS)
        finally:
            for actor in actors:
                ray.kill(actor)
    return [finished[key] for key in keys]


def _dies(task: Json, error: Exception) -> ShardsError:
    return ShardsError(
        f"shard {task['key']} was not made: {DEATHS + 1} workers died one after another, as where the memory is "
        f"too small for a shard's documents; more `shards` make each smaller. The last one: {error}"
    )


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
