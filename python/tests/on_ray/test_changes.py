"""A published set that grows, shrinks and is damaged."""

import random
import shutil
import threading

import pytest

ray = pytest.importorskip("ray", reason='Ray is not installed: pip install "ehi[ray]"')

from sets import MODEL

import ehi
import ehi.ray
from ehi.ray import manifest as manifests
from ehi.ray import shard
from ehi.ray.storage import connect

FEW = 60


@pytest.fixture(scope="module")
def original(cluster, corpus, tmp_path_factory):
    uri = tmp_path_factory.mktemp("original") / "set"
    data = ray.data.from_items(corpus[:FEW])
    ehi.ray.build(data, MODEL, uri, shards=4, precision="int8", metadata="metadata")
    return uri


@pytest.fixture
def uri(original, tmp_path):
    shutil.copytree(original, tmp_path / "set")
    return tmp_path / "set"


def found(uri, cache, query="protein cell", k=200):
    with ehi.ray.open(uri, cache=cache) as shards:
        answer = shards.search(query, k, exact=True, mode="dense")
        assert not answer.partial, answer.missing
        return {hit.id: hit.text for hit in answer.hits}


def test_an_earlier_state_comes_back_and_goes_again(uri, corpus, tmp_path):
    before = found(uri, tmp_path / "cache")
    new = [{"id": "new", "text": "a new text"}, {"id": corpus[0]["id"], "text": "in its place"}]
    ehi.ray.append(uri, ray.data.from_items(new))
    ehi.ray.delete(uri, corpus[1]["id"])
    after = found(uri, tmp_path / "cache")
    assert ehi.ray.restore(uri, 1) == 4 and found(uri, tmp_path / "cache") == before
    assert ehi.ray.restore(uri, 3) == 5 and found(uri, tmp_path / "cache") == after
    # What comes later holds for what was restored as for anything.
    assert ehi.ray.restore(uri, 1) == 6 and ehi.ray.delete(uri, [corpus[0]["id"]]) == 7
    before.pop(corpus[0]["id"])
    assert ehi.ray.compact(uri) == 8 and found(uri, tmp_path / "cache") == before
    assert ehi.ray.append(uri, ray.data.from_items(new))["version"] == 9
    assert found(uri, tmp_path / "cache").keys() == {*before, "new", corpus[0]["id"]}
    ehi.ray.clean(uri, keep=2)
    assert ehi.ray.versions(uri) == [8, 9]
    for absent in (7, 10):
        with pytest.raises(ehi.ray.ManifestError, match=f"no manifest {absent}"):
            ehi.ray.restore(uri, absent)
    for wrong in (0, True, "1"):
        with pytest.raises(ValueError, match="`version`"):
            ehi.ray.restore(uri, wrong)
    assert ehi.ray.restore(uri, 8) == 10 and found(uri, tmp_path / "cache") == before


def test_documents_are_appended_replaced_deleted_and_compacted(uri, corpus, tmp_path):
    new = [{"id": f"new-{n}", "title": "", "text": f"a new text {n}"} for n in range(10)]
    new.append({"id": corpus[0]["id"], "title": "", "text": "in its place"})
    added = ehi.ray.append(uri, ray.data.from_items(new))
    assert (added["version"], added["documents"]) == (2, 11)
    texts = found(uri, tmp_path / "cache")
    assert len(texts) == FEW + 10 and texts[corpus[0]["id"]] == "in its place"
    assert ehi.ray.delete(uri, [corpus[1]["id"], "new-3", "none"]) == 3
    texts = found(uri, tmp_path / "cache")
    assert len(texts) == FEW + 8 and corpus[1]["id"] not in texts and "new-3" not in texts
    # A deleted document may be added again.
    assert ehi.ray.append(uri, ray.data.from_items([{"id": "new-3", "text": "again"}]))["version"] == 4
    before = found(uri, tmp_path / "cache")
    assert before["new-3"] == "again"
    assert ehi.ray.compact(uri) == 5
    manifest = manifests.read(connect(uri))
    assert manifest["tombstones"] == [] and manifest["documents"] == len(before)
    assert manifest["statistics"]["documents"] == len(before)
    assert found(uri, tmp_path / "cache-2") == before
    assert ehi.ray.compact(uri) == 5 and ehi.ray.delete(uri, []) == 5
    # Older states are there until they are cleaned away.
    with ehi.ray.open(uri, version=1, cache=tmp_path / "cache") as shards:
        assert len(shards.search("protein", 200, exact=True, mode="dense").hits) == FEW
    assert ehi.ray.clean(uri)
    assert ehi.ray.versions(uri) == [5] and found(uri, tmp_path / "cache-3") == before


def test_an_open_set_changes_over(uri, corpus, tmp_path):
    with ehi.ray.open(uri, cache=tmp_path / "cache") as shards:
        assert not shards.refresh()
        ehi.ray.delete(uri, corpus[2]["id"])
        assert len(shards.search("protein", 200, mode="dense").hits) == FEW
        assert shards.refresh() and shards.version == 2
        answer = shards.search("protein", 200, mode="dense")
        assert len(answer.hits) == FEW - 1 and answer.version == 2


def test_deletions_of_many_publishers_all_hold(uri, corpus, tmp_path):
    threads = [
        threading.Thread(target=lambda own=own: ehi.ray.delete(uri, own))
        for own in ([document["id"]] for document in corpus[:12])
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ehi.ray.versions(uri) == list(range(1, 14))
    assert set(found(uri, tmp_path / "cache")) == {document["id"] for document in corpus[12:FEW]}


@pytest.mark.parametrize("kind", ["flipped", "truncated", "missing"])
def test_a_damaged_shard_is_refused_by_name(uri, corpus, tmp_path, kind):
    storage, rng = connect(uri), random.Random(5)
    entry = manifests.read(storage)["shards"][1]
    own = [file for file in entry["files"] if "same" not in file]
    largest = max(own, key=lambda file: file["bytes"])
    path = uri / shard.files_prefix(entry) / largest["name"]
    data = bytearray(path.read_bytes())
    if kind == "flipped":
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        path.write_bytes(data)
    elif kind == "truncated":
        path.write_bytes(data[: len(data) // 2])
    else:
        path.unlink()
    with ehi.ray.open(uri, cache=tmp_path / "cache") as shards:
        why = f"shard {entry['key']} is left out: .*{largest['name']}"
        with pytest.warns(RuntimeWarning, match=why) as told:
            shards.search("protein of the cell", 200)
            shards.search("protein of the cell", 200)
        # Once.
        assert len(told) == 1
        for mode in ("dense", "lexical", "hybrid"):
            answer = shards.search("protein of the cell", 200, mode=mode)
            assert answer.partial and list(answer.missing) == [entry["key"]], mode
            assert largest["name"] in answer.missing[entry["key"]]
        assert len(shards.search("protein", 200, mode="dense").hits) == FEW - entry["rows"]
        # Nothing of it is kept.
        assert not any(entry["key"] in own.name for own in (tmp_path / "cache" / "shards").iterdir())
        # It is whole again.
        shutil.copy(path_of_original(path, uri), path)
        shards.retry()
        answer = shards.search("protein", 200, mode="dense")
        assert not answer.partial and len(answer.hits) == FEW


_ORIGINAL = {}


@pytest.fixture(autouse=True)
def _known(original, uri):
    _ORIGINAL[uri] = original


def path_of_original(path, uri):
    return _ORIGINAL[uri] / path.relative_to(uri)


def test_shards_beyond_the_budget_are_evicted(uri, tmp_path):
    entries = manifests.read(connect(uri))["shards"]
    budget = sum(entry["bytes"] for entry in entries) - min(entry["bytes"] for entry in entries)
    with ehi.ray.open(uri, cache=tmp_path / "cache", budget=budget, most_open=2) as shards:
        for _ in range(3):
            answer = shards.search("protein", 200, mode="dense")
            assert not answer.partial and len(answer.hits) == FEW
            kept = [own for own in (tmp_path / "cache" / "shards").iterdir() if not own.name.startswith(".")]
            files = [path for own in kept for path in own.rglob("*") if path.is_file()]
            # Those of the model are shared by all shards.
            taken = sum(
                path.stat().st_size for path in files if "model" not in path.parts
            )
            assert taken <= budget and len(kept) < len(entries)
        assert len(shards._state[1]._open) <= 2


def test_an_object_store_is_a_set_too(cluster, s3, corpus, tmp_path):
    data, uri = ray.data.from_items(corpus[:30]), "s3://sets/one"
    built = ehi.ray.build(
        data, MODEL, uri, shards=3, precision="int8", metadata="metadata", storage_options=s3
    )
    assert built["version"] == 1
    assert ehi.ray.delete(uri, corpus[0]["id"], storage_options=s3) == 2
    with ehi.ray.open(uri, cache=tmp_path / "cache", storage_options=s3) as shards:
        answer = shards.search(corpus[5]["title"], 50, mode="dense")
        assert not answer.partial and {hit.id for hit in answer.hits} == {own["id"] for own in corpus[1:30]}
        assert answer.hits[0].id == corpus[5]["id"]
