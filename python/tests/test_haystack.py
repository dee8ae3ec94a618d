"""Haystack's own tests of a document store, and what they leave out."""

import asyncio

import pytest

pytest.importorskip("haystack", reason="needs haystack-ai")
from haystack import Document, Pipeline
from haystack.components.writers import DocumentWriter
from haystack.document_stores.errors import DuplicateDocumentError
from haystack.document_stores.types import DuplicatePolicy
from haystack.errors import FilterError
from haystack.testing.document_store import (
    CountDocumentsByFilterTest,
    CountUniqueMetadataByFilterTest,
    DocumentStoreBaseExtendedTests,
    FilterableDocsFixtureMixin,
    GetMetadataFieldMinMaxTest,
    GetMetadataFieldsInfoTest,
    GetMetadataFieldUniqueValuesTest,
)
from haystack.testing import document_store_async as asynchronous

from places import MODEL, SMALL
from ehi.haystack import EhiDocumentStore, EhiRetriever


@pytest.fixture
def document_store(tmp_path):
    store = EhiDocumentStore(tmp_path / "index", model=MODEL, precision="int8")
    yield store
    store.close()


class OfSmallModel:
    """What both kinds of tests ask of a store."""

    @pytest.fixture
    def document_store(self, tmp_path):
        store = EhiDocumentStore(tmp_path / "index", model=SMALL)
        yield store
        store.close()

    @staticmethod
    def assert_documents_are_equal(received, expected):
        """Documents come in the order of their ids."""
        assert received == sorted(expected, key=lambda document: document.id)


class TestDocumentStore(
    OfSmallModel,
    DocumentStoreBaseExtendedTests,
    CountDocumentsByFilterTest,
    CountUniqueMetadataByFilterTest,
    GetMetadataFieldMinMaxTest,
    GetMetadataFieldsInfoTest,
    GetMetadataFieldUniqueValuesTest,
):
    def test_write_documents(self, document_store):
        """Without a policy a second document of an id is an error, and nothing is written."""
        documents = [Document(id="1", content="one"), Document(id="2", content="two")]
        assert document_store.write_documents(documents) == 2
        with pytest.raises(DuplicateDocumentError):
            document_store.write_documents([Document(id="3", content="three"), documents[0]])
        assert document_store.count_documents() == 2


class TestDocumentStoreAsync(
    OfSmallModel,
    asynchronous.DeleteAllAsyncTest,
    asynchronous.CountDocumentsAsyncTest,
    asynchronous.CountDocumentsByFilterAsyncTest,
    asynchronous.CountUniqueMetadataByFilterAsyncTest,
    asynchronous.DeleteByFilterAsyncTest,
    asynchronous.UpdateByFilterAsyncTest,
    asynchronous.WriteDocumentsAsyncTest,
    asynchronous.DeleteDocumentsAsyncTest,
    asynchronous.GetMetadataFieldsInfoAsyncTest,
    asynchronous.GetMetadataFieldMinMaxAsyncTest,
    asynchronous.GetMetadataFieldUniqueValuesAsyncTest,
    asynchronous.FilterDocumentsAsyncTest,
):
    async def test_write_documents_async(self, document_store):
        """As `TestDocumentStore.test_write_documents`."""
        documents = [Document(id="1", content="one"), Document(id="2", content="two")]
        assert await document_store.write_documents_async(documents) == 2
        with pytest.raises(DuplicateDocumentError):
            await document_store.write_documents_async([documents[0]])
        assert await document_store.count_documents_async() == 2


async def test_the_retriever_in_a_coroutine(document_store):
    document_store.write_documents([Document(id="tea", content="Green tea."), Document(id="oil", content="Oil.")])
    retriever = EhiRetriever(document_store, top_k=1)
    found, oils = await asyncio.gather(retriever.run_async("tea"), retriever.run_async("oil"))
    assert [found["documents"][0].id, oils["documents"][0].id] == ["tea", "oil"]
    with pytest.raises(TypeError, match="no option modus"):
        EhiRetriever(document_store, search={"modus": "hybrid"})
    with pytest.raises(TypeError, match="argument of its own: k"):
        EhiRetriever(document_store, search={"k": 3})


CONDITIONS = [
    {"field": "meta.number", "operator": "==", "value": 2},
    {"field": "meta.number", "operator": "!=", "value": 2},
    {"field": "meta.number", "operator": "==", "value": None},
    {"field": "meta.number", "operator": "!=", "value": None},
    {"field": "meta.number", "operator": ">", "value": -3},
    {"field": "meta.number", "operator": "<=", "value": -2},
    {"field": "meta.number", "operator": "in", "value": [2, None]},
    {"field": "meta.number", "operator": "not in", "value": [2, -2]},
    {"field": "meta.date", "operator": ">=", "value": "1972-12-11T19:54:58"},
    {"field": "meta.chapter", "operator": "in", "value": ["intro", "abstract"]},
    {"field": "chapter", "operator": "==", "value": "intro"},
    {
        "operator": "NOT",
        "conditions": [
            {"field": "meta.number", "operator": "==", "value": 2},
            {"field": "meta.name", "operator": "==", "value": "name_0"},
        ],
    },
    {
        "operator": "OR",
        "conditions": [
            {"field": "meta.page", "operator": "==", "value": "90"},
            {
                "operator": "AND",
                "conditions": [{"field": "meta.no_embedding", "operator": "==", "value": True}],
            },
        ],
    },
]


class TestFilters(FilterableDocsFixtureMixin):
    @pytest.mark.parametrize("condition", CONDITIONS, ids=str)
    def test_a_filter_means_what_haystack_means(self, document_store, filterable_docs, condition):
        from haystack.utils.filters import document_matches_filter

        document_store.write_documents(filterable_docs)
        expected = {each.id for each in filterable_docs if document_matches_filter(condition, each)}
        assert 0 < len(expected) < len(filterable_docs)
        assert {each.id for each in document_store.filter_documents(condition)} == expected
        found = EhiRetriever(document_store, top_k=100, filters=condition).run("a document")["documents"]
        assert {each.id for each in found} == expected

    def test_ids_and_fields_that_have_no_filter(self, document_store, filterable_docs):
        document_store.write_documents(filterable_docs)
        own = filterable_docs[0].id
        assert document_store.count_documents_by_filter({"field": "id", "operator": "==", "value": own}) == 1
        assert (
            document_store.count_documents_by_filter({"field": "id", "operator": "not in", "value": [own]})
            == 17
        )
        for field, operator in (("content", "=="), ("id", ">"), ("meta.number", "like")):
            with pytest.raises(FilterError):
                document_store.filter_documents({"field": field, "operator": operator, "value": "x"})


def test_a_pipeline_with_the_retriever_survives_a_file(document_store):
    documents = [
        Document(id="tea", content="Green tea has caffeine.", meta={"year": 2021}, embedding=[0.5, 0.25]),
        Document(id="tyre", content="How to mend a flat tyre.", meta={"year": 2024}),
    ]
    document_store.write_documents(documents)
    pipeline = Pipeline()
    pipeline.add_component("retriever", EhiRetriever(document_store, top_k=1, search={"mode": "hybrid"}))
    (found,) = pipeline.run({"retriever": {"query": "is there caffeine in tea?"}})["retriever"]["documents"]
    assert (
        found.id == "tea"
        and found.score > 0
        and found.embedding == [0.5, 0.25]
        and found.meta == {"year": 2021}
    )
    written = pipeline.dumps()
    document_store.close()
    again = Pipeline.loads(written, allowed_modules=["ehi.haystack"])
    only = {"field": "meta.year", "operator": ">", "value": 2022}
    result = again.run({"retriever": {"query": "is there caffeine in tea?", "filters": only, "top_k": 5}})
    assert [each.id for each in result["retriever"]["documents"]] == ["tyre"]
    again.get_component("retriever").document_store.close()


def test_components_of_a_pipeline_that_was_read_share_their_store(document_store):
    pipeline = Pipeline()
    pipeline.add_component("writer", DocumentWriter(document_store))
    pipeline.add_component("retriever", EhiRetriever(document_store))
    written = pipeline.dumps()
    # Beside the one that is open, and after it.
    for _ in range(2):
        again = Pipeline.loads(written, allowed_modules=["ehi.haystack"])
        stores = [again.get_component(name).document_store for name in ("writer", "retriever")]
        assert stores[0] is stores[1]
        document_store.close()
    documents = [Document(id="tea", content="Green tea has caffeine.")]
    done = again.run({"writer": {"documents": documents}, "retriever": {"query": "caffeine"}})
    assert done["writer"]["documents_written"] == 1
    found = again.run({"writer": {"documents": []}, "retriever": {"query": "caffeine"}})["retriever"]["documents"]
    assert [each.id for each in found] == ["tea"]
    stores[0].close()


def test_what_cannot_be_stored_is_refused_and_nothing_written(document_store):
    with pytest.raises(ValueError, match="no content"):
        document_store.write_documents([Document(content="x"), Document(content=None, meta={"a": 1})])
    with pytest.raises(ValueError, match="_haystack"):
        document_store.write_documents([Document(content="x", meta={"_haystack": 1})])
    assert document_store.count_documents() == 0
    twice = [Document(id="1", content="first"), Document(id="1", content="second")]
    assert document_store.write_documents(twice, DuplicatePolicy.SKIP) == 1
    assert document_store.write_documents(twice, DuplicatePolicy.OVERWRITE) == 2
    assert [each.content for each in document_store.filter_documents()] == ["second"]
    with pytest.raises(ValueError):
        EhiRetriever("no store")


def test_values_are_told_apart_as_they_were_written(document_store):
    """An index counts 1 and 1.0 as one value, and a list as its elements."""
    times = ["2024-01-05T12:00:00+02:00", "2024-01-05T10:00:00Z"]
    values = [1, 1.0, True, "1", [1, 2], [1], {"a": 1}, None, *times]
    written = [Document(id=f"{at}", content="text", meta={"of": each, "a.b": at}) for at, each in enumerate(values)]
    document_store.write_documents(written)
    everything = {"field": "id", "operator": "!=", "value": "none"}
    count = document_store.count_unique_metadata_by_filter(everything, ["meta.of", "a.b"])
    assert count == {"of": 9, "a.b": 10}
    found, size = document_store.get_metadata_field_unique_values("of", size=20)
    assert size == 9 and set(times) < {each for each in found if isinstance(each, str)}
    assert document_store.get_metadata_field_min_max("a.b") == {"min": 0, "max": 9}
    assert document_store.count_documents_by_filter({}) == 10
    one = {"field": "of", "operator": "==", "value": 1}
    assert document_store.count_documents_by_filter(one) == 4 == document_store.delete_by_filter(one)
    assert document_store.delete_by_filter({}) == 6 and document_store.count_documents() == 0


def test_the_example_of_the_module(example):
    import ehi.haystack

    names = example(ehi.haystack)
    assert names["store"].count_documents() == 1
    names["store"].close()
