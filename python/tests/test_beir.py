"""BEIR's own evaluator over an index."""

import pytest

pytest.importorskip("beir", reason="needs beir")
from beir.retrieval.evaluation import EvaluateRetrieval

import datasets_
import ehi
from places import MODEL, SCIFACT
from ehi.beir import EhiSearch


@pytest.fixture(scope="module")
def data():
    return datasets_.part(SCIFACT, queries=20, others=60)


def test_beir_and_ehi_measure_the_same(data, tmp_path):
    corpus, queries, qrels = data
    retriever = EvaluateRetrieval(EhiSearch(MODEL), k_values=[10, 100])
    ndcg, _, recall, _ = retriever.evaluate(qrels, retriever.retrieve(corpus, queries), retriever.k_values)
    datasets_.write(tmp_path / "data", *data)
    with ehi.Index.create(tmp_path / "index", MODEL) as index:
        index.add([{"id": own, **document} for own, document in corpus.items()])
        exact = ehi.evaluate(index, tmp_path / "data")["exact"]
    assert ndcg["NDCG@10"] > 0.6
    assert ndcg["NDCG@10"] == pytest.approx(exact["ndcg@10"], abs=1e-4)
    assert recall["Recall@100"] == pytest.approx(exact["recall@100"], abs=1e-4)


def test_embeddings_from_files_find_the_same(data, tmp_path):
    pytest.importorskip("faiss", reason="needs faiss-cpu, as BEIR's own search does")
    corpus, queries, _ = data
    search = EhiSearch(MODEL, exact=True, mode="dense", encoder="full")
    retriever = EvaluateRetrieval(search, k_values=[10], score_function="dot")
    plain = retriever.retrieve(corpus, queries)
    from_files = retriever.encode_and_retrieve(
        corpus, queries, encode_output_path=str(tmp_path / "embeddings")
    )
    assert set(plain) == set(from_files) == set(queries)
    for query, scores in plain.items():
        assert next(iter(scores)) == next(iter(from_files[query])) and len(from_files[query]) == 10
        # Documents near the tenth place may change it; what both found has the same score.
        both = scores.keys() & from_files[query].keys()
        assert len(both) >= 9
        assert all(scores[own] == pytest.approx(from_files[query][own], abs=2e-3) for own in both)


def test_a_document_with_the_id_of_the_query_is_left_out(tmp_path):
    corpus = {
        "q": {"text": "tea"},
        "a": {"title": "Tea", "text": "Green tea."},
        "empty": {"title": "", "text": " "},
    }
    search = EhiSearch(MODEL, folder=tmp_path, create={"precision": "int8"})
    assert search.search(corpus, {"q": "tea"}, 5, "cos_sim") == {"q": {"a": pytest.approx(0.8, abs=0.2)}}
    assert not list(tmp_path.iterdir())
    with pytest.raises(ValueError, match="score function"):
        search.search(corpus, {"q": "tea"}, 5, "euclid")
    with pytest.raises(TypeError, match="unknown"):
        search.search(corpus, {"q": "tea"}, 5, chunk=3)
