"""sentence-transformers opens the bundle and gives the same vectors; both work in one process."""

import threading

import numpy as np
import pytest

sentence_transformers = pytest.importorskip("sentence_transformers", reason="needs sentence-transformers")
torch = pytest.importorskip("torch", reason="needs torch")

import ehi
from places import MODEL


@pytest.fixture(scope="module")
def other():
    return sentence_transformers.SentenceTransformer(str(MODEL), device="cpu")


def test_vectors_are_the_same(other, documents):
    own = ehi.Encoder(MODEL)
    texts = [f"{each['title']} {each['text']}" for each in documents[:8]] + [
        "",
        "tea",
        "\u00e9t\u00e9 \u4f60\u597d",
        "x " * 600,
    ]
    for mine, theirs in (
        (own.encode_document(texts), other.encode_document(texts)),
        (own.encode_query(texts), other.encode_query(texts)),
    ):
        assert mine.shape == theirs.shape
        # Weights are stored as float16 by both.
        assert np.abs(mine - theirs).max() < 1e-3
        assert np.abs((mine * theirs).sum(axis=1) - 1).max() < 1e-3


def test_vectors_of_the_other_are_stored_and_searched(other, tmp_path):
    texts = ["Green tea has caffeine.", "How to mend a flat tyre."]
    with ehi.Index.create(tmp_path / "index", MODEL) as index:
        assert index.add_vectors(["tea", "tyre"], other.encode_document(texts), texts)["inserted"] == 2
        assert index.search(other.encode_query("caffeine"), k=1).ids == ["tea"]
        # Half the precision, and rows of a tensor without copying.
        assert index.search(torch.tensor(other.encode_query(["caffeine"])).half().numpy(), k=1).ids == [
            ["tea"]
        ]


def test_threads_of_both_do_not_wait_for_each_other(other, filled, documents):
    titles = [each["title"] for each in documents[:12]]
    failures, done = [], []

    def torch_side():
        try:
            for _ in range(3):
                rows = other.encode_document(titles)
                done.append(len(filled.search(rows, k=3)))
        except BaseException as error:  # noqa: BLE001
            failures.append(error)

    def own_side():
        try:
            for _ in range(3):
                done.append(len(filled.search(titles, k=3)))
        except BaseException as error:  # noqa: BLE001
            failures.append(error)

    threads = [threading.Thread(target=each, daemon=True) for each in (torch_side, own_side)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    assert not failures and done == [12] * 6
