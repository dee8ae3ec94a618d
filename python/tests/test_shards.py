"""One search over several indexes, by the parts that sets of shards are made of."""

import numpy as np
import pytest

import ehi
from ehi import shards
from places import MODEL

SHARDS = 3
QUESTIONS = ["gene expression in cells", "+cell protein", "vitamin d", "mice -cancer"]


@pytest.fixture(scope="module")
def divided(documents, tmp_path_factory):
    folder = tmp_path_factory.mktemp("divided")
    indexes = []
    for number in range(SHARDS):
        index = ehi.Index.create(folder / str(number), MODEL, precision="int8")
        index.add(documents[number::SHARDS])
        indexes.append(index)
    yield indexes
    for index in indexes:
        index.close()


@pytest.fixture(scope="module")
def statistics(divided):
    first, *others = (shards.term_statistics(index) for index in divided)
    total = first
    for other in others:
        total = total + other
    return total


def bits(hits):
    return [(hit.id, np.float32(hit.score).tobytes()) for hit in hits]


def test_statistics_are_summed_and_come_back(filled, statistics):
    own = shards.term_statistics(filled)
    assert statistics == own and statistics.documents == len(filled)
    assert shards.TermStatistics.from_bytes(own.to_bytes()) == own
    assert own.terms > 1000
    with pytest.raises(ValueError, match="no statistics of terms"):
        shards.TermStatistics.from_bytes(own.to_bytes()[:-1])


@pytest.mark.parametrize("question", QUESTIONS)
def test_several_indexes_answer_as_one(filled, divided, statistics, question):
    encoder = ehi.Encoder(MODEL, precision="int8")
    vector = encoder.encode_query(shards.plain_question(question))
    leaves = shards.route(filled.model, vector, 5)
    assert len(leaves) == 5 == len(set(leaves))

    def merged(**options):
        hits = [hit for index in divided for hit in index.search(vector, 20, codes=False, **options)]
        return bits(sorted(hits, key=lambda hit: (-hit.score, hit.id))[:20])

    one = filled.search(vector, 20, beam=5, codes=False)
    assert merged(leaves=leaves) == bits(one)
    one = filled.search(vector, 20, exact=True)
    assert merged(exact=True) == bits(one)
    one = filled.search(question, 20, beam=5, codes=False, mode="hybrid", alpha=0.6, encoder="full")
    offers = [
        shards.candidates(
            index, question, vector, 200, mode="hybrid", leaves=leaves, statistics=statistics, codes=False
        )
        for index in divided
    ]
    # All documents of the leaves and all with a word are candidates, as many as one index would take.
    deep = shards.fuse([own for offer in offers for own in offer[0]], 48, 20, alpha=0.6)
    assert sum(offer[2] for offer in offers) == len(filled)
    if not any(offer[1] for offer in offers):
        assert [own["id"] for own in deep] == one.ids
        assert [np.float32(own["score"]) for own in deep] == list(one.scores)


def test_what_cannot_be(filled, divided, statistics):
    vector = np.ones(384, dtype=np.float32)
    with pytest.raises(ehi.InputError) as refused:
        filled.search(vector, 5, leaves=[10**6])
    assert refused.value.kind == "UnknownLeaf"
    with pytest.raises(ehi.InputError, match="`statistics` has no meaning in the mode dense"):
        filled.search(vector, 5, mode="dense", statistics=statistics)
    with pytest.raises(ValueError, match="give a text, an embedding or both"):
        shards.candidates(filled, None, None, 3, mode="dense")
    with pytest.raises(ehi.InputError, match="`best`"):
        shards.candidates(filled, "tea", None, 3)
    with pytest.raises(ValueError, match="one question has one"):
        shards.route(filled.model, np.ones((2, 384), dtype=np.float32), 3)


def test_judgments_of_several_indexes():
    given = [("What is tea?", "a"), ("what is tea", "b", 0), {"question": "What is tea?", "id": "a", "weight": 0.5}]
    given.append({"question": "q", "id": "c", "grade": 2, "weight": 1.0, "time": 7})
    judgments = shards.Judgments(given)
    assert [(own["id"], own["grade"], own["weight"]) for own in judgments.all()] == [
        ("a", 1, 0.5),
        ("c", 2, 1.0),
        ("b", 0, 1.0),
    ]
    assert shards.Judgments(judgments.all()).to_bytes() == judgments.to_bytes() and len(judgments) == 3
    odd = shards.Judgments([(" q\n\t", "  "), ("q" * 100_000, "\x00\u2028"), {"question": "q", "id": "a", "weight": 1e-9}])
    for own in (judgments, odd):
        assert shards.Judgments.from_bytes(own.to_bytes()).all() == own.all()
    a, b = judgments.of("WHAT is tea")
    assert a == ("a", 0.75, {"question": "What is tea?", "similarity": 1.0, "grade": 1, "stale": False, "moved": 0.75})
    assert b == ("b", -1.5, {"question": "what is tea", "similarity": 1.0, "grade": 0, "stale": False, "moved": -1.5})
    assert judgments.of("What is a tree?") == [] == shards.Judgments([]).of("q")
    for wrong, error in (
        ([("q",)], TypeError),
        ([{"question": "q"}], ehi.InputError),
        ([{"question": "q", "id": "a", "score": 1}], ehi.InputError),
        ([("", "a")], ehi.InputError),
        ([{"question": "q", "id": "a", "weight": 2.0}], ehi.InputError),
    ):
        with pytest.raises(error):
            shards.Judgments(wrong)
    for data in (b"{", b'{"question": "q"}', b"[1]", b"\xff"):
        with pytest.raises(ValueError):
            shards.Judgments.from_bytes(data)


def test_a_tree_beside_an_index(filled, tmp_path):
    before = filled.model.hash
    made = shards.make_tree(filled, tmp_path / "tree", leaves=9, passes=2)
    assert made["leaves"] == 9 and made["change"] is None
    assert ehi.Model(tmp_path / "tree").has_tree and filled.model.hash == before


def test_documents_are_taken_over_as_they_are(filled, divided, tmp_path):
    with ehi.Index.create(tmp_path / "merged", filled.model, lazy_encoder=True) as merged:
        for index in divided:
            assert shards.copy(index, merged) == len(index)
        assert merged.ids() == filled.ids() and len(merged) == len(filled)
        vector = ehi.Encoder(MODEL, precision="int8").encode_query(QUESTIONS[0])
        for options in ({"beam": 5, "codes": False}, {"exact": True}):
            assert bits(merged.search(vector, 30, **options)) == bits(filled.search(vector, 30, **options))
        some = filled.ids()[:3]
        assert shards.copy(filled, merged, [*some, "none"]) == 3
    with ehi.Index.create(tmp_path / "dot", filled.model, similarity="dot", lazy_encoder=True) as dot:
        with pytest.raises(ehi.InputError) as refused:
            shards.copy(filled, dot)
        assert refused.value.kind == "SimilarityMismatch" and len(dot) == 0


def test_rankings_are_compared():
    better = shards.compare([(["a"], ["b", "c"], ["a"])] * 25)
    assert better["decision"] == "changed" and better["ndcg_at_10"]["value"] == 1
    assert shards.compare([(["a"], ["a"], ["b"])] * 25)["decision"] == "worse"
    assert shards.compare([(["a"], ["a"], ["a"])] * 25)["decision"] == "no_gain"
    assert shards.compare([(["a"], ["b"], ["a"])] * 19)["decision"] == "too_few"
