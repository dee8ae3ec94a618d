"""The coroutines of `ehi.aio`."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import ehi
import ehi.aio
from places import MODEL, SMALL

QUESTIONS = ["is there caffeine in tea?", "mending a tyre", "roasting"]
IDS, TEXTS = (
    ["tea", "tyre", "coffee"],
    ["Green tea has caffeine.", "How to mend a flat tyre.", "Coffee is roasted."],
)
# Properties and a handle of its own thread, which are called by `sync`.
OF_SYNC = {"path", "is_read_only", "model", "half_life", "auto_tune"}
OF_MODULE = {"create", "open", "repair"}


@pytest.mark.parametrize(
    ("own", "other", "left_out"),
    [
        (ehi.Index, ehi.aio.AsyncIndex, OF_SYNC | OF_MODULE),
        (ehi.ScopedIndex, ehi.aio.AsyncScopedIndex, set()),
    ],
)
def test_every_call_has_a_coroutine(own, other, left_out):
    assert {name for name in vars(own) if not name.startswith("_")} - set(dir(other)) == left_out


@pytest.fixture
async def index(tmp_path):
    async with await ehi.aio.create(tmp_path / "index", SMALL) as index:
        await index.add(IDS, TEXTS, metadata=[{"year": 2021}, {"year": 2022}, None])
        yield index


async def test_calls_give_what_the_sync_ones_do(index):
    found = await asyncio.gather(*(index.search(each, k=3, exact=True) for each in QUESTIONS * 10))
    expected = [index.sync.search(each, k=3, exact=True) for each in QUESTIONS] * 10
    assert [each.ids for each in found] == [each.ids for each in expected]
    assert len(index) == 3 and (await index.get("tea"))["text"] == TEXTS[0]
    assert [document["id"] async for document in index] == sorted(IDS)
    assert [document["id"] async for document in index.iter({"year": {"$gt": 2021}})] == ["tyre"]
    scoped = index.scoped({"year": 2021})
    assert await scoped.ids() == ["tea"] and (await scoped.search("a tyre", k=3)).ids == ["tea"]
    with pytest.raises(ehi.FilterError):
        await index.count({"year": {"$less": 1}})


async def test_other_calls_and_the_end_of_the_block(tmp_path):
    async with await ehi.aio.create(tmp_path / "index", await ehi.aio.run(ehi.Model, SMALL)) as index:
        await index.add(IDS, TEXTS)
    with pytest.raises(ehi.InputError, match="closed"):
        await index.search("tea")
    reader = await ehi.aio.open(tmp_path / "index", read_only=True)
    assert sorted(await reader.ids()) == sorted(IDS)
    await reader.close()
    assert (await ehi.aio.run(ehi.Index.repair, tmp_path / "index"))["lost"] == 0


async def test_the_loop_goes_on_while_a_call_works(tmp_path):
    async with await ehi.aio.create(tmp_path / "index", SMALL) as index:
        begun, go_on = asyncio.Event(), threading.Event()
        loop = asyncio.get_running_loop()

        def told(*_):
            loop.call_soon_threadsafe(begun.set)
            assert go_on.wait(60)

        adding = asyncio.create_task(index.add(IDS, TEXTS, progress=told))
        await begun.wait()
        assert not adding.done()
        go_on.set()
        assert (await adding)["inserted"] == 3


async def test_cancelling_the_task_cancels_the_call(tmp_path):
    texts = [f"Text {place} on green tea, coffee and tyres." * 4 for place in range(4000)]
    async with await ehi.aio.create(tmp_path / "index", MODEL, precision="int8") as index:
        begun, loop = asyncio.Event(), asyncio.get_running_loop()

        def told(_stage, done, _total):
            if done:
                loop.call_soon_threadsafe(begun.set)

        adding = asyncio.create_task(index.add([str(each) for each in range(4000)], texts, progress=told))
        await begun.wait()
        adding.cancel()
        with pytest.raises(asyncio.CancelledError) as error:
            await adding
        assert isinstance(error.value.__cause__, ehi.CancelledError)
        # The call is over: what it had stored stays, and the index is open.
        stored = len(index)
        assert 0 < stored < 4000 and len(await index.ids()) == stored
        assert (await index.add(IDS, TEXTS))["inserted"] == 3
        assert (await index.search("mending", k=1)).ids == ["tyre"]
        # Without a function for progress, and by a timeout.
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(index.add(map(str, range(4000)), texts), 0.3)
        assert len(index) < 4000


def test_a_call_that_waits_for_a_thread_is_not_begun_after_its_cancel(empty):
    async def main(pool):
        asyncio.get_running_loop().set_default_executor(pool)
        index, go_on = ehi.aio.AsyncIndex(empty), threading.Event()
        first = asyncio.create_task(ehi.aio.run(go_on.wait, 60))
        second = asyncio.create_task(index.add(IDS, TEXTS))
        await asyncio.sleep(0.01)
        second.cancel()
        await asyncio.sleep(0.01)
        second.cancel()
        assert not second.done()
        go_on.set()
        assert await first
        with pytest.raises(asyncio.CancelledError):
            await second
        assert len(index) == 0

    with ThreadPoolExecutor(1) as pool:
        asyncio.run(main(pool))


async def test_progress_is_heard_and_can_end_a_call(index, capsys):
    heard = []
    await index.verify(progress=lambda *now: heard.append(now))
    assert heard
    with pytest.raises(ehi.CancelledError):
        await index.verify(progress=lambda *_: False)
    with pytest.raises(TypeError, match="progress"):
        await index.verify(progress="bars")
    await index.verify(progress=True)
    assert "it/s" in capsys.readouterr().err


def test_the_example_of_the_module(example):
    assert example(ehi.aio)["found"] == ["tea", "tyre", "tea", "tyre"]
