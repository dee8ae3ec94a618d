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
        (found,) = index.search(torch.tensor(other.encode_query(["caffeine"])).half().numpy(), k=1)
        assert found.ids == ["tea"]


@pytest.fixture
def changed(other):
    """An encoder whose weights are in memory alone, in single precision."""
    encoder = sentence_transformers.SentenceTransformer(
        str(MODEL), device="cpu", model_kwargs={"dtype": torch.float32}
    )
    with torch.no_grad():
        layer = encoder[0].auto_model.encoder.layer[0].output.dense.weight
        layer += 0.02 * torch.randn(layer.shape, generator=torch.Generator().manual_seed(1))
    return encoder


def rows_of(encoder, texts, **options):
    return encoder.encode_document(texts, normalize_embeddings=True, **options)


def test_an_encoder_in_memory_is_a_model(other, changed, documents, tmp_path, monkeypatch):
    texts = [each["text"] for each in documents[:8]]
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    model = ehi.Model(changed)
    assert not model.has_tree and model.dim == 384 and model.path.parent == tmp_path
    for encoder in (ehi.Encoder(model), ehi.Encoder(changed)):
        assert np.abs(encoder.encode_document(texts) - rows_of(changed, texts)).max() < 1e-5
        assert np.abs(encoder.encode_query(texts) - changed.encode_query(texts)).max() < 1e-5
    assert np.abs(rows_of(changed, texts) - rows_of(other, texts)).max() > 1e-2
    with ehi.Index.create(tmp_path / "index", changed) as index:
        index.add(documents[:8])
        assert index.search(texts[3], k=1).ids == [documents[3]["id"]]
        assert index.model.hash == model.hash and index.model.path.is_relative_to(tmp_path / "index")
    ehi.Index.open(tmp_path / "index", model=changed).close()
    # The folder goes with the last model that has it.
    copied = ehi.Index.create(tmp_path / "copy", model)
    assert [each.name for each in tmp_path.iterdir() if each.name.startswith("ehi-")] == [model.path.name]
    del model
    assert not [each for each in tmp_path.iterdir() if each.name.startswith("ehi-")]
    copied.add(documents[:8])
    assert copied.search(texts[3], k=1).ids == [documents[3]["id"]]
    copied.close()


def test_fewer_dimensions_and_prompts_are_those_of_the_object(changed, documents):
    texts = [each["text"] for each in documents[:4]]
    changed.truncate_dim, changed.prompts["document"] = 64, "passage: "
    model = ehi.Model(changed)
    assert model.dim == 64
    mine, theirs = ehi.Encoder(model).encode_document(texts), rows_of(changed, texts)
    assert np.abs(mine / np.linalg.norm(mine, axis=1, keepdims=True) - theirs).max() < 1e-5
    assert ehi.Encoder(changed).dim == 64 and ehi.Model(changed, dim=32).dim == 32


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
