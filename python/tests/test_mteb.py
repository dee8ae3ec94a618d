"""MTEB's own evaluator over an index."""

import numpy as np
import pytest

pytest.importorskip("mteb", reason="needs mteb")
import mteb
from mteb.models.models_protocols import SearchProtocol
from mteb.models.search_wrappers import SearchEncoderWrapper

import datasets_
import ehi
from places import MODEL, SCIFACT
from ehi.mteb import EhiSearch, EhiStore

QUIET = {"cache": None, "show_progress_bar": False}


@pytest.fixture(scope="module")
def data():
    return datasets_.part(SCIFACT, queries=20, others=60)


class Encoder:
    """Ours as an encoder of MTEB's."""

    def __init__(self, similarity=mteb.models.model_meta.ScoringFunction.COSINE):
        self.encoder = ehi.Encoder(MODEL)
        self.mteb_model_meta = EhiSearch(MODEL).mteb_model_meta.model_copy(
            update={"similarity_fn_name": similarity}
        )

    def encode(self, inputs, *, task_metadata, hf_split, hf_subset, prompt_type=None, **kwargs):
        encode = (
            self.encoder.encode_query
            if prompt_type == mteb.types.PromptType.query
            else self.encoder.encode_document
        )
        return np.concatenate([encode(batch["text"]) for batch in inputs])

    def similarity(self, first, second):
        return np.asarray(first) @ np.asarray(second).T

    def similarity_pairwise(self, first, second):
        return (np.asarray(first) * np.asarray(second)).sum(axis=1)


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


@pytest.mark.parametrize("similarity", ["COSINE", "DOT_PRODUCT"])
def test_any_encoder_searches_through_a_store(data, similarity):
    encoder = Encoder(mteb.models.model_meta.ScoringFunction[similarity])
    task = datasets_.task("SciFact", *data)
    plain = datasets_.ndcg_at_10(mteb.evaluate(SearchEncoderWrapper(encoder), task, **QUIET))
    store = EhiStore.of(encoder)
    wrapped = SearchEncoderWrapper(encoder, index_backend=store)
    through = datasets_.ndcg_at_10(mteb.evaluate(wrapped, datasets_.task("SciFact", *data), **QUIET))
    # Embeddings are stored as float16.
    assert through == pytest.approx(plain, abs=2e-3) and plain > 0.6


def test_a_store_of_any_width_gives_exact_products_and_places():
    random = np.random.default_rng(5)
    rows, asked = random.standard_normal((40, 100)).astype(np.float32), random.standard_normal((3, 100))
    store = EhiStore("dot")
    with pytest.raises(ValueError, match="before"):
        store.search(asked, 5, None)
    store.add_documents(rows[:25], [f"d{place}" for place in range(25)])
    store.add_documents(rows[25:], [f"d{place}" for place in range(25, 40)])
    scores, places = store.search(asked, 5, None)
    products = asked @ rows.T
    assert places == np.argsort(-products, axis=1)[:, :5].tolist()
    assert np.allclose(scores, -np.sort(-products, axis=1)[:, :5], atol=0.05)
    ranked = {"q": ["d30", "d2", "d7"]}
    scores, places = store.search(asked[:1], 2, None, ranked, {0: "q"})
    assert places == [np.argsort(-products[0, [30, 2, 7]])[:2].tolist()]
    with pytest.raises(ValueError, match="query_idx_to_id"):
        store.search(asked, 5, None, ranked)
    store.clear()
    with pytest.raises(ValueError, match="similarity"):
        EhiStore.of(Encoder(mteb.models.model_meta.ScoringFunction.EUCLIDEAN))
