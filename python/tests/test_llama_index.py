"""LlamaIndex's retriever over an index."""

import asyncio

import pytest

pytest.importorskip("llama_index.core", reason="needs llama-index-core")
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.response_synthesizers import get_response_synthesizer
from llama_index.core.llms import MockLLM
from llama_index.core.schema import NodeRelationship, QueryBundle, RelatedNodeInfo, TextNode
from llama_index.core.vector_stores.types import FilterCondition, FilterOperator, MetadataFilter, MetadataFilters

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
    retriever.close()


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
    """The ids that a filter lets pass."""
    retriever = EhiRetriever(tmp_path_factory.mktemp("filtered") / "index", model=MODEL)
    years = {"tea": 2021, "coffee": 2022, "tyre": 2023}
    retriever.add([TextNode(id_=own, text=own, metadata={"year": year}) for own, year in years.items()])
    retriever.add([TextNode(id_="pump", text="A pump.", metadata={"tags": ["hot", "steel"]})])

    def search(filters):
        return {each.node_id for each in EhiRetriever(retriever.index, filters=filters).retrieve("tea")}

    yield search
    retriever.close()


def test_a_document_that_only_looks_like_a_node_is_named(retriever):
    retriever.index.add([{"id": "odd", "text": "An odd one.", "metadata": {"_node_content": "{"}}])
    with pytest.raises(ValueError, match="document odd are of no node"):
        EhiRetriever(retriever.index, k=4).retrieve("odd")


def test_options_are_looked_at_at_once(retriever):
    index = retriever.index
    with pytest.raises(TypeError, match="no option modus"):
        EhiRetriever(index, modus="hybrid")
    tea = MetadataFilter(key="text", value="tea", operator=FilterOperator.TEXT_MATCH)
    with pytest.raises(ValueError, match="no filter 'text_match'"):
        EhiRetriever(index, filters=MetadataFilters(filters=[tea]))
    with pytest.raises(ValueError, match="needs a list"):
        EhiRetriever(index, filters=MetadataFilters(filters=[MetadataFilter(key="a", value=1, operator="in")]))
    with pytest.raises(TypeError, match="exclude each other"):
        EhiRetriever(index, filters=MetadataFilters(filters=[]), filter={})


def test_a_query_engine_answers_from_it(retriever):
    engine = RetrieverQueryEngine(retriever, get_response_synthesizer(llm=MockLLM()))
    response = engine.query("is there caffeine in tea?")
    assert [each.node_id for each in response.source_nodes] == ["tea", "coffee"]
    assert "Green tea has caffeine." in str(response)


def test_the_example_of_the_module(example):
    names = example(ehi.llama_index)
    with pytest.raises(ehi.InputError, match="closed"):
        names["retriever"].retrieve("tea")
