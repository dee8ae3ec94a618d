"""Builds: what goes in, what comes out, and workers that die."""

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time

import pytest

ray = pytest.importorskip("ray", reason='Ray is not installed: pip install "ehi[ray]"')

from processes import descendants
from sets import MODEL, write_lines

import ehi
import ehi.ray
from ehi.ray import documents as rows
from ehi.ray import manifest as manifests
from ehi.ray import building, publishing, scratch, shard
from ehi.ray.storage import connect

FEW = 40


def ids(uri, tmp_path):
    with ehi.ray.open(uri, cache=tmp_path / f"cache-{time.monotonic_ns()}") as shards:
        assert shards.prepare() == {}
        group = shards._state[1]
        return sorted(document["id"] for place in group.places for document in group._index(place).iter())


def workers():
    """Processes that make shards."""
    return descendants(["ray::make_shard"])


def test_what_a_manifest_says(published, corpus):
    manifest = manifests.read(connect(published))
    assert manifest["documents"] == len(corpus) and len(manifest["shards"]) == 8
    assert manifest["model"]["hash"] == ehi.Model(MODEL).hash
    assert sum(entry["rows"] for entry in manifest["shards"]) == len(corpus)
    assert manifest["statistics"]["documents"] == len(corpus)
    for entry in manifest["shards"]:
        own = [file for file in entry["files"] if "same" not in file]
        assert entry["bytes"] == sum(file["bytes"] for file in own) > 0
        # The model's files lie beside the shards, once.
        assert entry["bytes"] < 8 << 20 and len(own) < len(entry["files"])
    assert ehi.ray.versions(published) == [1]


def test_the_last_of_the_input_wins_whatever_the_shards(cluster, corpus, tmp_path):
    changed = [{**document, "text": f"changed {place}"} for place, document in enumerate(corpus[:20])]
    again = [{**document, "text": f"again {place}"} for place, document in enumerate(corpus[:5])]
    first = write_lines(tmp_path / "0.jsonl", corpus[:FEW] + changed[:10])
    second = write_lines(tmp_path / "1.jsonl", changed[10:] + again)
    # The order given, not that of the names.
    built = ehi.ray.build(
        [second, first], MODEL, tmp_path / "set", shards=3, precision="int8", metadata="metadata"
    )
    assert built["documents"] == FEW
    with ehi.ray.open(tmp_path / "set", cache=tmp_path / "cache") as shards:
        texts = {hit.id: hit.text for hit in shards.search("changed", 100, mode="dense").hits}
    assert len(texts) == FEW
    for place, document in enumerate(corpus[:FEW]):
        expected = document["text"] if place >= 10 else f"changed {place}"
        assert texts[document["id"]] == expected


@pytest.mark.parametrize(
    "documents,options,why",
    [
        ([{"name": "a", "text": "b"}], {}, "no column `id` for the id; columns found: `?name`?, `?text"),
        ([{"id": "a", "body": "b"}], {}, "no column `text`"),
        ([{"id": "a", "text": "b"}], {"title": "headline"}, "no record has the column `headline`"),
        ([{"id": "a", "text": "b"}], {"metadata": ["year"]}, "no record has the column `year`"),
        ([{"id": "a", "text": "b"}, {"id": None, "text": "c"}], {}, "there is no id: the field `_?id` is missing"),
        ([{"id": "a", "text": "b"}, {"id": "c", "text": None}], {}, "there is no text: the field `text`"),
        ([{"id": "a", "text": "b", "lang": "en"}], {"metadata": "lang"}, "`a`: the metadata in `lang` cannot"),
        ([{"id": "a", "text": "b", "raw": b"\0"}], {}, "the column `raw` is of the type .*Binary, which is"),
    ],
)
def test_datasets_that_cannot_be_built(cluster, tmp_path, documents, options, why):
    data = ray.data.from_items(documents)
    with pytest.raises(ehi.DataError, match=why):
        ehi.ray.build(data, MODEL, tmp_path / "set", shards=2, **options)
    # Before any shard is begun.
    assert connect(tmp_path / "set").list("shards") == []
    with pytest.raises(ehi.ray.ManifestError, match="nothing was published"):
        ehi.ray.open(tmp_path / "set", cache=tmp_path / "cache")


def test_nothing_to_build_from(cluster, tmp_path):
    with pytest.raises(ehi.DataError, match="empty"):
        ehi.ray.build(ray.data.from_items([]), MODEL, tmp_path / "set")
    (tmp_path / "empty.jsonl").touch()
    for missing in (tmp_path / "none.jsonl", tmp_path / "*.parquet"):
        with pytest.raises(ehi.DataError, match="no file"):
            ehi.ray.build(missing, MODEL, tmp_path / "set")
    (tmp_path / "notes.txt").write_text("text")
    with pytest.raises(ehi.DataError, match="notes.txt: it begins with `text`"):
        ehi.ray.build(tmp_path / "notes.txt", MODEL, tmp_path / "set")
    with pytest.raises(ehi.ModelError):
        ehi.ray.build(ray.data.from_items([{"id": "a", "text": "b"}]), tmp_path, tmp_path / "set")
    for options in ({"shards": 0}, {"beam": 0}, {"leaves": 1}, {"alpha": 2}, {"precision": "int4"}):
        with pytest.raises(ValueError):
            ehi.ray.build(tmp_path / "notes.txt", MODEL, tmp_path / "set", **options)


def test_documents_that_cannot_be_stored_are_named(cluster, tmp_path):
    data = ray.data.from_items(
        [{"id": "a", "text": "a text"}, {"id": "b", "text": ""}, {"id": "c" * 5000, "text": "d"}]
    )
    built = ehi.ray.build(data, MODEL, tmp_path / "set", shards=2, precision="int8")
    assert built["documents"] == 1
    assert sorted(own["id"] for own in built["refused"]) == ["b", "c" * 5000]
    assert any("neither title nor text" in own["reason"] for own in built["refused"])


def test_shards_of_another_model_are_refused(published, cluster, corpus, tmp_path):
    storage = connect(published)
    manifest = manifests.read(storage)
    other = {**manifest["shards"][0], "model": "0" * 64}
    with pytest.raises(ehi.ray.ManifestError, match="was made with model 0000"):
        publishing.assemble(storage, manifest, [other, *manifest["shards"][1:]], [])
    with pytest.raises(ehi.ray.ManifestError, match="named twice"):
        publishing.assemble(storage, manifest, manifest["shards"][:1] * 2, [])
    # One whose files are of another model than its entry says.
    data = ray.data.from_items(corpus[:FEW])
    options = {"shards": 2, "leaves": 4, "precision": "int8", "metadata": "metadata"}
    built = ehi.ray.build(data, MODEL, tmp_path / "set", **options)
    (tmp_path / "set" / manifests.name_of(1)).unlink()
    assert built["model"]["hash"] != manifest["model"]["hash"]
    shutil.copytree(published, tmp_path / "mixed")
    shutil.copytree(tmp_path / "set", tmp_path / "mixed", dirs_exist_ok=True)
    forged = {**built["shards"][0], "model": manifest["model"]["hash"], "added": 2}
    forged["terms"] = None
    mixed = connect(tmp_path / "mixed")
    changed = publishing.assemble(mixed, manifest, [*manifest["shards"], forged], [])
    manifests.publish(mixed, changed, 1)
    with ehi.ray.open(tmp_path / "mixed", cache=tmp_path / "cache") as shards:
        with pytest.warns(RuntimeWarning, match="is left out"):
            answer = shards.search("protein", 10, mode="dense")
        assert answer.partial and len(answer.hits) == 10
        assert list(answer.missing) == [forged["key"]]
        # Its tree is that of the other model.
        assert "is not that of the model" in answer.missing[forged["key"]]


def test_workers_that_are_killed_change_nothing(cluster, lines, single, questions, tmp_path):
    """Actors are killed at random moments of a build; each document is there once."""
    rng = random.Random(7)
    over, kills = threading.Event(), []

    def killer():
        while not over.wait(rng.uniform(0.3, 1.5)):
            pids = workers()
            if pids and len(kills) < 8:
                os.kill(rng.choice(pids), signal.SIGKILL)
                kills.append(time.monotonic())

    thread = threading.Thread(target=killer)
    thread.start()
    try:
        built = ehi.ray.build(lines, MODEL, tmp_path / "set", shards=6, precision="int8", metadata="metadata")
    finally:
        over.set()
        thread.join()
    assert kills, "no worker was killed"
    assert built["documents"] == len(single) and built["version"] == 1
    assert ids(tmp_path / "set", tmp_path) == sorted(document["id"] for document in single.iter())
    # What they left behind is named by no manifest, and is removed.
    storage = connect(tmp_path / "set")
    removed = ehi.ray.clean(tmp_path / "set")
    manifest = manifests.read(storage)
    named = {name for entry in manifest["shards"] for name in shard.names_of_files(entry)}
    assert not named & set(removed)
    left = {name for name, _ in storage.list("shards")}
    assert left == named | {shard.terms_name(entry) for entry in manifest["shards"]} | {
        shard.done_name(entry["key"]) for entry in manifest["shards"]
    }
    assert storage.list("builds") == []
    with ehi.ray.open(tmp_path / "set", cache=tmp_path / "cache") as shards:
        for question in questions[:5]:
            one = single.search(question, 20, exact=True, mode="dense", encoder="full")
            answer = shards.search(question, 20, exact=True, mode="dense")
            assert [(hit.id, hit.score) for hit in answer.hits] == [(hit.id, hit.score) for hit in one]


def test_a_worker_that_always_dies_ends_the_build(cluster, lines, tmp_path):
    over = threading.Event()

    def killer():
        while not over.wait(0.2):
            for pid in workers():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    thread = threading.Thread(target=killer)
    thread.start()
    try:
        with pytest.raises(ehi.ray.ShardsError, match="workers died"):
            ehi.ray.build(lines, MODEL, tmp_path / "set", shards=1, precision="int8", metadata="metadata")
    finally:
        over.set()
        thread.join()
    # What is left of it is not a set, and the next build makes one.
    built = ehi.ray.build(lines, MODEL, tmp_path / "set", shards=1, precision="int8", metadata="metadata")
    assert built["version"] == 1


@pytest.mark.parametrize("options", [{"num_cpus": 1.5}, {"num_cpus": 1, "actors": 3}])
def test_workers_of_which_not_all_find_room(cluster, lines, tmp_path, options):
    built = ehi.ray.build(lines, MODEL, tmp_path / "set", shards=4, precision="int8", metadata="metadata", **options)
    assert built["version"] == 1 and len(built["shards"]) == 4


def test_a_model_that_is_damaged_is_named(cluster, lines, published, tmp_path):
    shutil.copytree(published, tmp_path / "set")
    (tensors,) = (tmp_path / "set" / "models").glob("*/*/model.safetensors")
    tensors.write_bytes(tensors.read_bytes()[:-1] + b"x")
    with pytest.raises(ehi.ray.ManifestError, match="model.safetensors is damaged"):
        ehi.ray.append(tmp_path / "set", lines, metadata="metadata")


DRIVER = """
import sys
import ray
import ehi.ray
ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=100 << 20)
built = ehi.ray.build(sys.argv[1], sys.argv[2], sys.argv[3], shards=4, precision="int8", metadata="metadata")
print("built", built["documents"], built["version"])
"""


def test_a_driver_that_is_killed_goes_on_where_it_was(corpus, tmp_path):
    path = write_lines(tmp_path / "corpus.jsonl", corpus[:FEW])
    rng, uri = random.Random(3), tmp_path / "set"
    command = [sys.executable, "-c", DRIVER, str(path), str(MODEL), str(uri)]
    for _ in range(3):
        driver = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        time.sleep(rng.uniform(4, 14))
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr[-2000:]
    storage = connect(uri)
    # Each published state is whole, whenever the driver was killed.
    for version in ehi.ray.versions(uri):
        manifest = manifests.read(storage, version)
        assert manifest["documents"] == FEW
        there = dict(storage.list("shards"))
        for entry in manifest["shards"]:
            assert there.keys() >= set(shard.names_of_files(entry))
    assert ids(uri, tmp_path) == sorted(document["id"] for document in corpus[:FEW])
    # Nothing was built twice.
    done = [name for name, _ in storage.list("shards") if name.endswith("DONE.json")]
    assert len(done) == len(manifest["shards"])


def test_a_second_finisher_compares_and_yields(corpus, tmp_path):
    storage, model = connect(tmp_path / "set"), ehi.Model(MODEL)
    options = {"words": None, "precision": "int8"}
    first = shard.write(storage, model, "k" * 32, iter(corpus[:5]), options)
    second = shard.write(storage, model, "k" * 32, iter(corpus[:5]), options)
    assert second == first
    with pytest.raises(ehi.ray.ShardError, match="is not the same"):
        shard.write(storage, model, "k" * 32, iter(corpus[:4]), options)
    assert {name.split("/")[2].split(".")[0] for name, _ in storage.list("shards")} == {
        first["attempt"],
        "DONE",
    }


def test_partitions_are_even():
    counts = [0] * 8
    for number in range(8_000):
        counts[rows.partition_of(f"id-{number}", 8)] += 1
    assert max(counts) < 1.15 * min(counts)


def test_a_tree_is_made_of_a_sample(cluster, corpus, tmp_path):
    base = ehi.Model(MODEL)
    data = ray.data.from_items(corpus[:FEW])
    options = {"precision": "int8", "metadata": "metadata", "scratch": tmp_path / "scratch"}
    built = ehi.ray.build(data, base, tmp_path / "set", shards=2, leaves=8, **options)
    # Neither tree nor workers have left anything.
    assert not list(scratch.home_of(tmp_path / "scratch").iterdir())
    assert built["model"]["hash"] != base.hash
    with ehi.ray.open(tmp_path / "set", cache=tmp_path / "cache") as shards:
        answer = shards.search(corpus[3]["title"], 5, beam=8, mode="dense")
        assert answer.leaves == 8
        exact = shards.search(corpus[3]["title"], 5, exact=True, mode="dense")
        assert [hit.id for hit in answer.hits] == [hit.id for hit in exact.hits]
    assert building.LEAVES_PER_ROOT > 0


@pytest.mark.parametrize(
    "options,error,why",
    [
        ({"actors": -1}, ValueError, "`actors` is -1"),
        ({"actors": 0}, ValueError, "`actors` is 0"),
        ({"num_gpus": 1}, ehi.ray.ShardsError, "`num_gpus` is 1, and no machine of Ray's cluster has so many GPUs"),
        ({"num_cpus": 3}, ehi.ray.ShardsError, "`num_cpus` is 3, and no machine of Ray's cluster has so many CPUs"),
        ({"num_cpus": -1}, ValueError, "`num_cpus` is -1"),
    ],
)
def test_pools_that_cannot_be(cluster, tmp_path, options, error, why):
    data = ray.data.from_items([{"id": "a", "text": "b"}])
    with pytest.raises(error, match=why):
        ehi.ray.build(data, MODEL, tmp_path / "set", **options)
    assert not (tmp_path / "set").exists()
