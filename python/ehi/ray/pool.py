"""What the calls that work on Ray share: their set, what they may take of the cluster, and who hears of
progress.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import ray
from ray.exceptions import NodeDiedError, OutOfMemoryError, RayTaskError, WorkerCrashedError

import ehi
from ehi._progress import Bars

from . import models, shard
from .basics import Json, Options, ShardsError, Uri, whole_number
from .scratch import work_folder
from .storage import Storage, connect

# CPU share of a worker: two workers leave room for reads on two CPUs.
WORKER_CPUS = 0.4
# Most worker deaths per shard.
DEATHS = 10
_RESOURCES = (("num_cpus", "CPU"), ("num_gpus", "GPU"))

# A function of stage, done and total or `None`, as in the calls of `ehi`; or `True` for bars of tqdm. `False`
# from the function ends the call.
Progress: TypeAlias = "Callable[[str, int, int | None], object] | bool | None"


@dataclasses.dataclass
class RayJob:
    """A call on Ray for the set at `uri`, and options that all such calls take.

    At most `actors` workers make shards at a time, one for each CPU unless given; each asks Ray for
    `num_cpus` and `num_gpus`. Work under way lies below `scratch`, or in the system's place for temporary
    files. `storage_options` are those of the object store. `progress` is a function of stage, done and total,
    or `True` for bars; `False` from the function ends the call with a `CancelledError`.
    """

    uri: Uri
    actors: int | None = None
    num_cpus: float = WORKER_CPUS
    num_gpus: float = 0
    scratch: Uri | None = None
    storage_options: Options = None
    progress: Progress = None

    def __post_init__(self) -> None:
        if self.actors is not None:
            whole_number("actors", self.actors)
        for name, _ in _RESOURCES:
            asked = getattr(self, name)
            if isinstance(asked, bool) or not isinstance(asked, (int, float)) or not asked >= 0:
                raise ValueError(f"`{name}` is {asked!r}; it is a number from 0")
        if self.progress is not None and not isinstance(self.progress, bool) and not callable(self.progress):
            raise TypeError("`progress` is a function of stage, done and total, or True for bars of tqdm")
        self._bars = Bars() if self.progress is True else None
        self.storage: Storage = connect(self.uri, self.storage_options)

    def tell(self, stage: str, done: int, total: int | None) -> None:
        """Tells who wants to hear of it how far the call is."""
        hears = self._bars or self.progress
        if callable(hears) and hears(stage, done, total) is False:
            raise ehi.CancelledError("the progress callback asked to stop")

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Ray runs meanwhile, with room for a worker: else Ray would wait for it for ever."""
        with running(), contextlib.closing(self._bars) if self._bars else contextlib.nullcontext():
            machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
            for name, kind in _RESOURCES:
                asked = getattr(self, name)
                machines = [own for own in machines if own.get(kind, 0) >= asked]
                if not machines:
                    raise ShardsError(
                        f"`{name}` is {asked}, and no machine of Ray's cluster has so many {kind}s"
                    )
            yield

    def _task(self, function: Callable[..., Any]) -> Any:
        """A function as a task of Ray. Ray does not retry it if its worker dies."""
        return ray.remote(num_cpus=self.num_cpus, num_gpus=self.num_gpus, max_retries=0)(function)

    def run(self, stage: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """What a function returns, which is run as a task: a stage of its own."""
        self.tell(stage, 0, 1)
        with as_raised():
            found = ray.get(self._task(function).remote(*arguments))
        self.tell(stage, 1, 1)
        return found

    def make(self, model: Json, tasks: Sequence[Json]) -> list[Any]:
        """Entries of shards, one for each task. A task has the `key` of its shard and the function `make`;
        those whose shard is finished are not run.
        """
        keys = [task["key"] for task in tasks]
        finished = {key: entry for key in keys if (entry := shard.finished(self.storage, key))}
        waiting = [task for task in tasks if task["key"] not in finished]
        most = self.actors or max(1, int(ray.cluster_resources().get("CPU", 1)))
        under_way: dict[Any, Json] = {}
        deaths: collections.Counter[str] = collections.Counter()
        self.tell("shards", len(finished), len(tasks))
        remote = self._task(make_shard)
        try:
            while waiting or under_way:
                while waiting and len(under_way) < most:
                    task = waiting.pop(0)
                    under_way[remote.remote(self.storage, model, task, self.scratch)] = task
                done, _ = ray.wait(list(under_way), num_returns=1)
                task = under_way.pop(done[0])
                key = task["key"]
                try:
                    with as_raised():
                        finished[key] = ray.get(done[0])
                except (NodeDiedError, OutOfMemoryError, WorkerCrashedError) as error:
                    deaths[key] += 1
                    if deaths[key] == DEATHS:
                        raise ShardsError(
                            f"shard {key} was not made: {DEATHS} workers died of it, as where the memory is too "
                            f"small for its documents; more `shards` make each smaller. The last one: {error}"
                        ) from error
                    waiting.insert(0, task)
                    continue
                self.tell("shards", len(finished), len(tasks))
        finally:
            for reference in under_way:
                ray.cancel(reference, force=True)
        return [finished[key] for key in keys]


def make_shard(storage: Storage, model: Json, task: Json, scratch: Uri | None) -> Any:
    """The entry of a task's shard; made where it is not finished."""
    entry = shard.finished(storage, task["key"])
    if entry:
        return entry
    with work_folder("worker", scratch) as folder:
        return task["make"](storage, models.fetch(storage, model, folder), task, folder)


@contextlib.contextmanager
def running() -> Iterator[None]:
    """Starts Ray where it does not run, and leaves one that does as it is."""
    started = not ray.is_initialized()
    if started:
        ray.init(include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    try:
        yield
    finally:
        if started:
            ray.shutdown()


@contextlib.contextmanager
def as_raised() -> Iterator[None]:
    """What a task of Ray raised, as it was raised; of our errors also those that Ray Data wraps."""
    try:
        yield
    except RayTaskError as error:
        inner: Any = error
        while inner is not None:
            inner = getattr(inner, "cause", None) or inner.__cause__
            if isinstance(inner, ehi.Error):
                raise inner from None
        raise (error.cause or error) from None
