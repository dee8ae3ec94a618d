"""LlamaIndex's retriever over an index."""

import asyncio

import pytest

pytest.importorskip("llama_index.core", reason="needs llama-index-core")
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.response_synthesizers import get_response_synthesizer
from llama_index.core.llms import MockLLM
from llama_index.core.schema import NodeRelationship, QueryBundle, RelatedNodeInfo, TextNode

import ehi.llama_index
from places import MODEL
from ehi.llama_index import EhiRetriever


@pytest.fixture
def retriever(tmp_path):
    retriever = EhiRetriever(tmp_path / "index", model=MODEL, k=2)
    retriever.add(
        [
            TextNode(
                id_="tea",
                text="Green tea has caffeine.",
                metadata={"year": 2021},
                relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id="drinks")},
            ),
            TextNode(id_="coffee", text="Coffee has caffeine, too.", metadata={"year": 2022}),
            TextNode(id_="tyre", text="How to mend a flat tyre.", metadata={"year": 2023}),
        ]
    )
    yield retriever
    retriever.index.close()


def test_nodes_come_back_as_they_were(retriever):
    first, second = retriever.retrieve("is there caffeine in tea?")
    assert (first.node_id, second.node_id) == ("tea", "coffee") and first.score > second.score
    assert first.node.text == "Green tea has caffeine." and first.node.metadata == {"year": 2021}
    assert first.node.ref_doc_id == "drinks"
    assert [each.node_id for each in asyncio.run(retriever.aretrieve("is there caffeine in tea?"))] == [
        "tea",
        "coffee",
    ]


def test_filters_embeddings_and_documents_of_others(retriever):
    index = retriever.index
    assert [each.node_id for each in EhiRetriever(index, filter={"year": {"$gt": 2022}}).retrieve("tea")] == [
        "tyre"
    ]
    row = ehi.Encoder(MODEL).encode_query("mending wheels").tolist()
    assert retriever.retrieve(QueryBundle("not this", embedding=row))[0].node_id == "tyre"
    index.add(
        [{"id": "pump", "title": "Pumps", "text": "Pumps for tyres of bicycles.", "metadata": {"year": 1}}]
    )
    (found,) = EhiRetriever(index, k=1, filter={"year": 1}).retrieve("pumps")
    assert found.node.text == "Pumps for tyres of bicycles." and found.node.metadata == {
        "title": "Pumps",
        "year": 1,
    }
    with pytest.raises(TypeError):
        EhiRetriever(index, model=MODEL)
    with pytest.raises(ValueError, match="refused"):
        retriever.add([TextNode(text="")])


def test_a_query_engine_answers_from_it(retriever):
    engine = RetrieverQueryEngine(retriever, get_response_synthesizer(llm=MockLLM()))
    response = engine.query("is there caffeine in tea?")
    assert [each.node_id for each in response.source_nodes] == ["tea", "coffee"]
    assert "Green tea has caffeine." in str(response)


def test_the_example_of_the_module(example):
    names = example(ehi.llama_index)
    assert [each.node_id for each in names["retriever"].retrieve("tea")] == ["tea"]
    names["retriever"].index.close()
