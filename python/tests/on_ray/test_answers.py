"""A set of shards answers as one index does."""

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("ray", reason='Ray is not installed: pip install "ehi[ray]"')

from local import made
from places import SMALL
from sets import COUNT, MODEL

import ehi
import ehi.ray
from ehi import shards as parts


@pytest.fixture(scope="module")
def shards(published, tmp_path_factory):
    with ehi.ray.open(published, cache=tmp_path_factory.mktemp("cache")) as searcher:
        assert len(searcher) == COUNT and searcher.prepare() == {}
        yield searcher


def bits(hits):
    return [(hit.id, np.float32(hit.score).tobytes()) for hit in hits]


@pytest.mark.parametrize("k,beam", [(1, 1), (10, 4), (100, 8)])
def test_eight_shards_answer_as_one_index(shards, single, questions, k, beam):
    for question in questions:
        one = single.search(question, k, beam=beam, mode="dense", encoder="full", codes=False)
        answer = shards.search(question, k, beam=beam, mode="dense", codes=False)
        assert bits(answer.hits) == bits(one), question
        assert (answer.partial, answer.missing, answer.version) == (False, {}, 1)
        one = single.search(question, k, exact=True, mode="dense", encoder="full")
        assert bits(shards.search(question, k, exact=True, mode="dense").hits) == bits(one)
        one = single.search(question, k, mode="lexical")
        assert bits(shards.search(question, k, mode="lexical").hits) == bits(one)
        for joined in ({"alpha": 0.6}, {"rrf": 60.0}):
            one = single.search(question, k, beam=beam, mode="hybrid", encoder="full", codes=False, **joined)
            answer = shards.search(question, k, beam=beam, mode="hybrid", codes=False, **joined)
            assert bits(answer.hits) == bits(one), (question, joined)


@pytest.mark.parametrize("question", ["+cell protein", "-cancer cells", '"gene expression"', "+the -cell"])
def test_signs_mean_what_they_mean_to_one_index(shards, single, question):
    one = single.search(question, 30, exact=True, mode="hybrid", alpha=0.5, encoder="full")
    answer = shards.search(question, 30, exact=True, mode="hybrid", alpha=0.5)
    assert bits(answer.hits) == bits(one) and len(one) > 0
    one = single.search(question, 30, mode="lexical")
    assert bits(shards.search(question, 30, mode="lexical").hits) == bits(one)


def test_filters_and_embeddings(shards, single, questions):
    filter = {"place": {"$lt": 60}}
    for question in questions[:5]:
        answer = shards.search(question, 10, exact=True, mode="dense", filter=filter)
        one = single.search(question, 10, exact=True, mode="dense", encoder="full", filter=filter)
        assert bits(answer.hits) == bits(one)
        assert all(hit.metadata["place"] < 60 for hit in answer.hits)
        # There are k hits wherever so many documents pass.
        assert len(shards.search(question, 60, beam=1, mode="dense", filter=filter).hits) == 60
    vector = ehi.Encoder(MODEL, precision="int8").encode_query(questions[0])
    answer = shards.search(vector, 10, beam=3)
    assert bits(answer.hits) == bits(shards.search(questions[0], 10, beam=3, mode="dense").hits)
    # No small set is searched by less than all of it unless that is asked for.
    assert shards.search(questions[0]).leaves == 0


def test_counts_and_facets_are_those_of_one_index(shards, single):
    for filter in (None, {}, {"place": {"$lt": 60}}, {"place": -1}):
        assert shards.count(filter) == single.count(filter)
        for most in (0, 7, COUNT):
            fields = ["place", "none"]
            assert shards.facets(fields, filter, most) == single.facets(fields, filter, most)
    assert shards.facets("place")["place"]["range"] == [0, COUNT - 1]
    with pytest.raises(ehi.FilterError):
        shards.count({"place": {"$no": 1}})
    with pytest.raises(ValueError, match="`most`"):
        shards.facets("place", most=-1)


def test_facets_of_any_values_are_those_of_one_index(tmp_path):
    values = [None, True, 1, False, 0, "1", 1.5, 1e20, 2**53 + 1, float(2**53), [1, "a", 2], {"of": 1}]
    values += ["\U0001f375", "\uffff", "2024-01-05T10:00:00Z", "2024-01-05T10:00:00.50Z", "2024-01-05T12:00:00+02:00", "2024-01-05"]
    places = [*range(len(values)), 3, 1, 4, 1, 5]
    documents = [
        {"id": str(number), "text": "word", "metadata": {"of": values[place]}} for number, place in enumerate(places)
    ]
    documents.append({"id": "none", "text": "word"})
    made(tmp_path / "set", documents, shards=3)
    ehi.ray.delete(tmp_path / "set", "0")
    with ehi.Index.create(tmp_path / "one", SMALL, passages=False) as one:
        one.add(documents[1:])
        with ehi.ray.open(tmp_path / "set", cache=tmp_path / "cache") as shards:
            assert shards.count() == one.count() == len(documents) - 1
            for filter in (None, {"of": {"$gte": 1}}):
                for most in (3, 10, 100):
                    found, expected = (each.facets("of", filter, most) for each in (shards, one))
                    # As text, in which 1, 1.0 and true differ.
                    assert json.dumps(found, sort_keys=True) == json.dumps(expected, sort_keys=True)


def test_no_count_leaves_a_shard_out(tmp_path):
    made(tmp_path / "set", [{"id": str(number), "text": "word"} for number in range(9)], shards=3)
    with ehi.ray.open(tmp_path / "set", cache=tmp_path / "cache") as shards:
        (folder, *_) = (tmp_path / "set" / "shards").iterdir()
        shutil.rmtree(folder)
        with pytest.raises(ehi.ray.ShardError):
            shards.count()
        with pytest.raises(ehi.ray.ShardError):
            shards.facets("of")


def test_judgments_count_as_in_one_index(published, single, questions, tmp_path):
    one = ehi.Index.create(tmp_path / "one", single.model, precision="int8", passages=False)
    assert parts.copy(single, one) == COUNT
    uri = shutil.copytree(published, tmp_path / "set")
    asked = [*questions[:4], "+cell protein", "-cancer cells"]
    gone = one.search(questions[0], 10, mode="lexical").ids[3]
    judgments = []
    for question in asked:
        ids = one.search(question.strip("+-"), COUNT, exact=True, mode="dense").ids
        spelt = f"{question.upper()} ?"
        judgments += [(question, ids[0], 0), (question, ids[-1]), (spelt, ids[90], 2), (question, "none")]
        judgments += [(question, ids[1]), (spelt, ids[1], -1), (question, gone), (question, ids[40], 0)]
        judgments.append({"question": question, "id": ids[60], "grade": 1, "weight": 0.3})
    one.judge(judgments)
    assert ehi.ray.judge(uri, judgments) == 2 and ehi.ray.delete(uri, gone) == 3
    # Statistics count documents that were deleted until they are compacted away.
    statistics = parts.term_statistics(one)
    one.delete(gone)
    moved = 0
    with ehi.ray.open(uri, cache=tmp_path / "cache") as shards:
        for question in asked:
            for options in (
                {"mode": "dense", "beam": 1, "codes": False},
                {"mode": "dense", "exact": True},
                {"mode": "dense", "exact": True, "filter": {"place": {"$lt": 80}}},
                {"mode": "lexical"},
                {"mode": "lexical", "filter": {"place": {"$lt": 80}}},
                {"mode": "hybrid", "alpha": 0.6, "beam": 1, "codes": False},
                {"mode": "hybrid", "alpha": 0.6, "exact": True, "filter": {"place": {"$gte": 80}}},
                {"mode": "hybrid", "rrf": 60.0, "beam": 2, "codes": False},
            ):
                own = {"statistics": None if options["mode"] == "dense" else statistics}
                own["encoder"] = None if options["mode"] == "lexical" else "full"
                for k in (5, 60):
                    for no_memory in (False, True):
                        expected = one.search(question, k, no_memory=no_memory, **options, **own)
                        hits = shards.search(question, k, no_memory=no_memory, **options).hits
                        assert bits(hits) == bits(expected), (question, options, k, no_memory)
                        told = [(hit.memory, hit.judged) for hit in hits]
                        assert told == [(hit.memory, hit.judged) for hit in expected]
                        moved += sum(hit.memory is not None for hit in hits)
        assert moved > 200
        # Another question, and an embedding, have no judgments.
        assert all(hit.memory is None for hit in shards.search("vitamin d", 20))
        vector = shards._state[0].encoder.encode_query(asked[0])
        assert all(hit.memory is None for hit in shards.search(vector, 20))
        with pytest.raises((ValueError, ehi.InputError), match="no_memory"):
            shards.search("a", no_memory=1)
    # A search with a filter visits leaves until there are enough, those that judgments name apart.
    with ehi.ray.open(uri, cache=tmp_path / "cache") as shards:
        answer = shards.search(asked[0], 60, beam=1, mode="dense", filter={"place": {"$lt": 80}})
        assert len(answer) == 60


def test_options_that_cannot_be(shards, questions):
    question = questions[0]
    for options in (
        {"k": 0},
        {"mode": "worst"},
        {"beam": 0},
        {"beam": 3, "exact": True},
        {"alpha": 0.5, "mode": "dense"},
        {"mode": "lexical", "beam": 3},
        {"bm25": (1.2, 0.75), "mode": "dense"},
        {"seconds": 0},
    ):
        with pytest.raises((ValueError, ehi.InputError)):
            shards.search(question, **options)
    for query, options in (
        ("  ", {}),
        ("-cell", {"mode": "hybrid"}),
        ("a", {"alpha": 2.0}),
        (np.ones(3), {}),
    ):
        with pytest.raises(ehi.InputError):
            shards.search(query, **options)
    with pytest.raises(TypeError, match="`top_k` is not an option; known are k, beam, exact"):
        shards.search(question, top_k=2)
    with pytest.raises(TypeError, match="`group_by` is not an option"):
        shards.search(question, group_by="place")
    for several in (["a", "b"], np.ones((2, 384)), {"a": 1}):
        with pytest.raises(ehi.InputError, match="one question at a time; several: `ehi.ray.search_batch`"):
            shards.search(several)
    with pytest.raises(ehi.FilterError):
        shards.search(question, filter={"place": {"$no": 1}})


def test_an_answer_is_a_sequence_of_hits(shards, questions):
    answer = shards.search(questions[0], 3)
    assert len(answer) == 3 and list(answer) == answer.hits == answer[:] and answer[-1] is answer.hits[2]
    assert answer.ids == [hit.id for hit in answer.hits]
    assert answer.scores.dtype == np.float32 and answer.scores.tolist() == [hit.score for hit in answer]


def test_places_without_a_set_and_sets_that_are_closed_say_so(published, tmp_path):
    for call in (ehi.ray.open, lambda uri: ehi.ray.delete(uri, "a")):
        with pytest.raises(ehi.ray.ManifestError, match=f"no set at {tmp_path / 'none'}: nothing was"):
            call(tmp_path / "none")
    with pytest.raises(ehi.ray.ManifestError, match=f"no manifest 99 at {published}; there are 1"):
        ehi.ray.open(published, version=99)
    with pytest.raises(ValueError, match="`version`"):
        ehi.ray.open(published, version="1")
    shards = ehi.ray.open(published, cache=tmp_path)
    shards.close()
    for call in (lambda: shards.search("a"), shards.refresh, shards.prepare, shards.retry):
        with pytest.raises(ehi.ray.ShardsError, match=f"the set {published} is closed"):
            call()
    shards.close()


def test_without_ray_a_call_says_what_it_needs():
    code = """
import sys
sys.modules["ray"] = None
import ehi.ray
assert not hasattr(ehi.ray, "build") and hasattr(ehi.ray, "open")
try:
    ehi.ray.build
except AttributeError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == 'ehi.ray.build needs Ray: pip install "ehi[ray]"\n', done.stderr


def test_shards_that_are_late_are_left_out(published, questions, tmp_path):
    with ehi.ray.open(published, cache=tmp_path, threads=8) as shards:
        group = shards._state[1]
        late = group.places[3]
        shards.search(questions[0], 1, mode="lexical")
        group._open.pop(late)
        # It cannot be opened until this is over.
        with group._locks[late]:
            answer = shards.search(questions[0], COUNT, mode="dense", seconds=3)
        entry = shards.manifest["shards"][late]
        assert answer.partial and list(answer.missing) == [entry["key"]]
        assert "no answer within" in answer.missing[entry["key"]]
        assert len(answer.hits) == COUNT - entry["rows"]
        assert not shards.search(questions[0], 5, mode="dense", seconds=60).partial
