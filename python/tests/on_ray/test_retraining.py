"""A new model for a published set: trained, tried on a shadow, and published if it is better."""

import shutil

import numpy as np
import pytest

ray = pytest.importorskip("ray", reason='Ray is not installed: pip install "ehi[ray]"')
safetensors = pytest.importorskip("safetensors.numpy")

from sets import MODEL

import ehi
import ehi.ray
from ehi.ray import manifest as manifests
from ehi.ray import retraining
from ehi.ray.storage import connect

COUNT = 125
# The tree alone, for a moment.
CONFIG = {
    "encoder.trainable_layers": 0,
    "encoder.max_document_tokens": 32,
    "schedule.epochs": 1,
    "schedule.indexer_epochs": 1,
    "tree.branching_factor": 4,
    "query_encoder": "none",
}


@pytest.fixture(scope="module")
def short(corpus):
    """Beginnings of abstracts, and a question for each: its title."""
    documents = [{"id": own["id"], "text": own["text"][:200]} for own in corpus[:COUNT]]
    pairs = [(own["title"], own["id"]) for own in corpus[:COUNT]]
    return documents, [*pairs, ("a question about nothing", "no such document")]


@pytest.fixture(scope="module")
def weak(tmp_path_factory):
    """An encoder that has its words confused: it finds next to nothing."""
    folder = tmp_path_factory.mktemp("weak") / "model"
    folder.mkdir()
    for name in ("config.json", "modules.json", "tokenizer.json", "sentence_bert_config.json"):
        shutil.copy(MODEL / name, folder)
    shutil.copytree(MODEL / "1_Pooling", folder / "1_Pooling")
    weights = safetensors.load_file(MODEL / "model.safetensors")
    (name,) = [name for name in weights if name.endswith("word_embeddings.weight")]
    weights[name] = np.random.default_rng(3).permutation(weights[name])
    safetensors.save_file(weights, folder / "model.safetensors")
    return folder


def found(uri, cache, k=300):
    with ehi.ray.open(uri, cache=cache) as shards:
        answer = shards.search("protein", k, exact=True, mode="dense")
        assert not answer.partial
        return sorted(hit.id for hit in answer.hits)


def test_a_better_model_is_published_and_what_came_meanwhile_holds(cluster, short, weak, tmp_path):
    documents, pairs = short
    uri = tmp_path / "set"
    ehi.ray.build(ray.data.from_items(documents), weak, uri, shards=2, precision="int8")
    done = ehi.ray.retrain(uri, pairs, base=MODEL, config=CONFIG, name="first", cache=tmp_path / "cache")
    verdict = done["verdict"]
    assert verdict["decision"] == "changed" and verdict["ndcg_at_10"]["difference"] > 0.3, verdict
    assert done["version"] == 2 and done["without_document"] == 1
    manifest = manifests.read(connect(uri))
    assert manifest["model"]["hash"] == done["model"] and manifest["documents"] == COUNT
    assert found(uri, tmp_path / "cache") == sorted(own["id"] for own in documents)
    # Made again it does nothing; the state before is there.
    again = ehi.ray.retrain(uri, pairs, base=MODEL, config=CONFIG, name="first")
    assert again["version"] == 2 and ehi.ray.versions(uri) == [1, 2]
    with ehi.ray.open(uri, version=1, cache=tmp_path / "cache") as shards:
        assert shards.prepare() == {}
    # The way back, and forth again.
    assert ehi.ray.restore(uri, 1) == 3 and ehi.ray.restore(uri, 3) == 3
    assert manifests.read(connect(uri))["model"] != manifest["model"]
    assert found(uri, tmp_path / "cache") == sorted(own["id"] for own in documents)
    again = ehi.ray.retrain(uri, pairs, base=MODEL, config=CONFIG, name="first")
    assert again["version"] == 4 and manifests.read(connect(uri))["model"] == manifest["model"]


def test_one_that_is_not_better_waits_for_its_name(published, short, corpus, tmp_path):
    uri, (_, pairs) = tmp_path / "set", short
    shutil.copytree(published, uri)
    done = ehi.ray.retrain(
        uri, pairs, config={**CONFIG, "tree.branching_factor": 5}, cache=tmp_path / "cache"
    )
    assert done["verdict"]["decision"] == "no_gain" and done["version"] is None
    # Its encoder is the old one: nothing was encoded, and exact search finds the same.
    assert done["verdict"]["ndcg_at_10"]["difference"] == 0
    assert ehi.ray.versions(uri) == [1] and done["report"]["verdict"] is not None
    before = manifests.read(connect(uri))["model"]["hash"]
    # What is published meanwhile holds when it is adopted.
    ehi.ray.append(uri, ray.data.from_items([{"id": "new", "text": "a new text"}]))
    ehi.ray.delete(uri, [corpus[0]["id"], "new"])
    ehi.ray.append(uri, ray.data.from_items([{"id": "newer", "text": "a newer text"}]))
    assert ehi.ray.adopt(uri, done["name"]) == 5
    manifest = manifests.read(connect(uri))
    assert manifest["model"]["hash"] == done["model"] != before
    expected = sorted([own["id"] for own in corpus[1:]] + ["newer"])
    assert found(uri, tmp_path / "cache") == expected
    assert ehi.ray.compact(uri) == 6 and found(uri, tmp_path / "cache") == expected
    assert ehi.ray.adopt(uri, done["name"]) == 6
    # The call that made it, made again, trains nothing, though the set has another model now.
    again = ehi.ray.retrain(uri, pairs, config={**CONFIG, "tree.branching_factor": 5})
    assert again == {**done, "version": 6}
    ehi.ray.clean(uri)
    with pytest.raises(ehi.ray.ShardsError, match="no candidate"):
        ehi.ray.adopt(uri, done["name"])


def test_too_few_questions_train_nothing(published, short, tmp_path):
    uri = tmp_path / "set"
    shutil.copytree(published, uri)
    done = ehi.ray.retrain(uri, short[1][:30], config=CONFIG)
    assert done["verdict"]["decision"] == "too_few" and done["model"] is None and done["version"] is None
    assert ehi.ray.versions(uri) == [1] and connect(uri).list("candidates") == []


def test_what_cannot_be_trained_on(published):
    for pairs in ([], ["ab"], [("a", 1)], [("a", "b", "c")]):
        with pytest.raises(ValueError):
            ehi.ray.retrain(published, pairs)
    with pytest.raises(ValueError, match="`documents`"):
        ehi.ray.retrain(published, [("a", "b")], documents=-1)
    with pytest.raises(ehi.ray.ManifestError, match="nothing was published"):
        ehi.ray.retrain(published / "none", [("a", "b")])


def test_questions_are_set_aside_in_whatever_spelling():
    pairs = [(f"question {n}", "a") for n in range(1000)]
    learned, held_out = retraining.divided(pairs)
    assert 150 < len(held_out) < 250 and len(learned) + len(held_out) == 1000
    other = retraining.divided([(question.upper() + "?", id) for question, id in pairs])[1]
    assert [question.lower().rstrip("?") for question, _ in other] == [question for question, _ in held_out]
