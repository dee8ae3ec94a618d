"""The calls of an index as coroutines, each of which works in a thread of asyncio's own.
A task that is cancelled, or out of time, ends when its call has ended: one that takes `progress` ends early,
as if that had returned False, and any other is waited for. `progress` is called in the call's thread.

import asyncio
import ehi.aio

async def main():
    async with await ehi.aio.create("notes", model="models/scifact-minilm") as index:
        await index.add(["tea", "tyre"], ["Green tea has caffeine.", "How to mend a flat tyre."])
        tea, tyre = await asyncio.gather(index.search("caffeine", k=1), index.search("a bicycle", k=1))
        return tea.ids + tyre.ids + [document["id"] async for document in index]

found = asyncio.run(main())
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import inspect
import itertools
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from . import CancelledError, Index, ScopedIndex
from ._progress import Bars
from .reports import Document

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


def _is_watched(call: Callable[..., object]) -> bool:
    with contextlib.suppress(ValueError):  # of a built-in that does not tell its signature
        return "progress" in inspect.signature(call).parameters
    return False


async def _run(call: Callable[..., R], is_watched: bool, arguments: Any, options: dict[str, Any]) -> R:
    stop, heard = threading.Event(), options.get("progress")

    def work() -> R:
        if stop.is_set():
            raise CancelledError("cancelled before it began")
        with contextlib.closing(Bars()) if heard is True else contextlib.nullcontext(heard) as told:
            if is_watched and (not told or callable(told)):
                options["progress"] = lambda *now: not stop.is_set() and (told(*now) if told else None)
            return call(*arguments, **options)

    run_in_context = contextvars.copy_context().run
    working = asyncio.get_running_loop().run_in_executor(None, run_in_context, work)
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError as error:
        stop.set()
        while not working.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([working])
        raise error from working.exception()


async def run(call: Callable[P, R], *arguments: P.args, **options: P.kwargs) -> R:
    """Any call, of those that have no coroutine here: `await run(ehi.train, base, output, data=…)`."""
    return await _run(call, _is_watched(call), arguments, options)


class _Of(Generic[T]):
    """`sync` is the object itself, for properties and for what takes no time."""

    def __init__(self, sync: T) -> None:
        self.sync = sync

    def __repr__(self) -> str:
        return f"Async{self.sync!r}"


def _method(
    call: Callable[Concatenate[T, P], R],
) -> Callable[Concatenate[_Of[T], P], Coroutine[Any, Any, R]]:
    is_watched = _is_watched(call)

    @functools.wraps(call)
    async def method(self: _Of[T], /, *arguments: P.args, **options: P.kwargs) -> R:
        return await _run(call, is_watched, (self.sync, *arguments), options)

    return method


class AsyncScopedIndex(_Of[ScopedIndex]):
    """A `ScopedIndex` with its calls as coroutines."""

    search = _method(ScopedIndex.search)
    get = _method(ScopedIndex.get)
    delete = _method(ScopedIndex.delete)
    count = _method(ScopedIndex.count)
    ids = _method(ScopedIndex.ids)
    facets = _method(ScopedIndex.facets)


class AsyncIndex(_Of[Index]):
    """An open `Index` with its calls as coroutines."""

    search = _method(Index.search)
    explain = _method(Index.explain)
    add = _method(Index.add)
    add_vectors = _method(Index.add_vectors)
    get = _method(Index.get)
    update = _method(Index.update)
    delete = _method(Index.delete)
    vectors = _method(Index.vectors)
    count = _method(Index.count)
    ids = _method(Index.ids)
    facets = _method(Index.facets)
    page = _method(Index.page)
    leaves = _method(Index.leaves)
    flush = _method(Index.flush)
    refresh = _method(Index.refresh)
    stats = _method(Index.stats)
    notices = _method(Index.notices)
    health = _method(Index.health)
    verify = _method(Index.verify)
    snapshot = _method(Index.snapshot)
    compact = _method(Index.compact)
    make_lexical = _method(Index.make_lexical)
    rebuild_postings = _method(Index.rebuild_postings)
    calibrate = _method(Index.calibrate)
    tune = _method(Index.tune)
    judge = _method(Index.judge)
    judgments = _method(Index.judgments)
    standings = _method(Index.standings)
    judgments_of = _method(Index.judgments_of)
    forget = _method(Index.forget)
    log_questions = _method(Index.log_questions)
    logged_questions = _method(Index.logged_questions)
    asked = _method(Index.asked)
    learnings = _method(Index.learnings)
    leaf_changes = _method(Index.leaf_changes)
    learnable = _method(Index.learnable)
    learn = _method(Index.learn)
    fuse = _method(Index.fuse)
    distil = _method(Index.distil)
    reencode = _method(Index.reencode)
    rollback = _method(Index.rollback)
    drop_previous_model = _method(Index.drop_previous_model)
    close = _method(Index.close)

    def scoped(self, filter: Mapping[str, object] | str) -> AsyncScopedIndex:
        return AsyncScopedIndex(self.sync.scoped(filter))

    async def iter(self, filter: Mapping[str, object] | str | None = None) -> AsyncIterator[Document]:
        documents = await run(self.sync.iter, filter)
        while page := await run(lambda: list(itertools.islice(documents, 256))):
            for document in page:
                yield document

    def __aiter__(self) -> AsyncIterator[Document]:
        return self.iter()

    def __len__(self) -> int:
        return len(self.sync)

    async def __aenter__(self) -> AsyncIndex:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def _opening(call: Callable[P, Index]) -> Callable[P, Coroutine[Any, Any, AsyncIndex]]:
    @functools.wraps(call)
    async def opening(*arguments: P.args, **options: P.kwargs) -> AsyncIndex:
        return AsyncIndex(await run(call, *arguments, **options))

    return opening


create = _opening(Index.create)
open = _opening(Index.open)
