"""LangChain's `index` and `aindex`, which keep a store as a source is, over an index."""

import asyncio

import pytest

pytest.importorskip("langchain_core", reason="needs langchain-core")
from langchain_core.document_loaders import BaseLoader
from langchain_core.documents import Document
from langchain_core.indexing import InMemoryRecordManager, aindex, index

import ehi
from places import SMALL
from ehi.langchain import EhiVectorStore


class Files(BaseLoader):
    def __init__(self, *documents):
        self.documents = documents

    def lazy_load(self):
        yield from self.documents


@pytest.fixture
def store(tmp_path):
    store = EhiVectorStore(tmp_path / "index", model=SMALL)
    yield store
    store.close()


@pytest.fixture(params=["index", "aindex"])
def run(request, store):
    """Either of the two calls; what it counts of added, updated, deleted and skipped documents."""
    manager = InMemoryRecordManager(namespace="tests")
    manager.create_schema()

    def call(source, **options):
        options = {"key_encoder": "sha256", **options}
        if request.param == "index":
            counts = index(source, manager, store, **options)
        else:
            counts = asyncio.run(aindex(source, manager, store, **options))
        return tuple(counts[f"num_{name}"] for name in ("added", "updated", "deleted", "skipped"))

    return call


def page(text, source):
    return Document(text, metadata={"source": source})


def texts(store):
    return sorted(each["text"] for each in store.index)


TEA, COFFEE, OOLONG = page("tea", "a"), page("coffee", "b"), page("oolong", "a")


@pytest.mark.parametrize("cleanup", [None, "full", "incremental", "scoped_full"])
def test_what_is_unchanged_is_skipped(run, store, cleanup):
    options = {"cleanup": cleanup, "source_id_key": "source"}
    assert run(Files(TEA, COFFEE), **options) == (2, 0, 0, 0)
    for _ in range(2):
        assert run(Files(TEA, COFFEE), **options) == (0, 0, 0, 2)
    assert texts(store) == ["coffee", "tea"]
    assert [each.metadata for each in store.similarity_search("coffee", k=1)] == [{"source": "b"}]


@pytest.mark.parametrize(
    ("cleanup", "deleted", "left"),
    [
        (None, 0, ["coffee", "oolong", "tea"]),
        ("incremental", 1, ["coffee", "oolong"]),
        ("scoped_full", 1, ["coffee", "oolong"]),
        ("full", 2, ["oolong"]),
    ],
)
def test_what_a_source_no_longer_has_is_deleted(run, store, cleanup, deleted, left):
    options = {"cleanup": cleanup, "source_id_key": "source"}
    run([TEA, COFFEE], **options)
    # Source a has a new text, and b is not read.
    assert run([OOLONG], **options) == (1, 0, deleted, 0)
    assert texts(store) == left


def test_a_source_in_several_batches(run, store):
    options = {"cleanup": "incremental", "source_id_key": "source", "batch_size": 2}
    pages = [page(f"page {place}", "book") for place in range(5)]
    assert run(pages, **options) == (5, 0, 0, 0)
    changed = [page(f"leaf {place}", "book") for place in range(5)]
    assert run(changed, **options) == (5, 0, 5, 0)
    assert texts(store) == sorted(each.page_content for each in changed)
    # A source of which nothing is left is not among those seen; `full` deletes it.
    assert run([], **options) == (0, 0, 0, 0)
    assert run([], cleanup="full", cleanup_batch_size=2) == (0, 0, 5, 0)
    assert texts(store) == []


def test_twice_the_same_is_stored_once(run, store):
    counts = run([TEA, TEA, COFFEE], cleanup="full")
    assert counts[:3] == (2, 0, 0) and texts(store) == ["coffee", "tea"]


def test_an_update_by_force_is_counted_as_such(run, store):
    run([TEA, COFFEE], cleanup="full")
    store.index.delete(store.index.ids()[:1])
    assert run([TEA, COFFEE], cleanup="full", force_update=True) == (0, 2, 0, 0)
    assert texts(store) == ["coffee", "tea"]


def test_ids_of_the_caller(run, store):
    options = {"key_encoder": lambda document: document.id, "cleanup": "full"}
    assert run([Document("tea", id="1"), Document("coffee", id="2")], **options) == (2, 0, 0, 0)
    assert run([Document("oolong", id="1")], force_update=True, **options) == (0, 1, 1, 0)
    assert store.get_by_ids(["1", "2"]) == [Document("oolong", id="1")]


def test_what_cannot_be_stored_is_tried_again_next_time(run, store):
    with pytest.raises(ehi.InputError):
        run([TEA, page(" ", "b")], cleanup="full")
    assert texts(store) == []
    assert run([TEA, COFFEE], cleanup="full") == (2, 0, 0, 0)


def test_keywords_reach_the_index_and_unknown_ones_are_errors(run, store):
    heard = []
    run([TEA], upsert_kwargs={"progress": lambda *now: heard.append(now)})
    assert heard
    with pytest.raises(TypeError, match="namespace"):
        run([COFFEE], upsert_kwargs={"namespace": "x"})
    with pytest.raises(ValueError):
        run([page("tea", None)], cleanup="incremental", source_id_key="source")
