"""LangChain's own tests of a vector store, and what they leave out."""

import gzip
import shutil

import pytest

pytest.importorskip("langchain_core", reason="needs langchain-core")
pytest.importorskip("langchain_tests", reason="needs langchain-tests")
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_tests.integration_tests import EmbeddingsIntegrationTests, VectorStoreIntegrationTests

import ehi.langchain
from places import MODEL, ROOT
from ehi.langchain import EhiEmbeddings, EhiVectorStore


class TestVectorStore(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self, tmp_path):
        store = EhiVectorStore(tmp_path / "index", model=MODEL, precision="int8")
        yield store
        store.index.close()


class TestEmbeddings(EmbeddingsIntegrationTests):
    @property
    def embeddings_class(self):
        return EhiEmbeddings

    @property
    def embedding_model_params(self):
        return {"model": MODEL}


@pytest.fixture
def store(tmp_path):
    texts = [
        "Green tea has caffeine.",
        "Black tea has more caffeine than green tea.",
        "How to mend a flat tyre.",
    ]
    store = EhiVectorStore.from_texts(
        texts,
        EhiEmbeddings(MODEL),
        [{"year": year} for year in (2019, 2021, 2023)],
        ids=["a", "b", "c"],
        index=tmp_path / "index",
    )
    yield store
    store.index.close()


def test_filters_scores_and_retrievers(store):
    question = "which tea has caffeine?"
    found = store.similarity_search(question, k=3, filter={"year": {"$gt": 2020}})
    assert [document.id for document in found] == ["b", "c"]
    scored = store.similarity_search_with_score(question, k=3, mode="hybrid")
    assert [score for _, score in scored] == sorted((score for _, score in scored), reverse=True)
    near = store.similarity_search_with_relevance_scores(question, k=3, score_threshold=0.75)
    assert {document.id for document, _ in near} == {"a", "b"}
    retriever = store.as_retriever(search_kwargs={"k": 1, "filter": {"year": 2023}})
    assert [document.id for document in retriever.invoke("bicycles")] == ["c"]
    with pytest.raises(ehi.FilterError):
        store.similarity_search(question, filter={"year": {"$less": 1}})


def test_embeddings_are_searched_for_and_results_may_differ(store):
    row = store.embeddings.embed_query("which tea has caffeine?")
    assert [each.id for each in store.similarity_search_by_vector(row, k=2)] == [
        each.id
        for each in store.similarity_search("which tea has caffeine?", k=2, mode="dense", encoder="full")
    ]
    near = [
        each.id
        for each in store.max_marginal_relevance_search("which tea has caffeine?", k=2, lambda_mult=1.0)
    ]
    apart = [
        each.id
        for each in store.max_marginal_relevance_search("which tea has caffeine?", k=2, lambda_mult=0.0)
    ]
    assert set(near) == {"a", "b"} and "c" in apart


def test_what_would_be_ignored_is_refused(store, tmp_path):
    with pytest.raises(TypeError, match="model of its own"):
        EhiVectorStore.from_texts(["x"], DeterministicFakeEmbedding(size=6), index=tmp_path / "other")
    with pytest.raises(TypeError):
        EhiVectorStore(store.index, model=MODEL)
    with pytest.raises(TypeError):
        store.delete(["a"], namespace="x")
    with pytest.raises(TypeError):
        store.similarity_search("tea", namespace="x")
    with pytest.raises(ValueError, match="ids"):
        store.add_documents([Document("x")], ids=["1", "2"])
    with pytest.raises(ehi.InputError):
        store.add_documents([Document("x"), Document(" ")], ids=["1", "2"])
    assert store.get_by_ids(["1"]) == []
    with pytest.raises(TypeError, match="list of strings"):
        store.delete("ab")
    with pytest.raises(TypeError, match="namespace"):
        store.add_texts(["x"], namespace="x")
    with pytest.raises(ValueError, match="batch_size"):
        store.add_texts(["x"], batch_size=0)


def test_a_batch_is_stored_whole_or_not_at_all(store):
    with pytest.raises(ehi.InputError):
        store.add_texts(["1", "2", "3", " ", "5"], ids=["1", "2", "3", "4", "5"], batch_size=2)
    assert [each.id for each in store.get_by_ids(["1", "2", "3", "4", "5"])] == ["1", "2"]


def test_embeddings_have_the_settings_of_their_model(tmp_path):
    plain = tmp_path / "encoder"
    shutil.copytree(ROOT / "tests" / "fixtures" / "distilbert-768", plain)
    tensors = plain / "model.safetensors"
    tensors.write_bytes(gzip.decompress(tensors.with_suffix(".safetensors.gz").read_bytes()))
    model = ehi.Model(plain, dim=4, query_prompt="question: ")
    embeddings = EhiEmbeddings(model, precision="f32")
    row = ehi.Encoder(plain, dim=4, query_prompt="question: ").encode_query("tea")
    assert embeddings.embed_query("tea") == row.tolist() and len(row) == 4
    with pytest.raises(TypeError, match="has its dimensions"):
        EhiEmbeddings(model, dim=4)


def test_an_index_of_other_people_is_read(store):
    store.index.add([{"id": "d", "title": "Tyres", "text": "A tyre is round.", "metadata": {"year": 1}}])
    assert store.get_by_ids(["d"]) == [
        Document("A tyre is round.", id="d", metadata={"title": "Tyres", "year": 1})
    ]
    store.delete()
    assert len(store.index) == 0


def test_the_example_of_the_module(example):
    names = example(ehi.langchain)
    assert [each.id for each in names["retriever"].invoke("is there caffeine in tea?")] == ["tea"]
    names["store"].index.close()
