"""LlamaIndex's vector store over an index: the cases of its own stores' tests, and what they leave out."""

import asyncio

import numpy as np
import pytest

pytest.importorskip("llama_index.core", reason="needs llama-index-core")
from llama_index.core import MockEmbedding, StorageContext, VectorStoreIndex
from llama_index.core.ingestion import DocstoreStrategy, IngestionPipeline
from llama_index.core.llms import MockLLM
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.schema import (
    Document,
    ImageNode,
    IndexNode,
    MediaResource,
    Node,
    NodeRelationship,
    QueryBundle,
    RelatedNodeInfo,
    TextNode,
)
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.vector_stores.types import (
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryMode,
)

import ehi.llama_index
from places import MODEL
from ehi.llama_index import EhiEmbedding, EhiVectorStore


def node(own, text, source=None, **metadata):
    relationships = {NodeRelationship.SOURCE: RelatedNodeInfo(node_id=source)} if source else {}
    return TextNode(id_=own, text=text, metadata=metadata, relationships=relationships)


NODES = [
    node("tea", "Green tea has caffeine.", "drinks", year=2021),
    node("coffee", "Coffee has caffeine, too.", "drinks", year=2022),
    node("tyre", "How to mend a flat tyre.", "bikes", year=2023),
]


@pytest.fixture
def store(tmp_path):
    store = EhiVectorStore(tmp_path / "index", model=MODEL, precision="int8")
    assert store.add(NODES) == ["tea", "coffee", "tyre"]
    yield store
    store.close()


def index_of(store):
    return VectorStoreIndex.from_vector_store(store, embed_model=store.embed_model)


def ids(found):
    return [each.node_id for each in found]


def equal(key, value):
    return MetadataFilters(filters=[MetadataFilter(key=key, value=value)])


def test_nodes_come_back_as_they_were(store):
    retriever = index_of(store).as_retriever(similarity_top_k=2)
    first, second = retriever.retrieve("is there caffeine in tea?")
    assert (first.node_id, second.node_id) == ("tea", "coffee") and first.score > second.score
    assert first.node == NODES[0] and first.node.ref_doc_id == "drinks"
    assert ids(asyncio.run(retriever.aretrieve("is there caffeine in tea?"))) == ["tea", "coffee"]
    kinds = [
        IndexNode(id_="a", text="An index node.", index_id="other"),
        ImageNode(id_="b", text="An image.", image_path="b.png"),
        Node(id_="c", text_resource=MediaResource(text="A node of media.")),
    ]
    store.add(kinds)
    assert store.get_nodes(["a", "b", "c"]) == kinds


def test_nodes_are_listed_and_deleted(store):
    assert ids(store.get_nodes()) == ["coffee", "tea", "tyre"]
    assert ids(store.get_nodes(["tyre", "none", "tea"])) == ["tea", "tyre"] and store.get_nodes([]) == []
    assert ids(store.get_nodes(filters=equal("year", 2022))) == ["coffee"]
    assert ids(store.get_nodes(["tea"], equal("year", 2022))) == []
    store.delete_nodes(["tea", "tyre"], equal("year", 2023))
    assert ids(store.get_nodes()) == ["coffee", "tea"]
    store.delete_nodes([])
    for nothing in ({}, {"filters": MetadataFilters(filters=[])}):
        with pytest.raises(ValueError, match="clear"):
            store.delete_nodes(**nothing)
    assert len(store.client) == 2
    store.delete_nodes(["tea"])
    store.delete("bikes")
    assert ids(store.get_nodes()) == ["coffee"]
    store.delete("drinks")
    assert store.get_nodes() == []
    store.add(NODES)
    store.clear()
    assert store.get_nodes() == []


def test_the_same_in_coroutines(store):
    async def main():
        await store.async_add([node("oil", "Oil for chains.", "bikes")])
        assert ids(await store.aget_nodes(["oil", "tea"])) == ["oil", "tea"]
        await store.adelete_nodes(["tea"])
        await store.adelete("bikes")
        found = await store.aquery(VectorStoreQuery(query_str="caffeine", similarity_top_k=3))
        assert found.ids == ["coffee"]
        await store.aclear()
        assert await store.aget_nodes() == []

    asyncio.run(main())


def test_queries_are_narrowed(store):
    def query(**fields):
        return store.query(VectorStoreQuery(**{"query_str": "tea", "similarity_top_k": 3, **fields}))

    found = query()
    assert found.ids[0] == "tea" and ids(found.nodes) == found.ids and len(found.similarities) == 3
    assert len(query(similarity_top_k=1).ids) == 1
    assert query(filters=equal("year", 2022)).ids == ["coffee"]
    assert query(filters=equal("none", 1)).ids == []
    assert set(query(doc_ids=["drinks"]).ids) == {"tea", "coffee"}
    assert query(node_ids=["tyre"]).ids == ["tyre"]
    assert query(node_ids=["tyre"], doc_ids=["drinks"]).ids == []
    retriever = index_of(store).as_retriever(
        filters=equal("year", 2021), vector_store_kwargs={"filter": {"year": {"$gt": 2020}}, "exact": True}
    )
    assert ids(retriever.retrieve("tyres")) == ["tea"]
    retriever = index_of(store).as_retriever(vector_store_kwargs={"filter": '{"year": 2023}'})
    assert ids(retriever.retrieve("tea")) == ["tyre"]


def test_modes(store):
    def query(mode, **fields):
        fields = {"query_str": "a flat drink", "similarity_top_k": 3, **fields}
        return store.query(VectorStoreQuery(mode=VectorStoreQueryMode(mode), **fields))

    for mode in ("sparse", "text_search"):
        assert query(mode).ids == ["tyre"]
    assert len(query("sparse", query_str="caffeine", sparse_top_k=1).ids) == 1
    assert query("hybrid", alpha=0.0).ids[0] == "tyre"
    assert len(query("semantic_hybrid", hybrid_top_k=1).ids) == 1
    assert query("hybrid", alpha=1.0).ids == query("default").ids
    for mode, fields, message in (
        ("mmr", {}, "no mode 'mmr'"),
        ("default", {"mmr_threshold": 0.5}, "no mmr_threshold"),
        ("hybrid", {"sparse_top_k": 9}, "no sparse_top_k"),
        ("default", {"query_str": None}, "query_str"),
    ):
        with pytest.raises(ValueError, match=message):
            query(mode, **fields)
    with pytest.raises(TypeError, match="no option modus"):
        store.query(VectorStoreQuery(query_str="tea"), modus="hybrid")
    with pytest.raises(TypeError, match="argument of its own: k"):
        store.query(VectorStoreQuery(query_str="tea"), k=3)


def test_embeddings_are_those_of_the_index(store):
    embed = store.embed_model
    encoder = ehi.Encoder(store.client.model)
    assert embed.get_query_embedding("mending wheels") == encoder.encode_query("mending wheels").tolist()
    texts = [each.text for each in NODES]
    rows = embed.get_text_embedding_batch(texts)
    assert (
        rows == encoder.encode_document(texts).tolist() == asyncio.run(embed.aget_text_embedding_batch(texts))
    )
    assert np.allclose(embed.get_text_embedding(texts[0]), rows[0], atol=1e-6)
    # Words count before an embedding, which other retrievers leave in a query.
    row = embed.get_query_embedding("mending wheels")
    retriever = index_of(store).as_retriever(similarity_top_k=1)
    assert ids(retriever.retrieve(QueryBundle("green tea", embedding=row))) == ["tea"]
    assert store.query(VectorStoreQuery(query_embedding=row)).ids == ["tyre"]
    assert EhiEmbedding(MODEL, precision="int8", embed_batch_size=7).embed_batch_size == 7
    with pytest.raises(TypeError, match="modus"):
        EhiEmbedding(MODEL, modus="f32")


def test_embeddings_of_another_model_are_refused(store):
    other = VectorStoreIndex.from_vector_store(store, embed_model=MockEmbedding(embed_dim=8))
    with pytest.raises(ValueError, match="embedding of 8 numbers.*have 384.*store.embed_model"):
        other.insert_nodes([node("oil", "Oil for chains.")])
    with pytest.raises(ehi.Error):
        store.query(VectorStoreQuery(query_embedding=[1.0] * 8))
    assert len(store.client) == 3


def test_documents_by_way_of_a_storage_context(store, tmp_path):
    store.clear()
    context = StorageContext.from_defaults(vector_store=store)
    documents = [Document(id_=own, text=f"Text on {own}s.") for own in ("tea", "tyre")]
    index = VectorStoreIndex.from_documents(documents, storage_context=context, embed_model=store.embed_model)
    (found,) = index.as_retriever(similarity_top_k=1).retrieve("a tyre")
    assert found.node.ref_doc_id == "tyre"
    index.insert(Document(id_="oil", text="Text on oil."))
    index.delete_ref_doc("tyre")
    assert {each.ref_doc_id for each in store.get_nodes()} == {"tea", "oil"}
    context.persist(str(tmp_path / "context"))
    reader = EhiVectorStore(ehi.Index.open(store.client.path, read_only=True))
    assert len(reader.get_nodes()) == 2
    reader.close()


def test_an_ingestion_pipeline_keeps_it_as_the_documents_are(store):
    store.clear()
    pipeline = IngestionPipeline(
        transformations=[SentenceSplitter(chunk_size=64, chunk_overlap=0), store.embed_model],
        vector_store=store,
        docstore=SimpleDocumentStore(),
        docstore_strategy=DocstoreStrategy.UPSERTS_AND_DELETE,
    )
    texts = {"tea": "Green tea has caffeine. " * 20, "tyre": "How to mend a flat tyre."}
    documents = [Document(id_=own, text=text) for own, text in texts.items()]
    parts = len(pipeline.run(documents=documents))
    assert parts > 2 and len(store.client) == parts
    assert pipeline.run(documents=documents) == []
    pipeline.run(documents=[Document(id_="tea", text="Black tea, too.")])
    assert [each.text for each in store.get_nodes()] == ["Black tea, too."]


def test_documents_of_others(store):
    store.client.add(
        [{"id": "pump", "title": "Pumps", "text": "Pumps for tyres of bicycles.", "metadata": {"year": 1}}]
    )
    (found,) = store.query(VectorStoreQuery(query_str="pumps", filters=equal("year", 1))).nodes
    assert found.text == "Pumps for tyres of bicycles." and found.metadata == {"title": "Pumps", "year": 1}
    store.client.add([{"id": "odd", "text": "An odd one.", "metadata": {"_node_content": "{"}}])
    with pytest.raises(ValueError, match="document odd are of no node"):
        store.get_nodes(["odd"])


def test_what_cannot_be_is_refused_and_loses_nothing(store):
    with pytest.raises(TypeError):
        EhiVectorStore(store.client, model=MODEL)
    with pytest.raises(ehi.InputError):
        store.add([node("new", "A new one."), TextNode(text="")])
    with pytest.raises(TypeError, match="namespace"):
        store.add([node("new", "A new one.")], namespace="x")
    assert ids(store.get_nodes(["new"])) == []
    tea = MetadataFilter(key="text", value="tea", operator=FilterOperator.TEXT_MATCH)
    with pytest.raises(ValueError, match="no filter 'text_match'"):
        store.get_nodes(filters=MetadataFilters(filters=[tea]))
    with pytest.raises(ValueError, match="needs a list"):
        store.get_nodes(filters=MetadataFilters(filters=[MetadataFilter(key="a", value=1, operator="in")]))


FILTERS = [
    (FilterOperator.EQ, "year", 2021, {"tea"}),
    (FilterOperator.NE, "year", 2021, {"coffee", "tyre", "pump"}),
    (FilterOperator.GT, "year", 2022, {"tyre"}),
    (FilterOperator.GTE, "year", 2022, {"coffee", "tyre"}),
    (FilterOperator.LT, "year", 2022, {"tea"}),
    (FilterOperator.LTE, "year", 2022, {"tea", "coffee"}),
    (FilterOperator.IN, "year", [2021, 2023], {"tea", "tyre"}),
    (FilterOperator.NIN, "year", [2021, 2023], {"coffee", "pump"}),
    (FilterOperator.ANY, "tags", ["hot", "cold"], {"pump"}),
    (FilterOperator.ALL, "tags", ["hot", "steel"], {"pump"}),
    (FilterOperator.ALL, "tags", ["hot", "cold"], set()),
    (FilterOperator.CONTAINS, "tags", "steel", {"pump"}),
    (FilterOperator.IS_EMPTY, "year", None, {"pump"}),
    (FilterOperator.IS_EMPTY, "tags", None, {"tea", "coffee", "tyre"}),
]


@pytest.mark.parametrize("operator, key, value, expected", FILTERS)
def test_filters_of_llama_index(filtered, operator, key, value, expected):
    one = MetadataFilter(key=key, value=value, operator=operator)
    assert filtered(MetadataFilters(filters=[one])) == expected
    not_one = MetadataFilters(filters=[one], condition=FilterCondition.NOT)
    assert filtered(not_one) == {"tea", "coffee", "tyre", "pump"} - expected
    late = MetadataFilter(key="year", value=2023, operator=FilterOperator.EQ)
    assert filtered(MetadataFilters(filters=[one, late], condition=FilterCondition.OR)) == expected | {"tyre"}
    assert filtered(MetadataFilters(filters=[late, MetadataFilters(filters=[one])])) == expected & {"tyre"}


@pytest.fixture(scope="module")
def filtered(tmp_path_factory):
    """The ids that a filter lets pass, in a query and in a list."""
    store = EhiVectorStore(tmp_path_factory.mktemp("filtered") / "index", model=MODEL)
    years = {"tea": 2021, "coffee": 2022, "tyre": 2023}
    store.add([node(own, own, year=year) for own, year in years.items()])
    store.add([node("pump", "A pump.", tags=["hot", "steel"])])

    def search(filters):
        found = store.query(VectorStoreQuery(query_str="tea", similarity_top_k=9, filters=filters))
        assert sorted(found.ids) == ids(store.get_nodes(filters=filters))
        return set(found.ids)

    yield search
    store.close()


def test_a_query_engine_answers_from_it(store):
    engine = index_of(store).as_query_engine(llm=MockLLM(), similarity_top_k=2)
    response = engine.query("is there caffeine in tea?")
    assert ids(response.source_nodes) == ["tea", "coffee"]
    assert "Green tea has caffeine." in str(response)


def test_the_example_of_the_module(example):
    names = example(ehi.llama_index)
    assert ids(names["found"]) == ["tea"]
    names["store"].close()
