"""Indexes without an encoder: vectors of any model, and words."""

import numpy as np
import pytest

import ehi
from places import MODEL

IDS = ["tea", "coffee", "water"]
TEXTS = ["Green tea has caffeine", "Coffee beans are roasted", "Water is boiling"]
ROWS = np.eye(3, 4, dtype=np.float64) + 0.01


@pytest.fixture
def index(tmp_path):
    with ehi.Index.create(tmp_path / "index", dim=4, similarity="cosine") as index:
        assert index.add_vectors(IDS, ROWS, TEXTS)["inserted"] == 3
        yield index


def test_vectors_words_and_both(index):
    assert index.search(ROWS[1], k=1).ids == ["coffee"]
    assert index.search("boiled waters").ids == ["water"]
    both = index.search("caffeine", vectors=ROWS[1], k=2)
    assert sorted(both.ids) == ["coffee", "tea"]
    batch = index.search(TEXTS, vectors=ROWS, k=1)
    assert [result.ids for result in batch] == [["tea"], ["coffee"], ["water"]]
    assert index.scoped({}).search("tea", vectors=list(ROWS[0]), k=1).ids == ["tea"]
    np.testing.assert_allclose(index.vectors(IDS) @ ROWS.T > 0.5, np.eye(3, dtype=bool))


def test_it_is_reopened_and_described(index, tmp_path):
    assert "dim=4" in repr(index.model)
    index.close()
    with ehi.Index.open(tmp_path / "index", read_only=True) as again:
        assert again.search(ROWS[2], k=1).ids == ["water"]


@pytest.mark.parametrize(
    "call",
    [
        lambda index: index.add(["a"], ["text"]),
        lambda index: index.search("tea", mode="dense"),
        lambda index: index.search("tea", beam=2),
        lambda index: index.update("tea", text="other"),
        lambda index: index.learn(),
        lambda index: ehi.Encoder(index.model),
    ],
)
def test_what_needs_an_encoder_says_so(index, call):
    with pytest.raises(ehi.InputError, match="encoder"):
        call(index)
    assert len(index) == 3


def test_arguments(index, tmp_path):
    for arguments, error in [
        ({}, TypeError),
        ({"model": MODEL, "dim": 4}, TypeError),
        ({"dim": 0}, ehi.InputError),
        ({"dim": -1}, ehi.InputError),
        ({"dim": 4, "words": "tokens"}, ehi.InputError),
        ({"dim": 4, "passages": (50, 10)}, ehi.InputError),
    ]:
        with pytest.raises(error):
            ehi.Index.create(tmp_path / "other", **arguments)
        assert not (tmp_path / "other").exists()
    with pytest.raises(ehi.InputError, match="2 `vectors` were given for 1"):
        index.search("tea", vectors=ROWS[:2])
    with pytest.raises(TypeError, match="query of texts"):
        index.search(ROWS[0], vectors=ROWS[0])
    ehi.Index.create(tmp_path / "other", dim=4, passages=False).close()


def test_nothing_is_added(index):
    assert index.add_vectors([], [])["inserted"] == 0
    assert index.add_vectors([], np.zeros((0, 4)))["inserted"] == 0
    with pytest.raises(ehi.InputError, match="a row for each is needed"):
        index.add_vectors(["a"], [])


def test_an_existing_index_is_opened(index, tmp_path):
    index.close()
    with ehi.Index.create(tmp_path / "index", dim=4, exist_ok=True) as again:
        assert len(again) == 3
    with pytest.raises(ehi.InputError, match="vectors of 4 numbers, not of 5"):
        ehi.Index.create(tmp_path / "index", dim=5, exist_ok=True)
    with pytest.raises(ehi.InputError, match="is -1; it must be from 1 to 65536"):
        ehi.Index.create(tmp_path / "new", dim=-1)
