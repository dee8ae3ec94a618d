"""Compacting: the same answers from other shards."""

import shutil
import threading

import numpy as np
import pytest

ray = pytest.importorskip("ray", reason='Ray is not installed: pip install "ehi[ray]"')

from sets import MODEL

import ehi
import ehi.ray
from ehi.ray import manifest as manifests
from ehi.ray import shard
from ehi.ray.storage import connect

FEW, MORE = 60, 30


@pytest.fixture(scope="module")
def grown(cluster, corpus, tmp_path_factory):
    """Four shards, then three small ones, one of which replaces documents, then deletions."""
    uri = tmp_path_factory.mktemp("grown") / "set"
    options = {"precision": "int8", "metadata": "metadata"}
    ehi.ray.build(ray.data.from_items(corpus[:FEW]), MODEL, uri, shards=4, **options)
    for start in range(FEW, FEW + MORE, 10):
        added = corpus[start : start + 10]
        if start == FEW:
            added = added + [{**corpus[0], "text": "in its place"}]
        ehi.ray.append(uri, ray.data.from_items(added), metadata="metadata")
    ehi.ray.delete(uri, [corpus[1]["id"], corpus[FEW + 3]["id"], "none"])
    return uri


@pytest.fixture
def uri(grown, tmp_path):
    shutil.copytree(grown, tmp_path / "set")
    return tmp_path / "set"


@pytest.fixture(scope="module")
def expected(corpus, tmp_path_factory):
    """One index with what is there in the end."""
    index = ehi.Index.create(tmp_path_factory.mktemp("expected") / "index", MODEL, precision="int8", passages=False)
    index.add([{**corpus[0], "text": "in its place"}, *corpus[2 : FEW + 3], *corpus[FEW + 4 : FEW + MORE]])
    index.compact()
    yield index
    index.close()


def bits(hits):
    return [(hit.id, np.float32(hit.score).tobytes()) for hit in hits]


def answers(uri, cache, questions, words=True):
    with ehi.ray.open(uri, cache=cache) as shards:
        assert shards.prepare() == {}
        found = []
        for question in questions:
            for options in (
                {"mode": "dense", "beam": 6, "codes": False},
                {"mode": "dense", "exact": True},
                *([{"mode": "lexical"}, {"alpha": 0.6, "beam": 6, "codes": False}] if words else []),
            ):
                answer = shards.search(question, 40, **options)
                assert not answer.partial
                found.append(bits(answer.hits))
        return found


def of_one(index, questions):
    found = []
    for question in questions:
        for options in (
            {"mode": "dense", "beam": 6, "codes": False},
            {"mode": "dense", "exact": True},
            {"mode": "lexical"},
            {"mode": "hybrid", "alpha": 0.6, "beam": 6, "codes": False},
        ):
            if options["mode"] != "lexical":
                options["encoder"] = "full"
            found.append(bits(index.search(question, 40, **options)))
    return found


def rows(uri):
    return [entry["rows"] for entry in manifests.read(connect(uri))["shards"]]


def test_small_shards_become_larger_ones_with_the_same_answers(uri, questions, expected, tmp_path):
    asked = questions[:8]
    dense = answers(uri, tmp_path / "cache", asked, words=False)
    before = manifests.read(connect(uri))
    assert len(before["shards"]) == 7 and len(before["tombstones"]) == 4
    assert ehi.ray.compact(uri, rows=40) == 6
    manifest = manifests.read(connect(uri))
    assert manifest["tombstones"] == [] and manifest["documents"] == len(expected)
    assert len(manifest["shards"]) < 5 and max(rows(uri)) <= 40
    # What was deleted counted in the statistics of words; now the scores are those of one index throughout.
    assert answers(uri, tmp_path / "cache", asked, words=False) == dense
    assert answers(uri, tmp_path / "cache", asked) == of_one(expected, asked)
    # Nothing is left to do, and nothing is done.
    assert ehi.ray.compact(uri, rows=40) == 6
    # The older state is there until it is cleaned away.
    with ehi.ray.open(uri, version=5, cache=tmp_path / "cache") as shards:
        assert shards.prepare() == {} and len(shards.search("protein", 200, mode="dense").hits) == len(
            expected
        )
    removed = ehi.ray.clean(uri)
    old = {entry["key"] for entry in before["shards"]} - {entry["key"] for entry in manifest["shards"]}
    assert old and {name.split("/")[1] for name in removed if name.startswith("shards/")} >= old
    assert answers(uri, tmp_path / "other", asked) == of_one(expected, asked)


def test_shards_are_split_and_merged_by_size(uri, questions, expected, tmp_path):
    asked = questions[:5]
    # Only what is deleted goes.
    assert ehi.ray.compact(uri, rows=60, least=1) == 6 and len(rows(uri)) == 7
    whole = of_one(expected, asked)
    for most, least in ((10, None), (45, 20), (1000, 1000), (30, 1), (7, 7)):
        version = ehi.ray.compact(uri, rows=most, least=least)
        found = rows(uri)
        assert max(found) <= most and sum(found) == len(expected), (most, found)
        # None of those that are small could be put together.
        small = sorted(count for count in found if count < (most // 2 if least is None else least))
        assert len(small) < 2 or small[0] + small[1] > most, (most, found)
        assert answers(uri, tmp_path / "cache", asked) == whole, most
        assert ehi.ray.compact(uri, rows=most, least=least) == version
    for most, least in ((0, None), (True, None), (5, 6), (5, 0)):
        with pytest.raises(ValueError, match="`rows`|`least`"):
            ehi.ray.compact(uri, rows=most, least=least)


def test_what_others_publish_meanwhile_holds(uri, corpus, expected, tmp_path):
    """Compactions, deletions and an append at once: each document once, none that is deleted."""
    gone = [document["id"] for document in corpus[10:16]]
    errors = []

    def guarded(call):
        try:
            call()
        except BaseException as error:
            errors.append(error)

    calls = [
        lambda: ehi.ray.compact(uri, rows=40, actors=1, num_cpus=0.1),
        lambda: ehi.ray.compact(uri, rows=60, actors=1, num_cpus=0.1),
        lambda: ehi.ray.compact(uri, rows=12, actors=1, num_cpus=0.1),
        *(lambda id=id: ehi.ray.delete(uri, id) for id in gone),
        lambda: ehi.ray.append(uri, ray.data.from_items([{"id": "new", "text": "a text"}]), num_cpus=0.1),
    ]
    threads = [threading.Thread(target=guarded, args=[call]) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors
    ids = sorted([id for id in (own["id"] for own in expected.iter()) if id not in gone] + ["new"])
    for _ in range(2):
        with ehi.ray.open(uri, cache=tmp_path / "cache") as shards:
            hits = shards.search("protein", 500, exact=True, mode="dense").hits
        assert sorted(hit.id for hit in hits) == ids
        ehi.ray.compact(uri)
        assert manifests.read(connect(uri))["tombstones"] == []
    assert manifests.read(connect(uri))["documents"] == len(ids)


def test_a_set_of_which_everything_is_deleted(uri, expected, corpus, tmp_path):
    ehi.ray.delete(uri, [own["id"] for own in expected.iter()])
    ehi.ray.compact(uri)
    manifest = manifests.read(connect(uri))
    assert manifest["documents"] == 0 and manifest["tombstones"] == []
    with ehi.ray.open(uri, cache=tmp_path / "cache") as shards:
        assert shards.search("protein", alpha=0.5).hits == []
    ehi.ray.append(uri, ray.data.from_items([{"id": "a", "text": "a protein"}]))
    with ehi.ray.open(uri, cache=tmp_path / "cache") as shards:
        assert [hit.id for hit in shards.search("protein", alpha=0.5).hits] == ["a"]


def test_a_finisher_whose_first_reply_was_lost_keeps_its_files(corpus, tmp_path):
    """An object store may create an object, and the reply be lost: the next try finds it there."""

    class Lossy(type(connect(tmp_path))):
        def create(self, key, data):
            return super().create(key, data) and not key.endswith("DONE.json")

    storage, model = Lossy(tmp_path / "set"), ehi.Model(MODEL)
    from ehi.ray import models

    entry = models.store(storage, model)
    assert len(storage.list(f"models/{entry['hash']}")) == len(entry["files"]) + 1
    made = shard.write(storage, model, "k" * 32, iter(corpus[:3]), {"words": None, "precision": "int8"})
    there = {name for name, _ in storage.list("shards")}
    assert there >= set(shard.names_of_files(made)) and shard.finished(storage, "k" * 32) == made
