"""MTEB's own evaluator over an index."""

import pytest

pytest.importorskip("mteb", reason="needs mteb")
import mteb
from mteb.models.models_protocols import SearchProtocol

import datasets_
import ehi
from places import MODEL, SCIFACT
from ehi.mteb import EhiSearch

QUIET = {"cache": None, "show_progress_bar": False}


@pytest.fixture(scope="module")
def data():
    return datasets_.part(SCIFACT, queries=20, others=60)


def test_mteb_and_ehi_measure_the_same(data, tmp_path):
    model = EhiSearch(MODEL)
    assert isinstance(model, SearchProtocol)
    found = datasets_.ndcg_at_10(mteb.evaluate(model, datasets_.task("SciFact", *data), **QUIET))
    model.close()
    datasets_.write(tmp_path / "data", *data)
    corpus = [{"id": own, **document} for own, document in data[0].items()]
    with ehi.Index.create(tmp_path / "index", MODEL) as index:
        index.add(corpus)
        report = ehi.evaluate(index, tmp_path / "data")
    assert found > 0.6
    assert found == pytest.approx(report["exact"]["ndcg@10"], abs=1e-4)


def test_options_of_a_search_and_reranking(data, tmp_path):
    top_ranked = {query: list(data[0])[:50] for query in data[1]}
    model = EhiSearch(MODEL, folder=tmp_path, create={"precision": "int8"}, mode="hybrid", alpha=0.5)
    ranked = datasets_.task("SciFact", *data, top_ranked=top_ranked)
    prediction = tmp_path / "predictions"
    mteb.evaluate(model, ranked, prediction_folder=prediction, **QUIET)
    assert "hybrid" in str(model.mteb_model_meta.experiment_kwargs)
    results = model.search(
        ranked.dataset["default"]["test"]["queries"]
        if ranked.data_loaded
        else datasets_.task("SciFact", *data).dataset["default"]["test"]["queries"],
        task_metadata=ranked.metadata,
        hf_split="test",
        hf_subset="default",
        top_k=10,
        encode_kwargs={},
        top_ranked=top_ranked,
    )
    assert all(
        set(scores) <= set(top_ranked[query]) and len(scores) == 10 for query, scores in results.items()
    )
    model.close()
    assert [path.name for path in tmp_path.iterdir()] == ["predictions"]
    with pytest.raises(ehi.InputError):
        mteb.evaluate(EhiSearch(MODEL, exact=True, beam=3), datasets_.task("SciFact", *data), **QUIET)
