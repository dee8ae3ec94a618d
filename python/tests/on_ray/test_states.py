"""States of a set that follow each other in whatever order: what is there is what was asked for last."""

import concurrent.futures
import json
import os

import pytest

pytest.importorskip("ray", reason='Ray is not installed: pip install "ehi[ray]"')

from local import document, local, made
from places import SMALL

import ehi.ray
from ehi.ray import manifest as manifests
from ehi.ray import building, documents, models, pool, publishing, retraining
from ehi.ray.basics import digest_of
from ehi.ray.storage import FolderStorage, connect

SIX = [document(f"d{number}", f"word {number}") for number in range(6)]


def found(uri, cache):
    with ehi.ray.open(uri, cache=cache) as shards:
        answer = shards.search("word", 100, exact=True, mode="dense")
        assert not answer.partial, answer.missing
        assert len({hit.id for hit in answer.hits}) == len(answer.hits)
        return {hit.id: hit.text for hit in answer.hits}


def texts(documents):
    return {own["id"]: own["text"] for own in documents}


def test_a_state_that_is_restored_beside_a_compaction_stays(tmp_path, monkeypatch):
    uri, cache = tmp_path / "set", tmp_path / "cache"
    made(uri, SIX)
    ehi.ray.delete(uri, ["d0", "d1", "d2"])
    steps = [lambda: ehi.ray.restore(uri, 1)]
    local(monkeypatch, lambda: steps and steps.pop()())
    # What was compacted is without documents that are back.
    assert ehi.ray.compact(uri) == 3 and found(uri, cache) == texts(SIX)
    # The other way about: an older deletion is back, which those that are merged have not seen.
    steps.append(lambda: ehi.ray.restore(uri, 2))
    assert ehi.ray.compact(uri, rows=10) == 4 and found(uri, cache) == texts(SIX[3:])
    assert ehi.ray.compact(uri, rows=10) == 5 and found(uri, cache) == texts(SIX[3:])
    assert len(manifests.read(connect(uri))["shards"]) == 1


def judged(uri):
    judgments = publishing.read_judgments(connect(uri), manifests.read(connect(uri)))
    return {(own["question"], own["id"]): own["grade"] for own in judgments.all()} if judgments else {}


def test_judgments_stay_whatever_becomes_of_the_documents(tmp_path, monkeypatch):
    uri, cache = tmp_path / "set", tmp_path / "cache"
    made(uri, SIX)
    local(monkeypatch)
    # As a manifest was before there were judgments.
    path = uri / "manifests" / "000000001.json"
    manifest = json.loads(path.read_text())
    del manifest["judgments"]
    path.write_text(json.dumps(manifest))
    with ehi.ray.open(uri, cache=cache) as shards:
        before = shards.search("word", 6, mode="lexical").ids
        assert ehi.ray.judge(uri, [("Word?", "d5"), ("word", "d0", 0), ("other", "d1")]) == 2
        assert shards.search("word", 6, mode="lexical").ids == before and shards.refresh()
        ids = shards.search("word", 6, mode="lexical").ids
        assert (ids[0], ids[-1]) == ("d5", "d0")
    kept = {("Word?", "d5"): 1, ("word", "d0"): 0, ("other", "d1"): 1}
    assert judged(uri) == kept
    # The later of one question and document, and nothing new.
    assert ehi.ray.judge(uri, iter([("other", "d1", -1), {"question": "q", "id": "new", "time": 5}])) == 3
    assert ehi.ray.judge(uri, [{"question": "q", "id": "new", "time": 5}]) == 3 == ehi.ray.judge(uri, [])
    assert ehi.ray.forget(uri, [("q", "new"), ("word", "d5")]) == 4 == ehi.ray.forget(uri, [("q", "new")])
    kept |= {("other", "d1"): -1}
    for change in (
        lambda: ehi.ray.append(uri, [document("x")], name="x"),
        lambda: ehi.ray.delete(uri, ["d1"]),
        lambda: ehi.ray.compact(uri),
        lambda: made(uri, [*SIX, document("y")], name="again"),
        lambda: ehi.ray.clean(uri),
    ):
        change()
        assert judged(uri) == kept
    assert len(connect(uri).list("judgments")) == 1
    storage = connect(uri)
    shadow = retraining._shadow(pool.RayJob(uri), manifests.read(storage), models.store(storage, ehi.Model(SMALL)))
    assert shadow["judgments"] == manifests.read(storage)["judgments"]
    # An earlier state has its own.
    version = ehi.ray.versions(uri)[-1]
    assert ehi.ray.forget(uri, kept) == version + 1 and judged(uri) == {}
    assert manifests.read(storage)["judgments"] is None
    assert ehi.ray.restore(uri, version) == version + 2 and judged(uri) == kept
    for wrong, error in (([("q",)], TypeError), ([(" ", "a")], ehi.InputError)):
        with pytest.raises(error):
            ehi.ray.judge(uri, wrong)
    ((name, _),) = storage.list("judgments")
    (uri / name).write_bytes(b"x")
    with pytest.raises(ehi.ray.ManifestError, match=f"{name} is damaged"):
        ehi.ray.open(uri, cache=cache)
    (uri / name).unlink()
    with pytest.raises(ehi.ray.ManifestError, match=f"{name} is missing"):
        ehi.ray.judge(uri, [("q", "a")])


def test_judgments_of_many_publishers_all_count(tmp_path):
    uri = tmp_path / "set"
    made(uri, SIX)
    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        own = [[("word", f"d{number % 6}", number)] for number in range(12)]
        list(threads.map(lambda pairs: ehi.ray.judge(uri, pairs), own))
        list(threads.map(lambda number: ehi.ray.forget(uri, [("word", f"d{number}")]), range(2)))
    assert judged(uri).keys() == {("word", f"d{number}") for number in range(2, 6)}


def test_a_deletion_costs_no_shard_of_a_shadow(tmp_path, monkeypatch):
    uri = tmp_path / "set"
    made(uri, SIX, shards=1)
    ehi.ray.delete(uri, ["d0"])
    local(monkeypatch)
    storage = connect(uri)
    model = models.store(storage, ehi.Model(SMALL))
    found = []
    for version in (2, 1, 2):
        current = manifests.read(storage, version)
        shadow = retraining._shadow(pool.RayJob(uri), current, model)
        assert shadow["tombstones"] == current["tombstones"]
        found.append(shadow["shards"])
    assert found[0] == found[1] == found[2] and found[0][0]["rows"] == 6


def test_documents_that_were_deleted_or_replaced_are_appended_again(tmp_path, monkeypatch):
    uri, cache = tmp_path / "set", tmp_path / "cache"
    made(uri, SIX)
    local(monkeypatch)
    new = [document("x1"), document("x2")]
    for _ in range(2):
        assert ehi.ray.append(uri, new, name="x")["version"] == 2
    # Of others it changes nothing.
    assert ehi.ray.delete(uri, "d0") == 3 and ehi.ray.append(uri, new, name="x")["version"] == 3
    assert ehi.ray.delete(uri, "x1") == 4
    assert ehi.ray.append(uri, new, name="x")["version"] == 5
    assert found(uri, cache) == texts([*SIX[1:], *new])
    # So it does under another name.
    assert ehi.ray.append(uri, new, name="y")["version"] == 5
    first, second = [document("d1", "one word")], [document("d1", "two words")]
    for version, own in enumerate((first, second, first), start=6):
        assert ehi.ray.append(uri, own, name=f"n{own is second}")["version"] == version
        assert found(uri, cache)["d1"] == own[0]["text"]
    # The tombstones that say what became of them may be compacted away.
    assert ehi.ray.delete(uri, "x2") == 9 and ehi.ray.compact(uri) == 10
    assert ehi.ray.append(uri, new, name="y")["version"] == 11
    assert found(uri, cache).keys() == {"d1", "d2", "d3", "d4", "d5", "x1", "x2"}
    assert ehi.ray.append(uri, new, name="y")["version"] == 11


def test_a_document_that_is_refused_takes_no_place(tmp_path, monkeypatch):
    uri, cache = tmp_path / "set", tmp_path / "cache"
    made(uri, SIX)
    local(monkeypatch)
    refused = ehi.ray.append(uri, [document("d1", "  ")], name="a")
    assert (refused["version"], refused["documents"]) == (1, 0)
    assert [own["id"] for own in refused["refused"]] == ["d1"]
    own = [document("d1", "\u3000"), document("d2", "a new word"), document("e" * 5000), document("d2", "")]
    appended = ehi.ray.append(uri, own, name="b")
    assert (appended["version"], appended["documents"]) == (2, 1)
    assert sorted(own["id"] for own in appended["refused"]) == ["d1", "d2", "e" * 5000]
    assert found(uri, cache) == {**texts(SIX), "d2": "a new word"}
    # Of a build the last that can be stored, as of one index.
    made(uri, [document("a", "a word"), document("a", "one word"), document("a", "\t")], name="again")
    assert found(uri, cache) == {"a": "one word"}


def test_a_set_is_not_replaced_by_nothing(tmp_path):
    uri, cache = tmp_path / "set", tmp_path / "cache"
    made(uri, SIX)
    with pytest.raises(ehi.ray.ShardsError, match="no document could be stored; `a`: .*neither title nor"):
        made(uri, [document("a", ""), document("b", " "), document("c", "")], name="again")
    assert ehi.ray.versions(uri) == [1] and found(uri, cache) == texts(SIX)


def test_a_set_of_which_all_is_deleted_is_compacted_again(tmp_path, monkeypatch):
    uri = tmp_path / "set"
    made(uri, SIX)
    local(monkeypatch)
    assert ehi.ray.delete(uri, texts(SIX)) == 2 and ehi.ray.compact(uri) == 3
    assert manifests.read(connect(uri))["documents"] == 0 and ehi.ray.compact(uri) == 3


def test_a_name_stands_for_the_same_files_and_columns(tmp_path):
    job, model = pool.RayJob(tmp_path / "set"), ehi.Model(SMALL)
    path = tmp_path / "a.jsonl"
    path.write_text('{"id": "a", "text": "a word"}\n')
    columns = documents.given()

    def begun(columns=columns, name="nightly"):
        return building.begun_with(path, model.hash, {}, columns, name)

    plan, dataset = begun()
    assert dataset == [str(path)]
    job.storage.create("builds/nightly/plan.json", json.dumps(plan).encode())
    assert building.planned(job, dataset, model, begun()[0], columns) == plan
    with pytest.raises(ehi.ray.ShardsError, match="`nightly` was begun with another model, other options"):
        building.planned(job, dataset, model, begun({**columns, "text": ["body"]})[0], columns)
    # Without a name it follows from all of these.
    names = {begun(documents.given(**own), None)[0]["name"] for own in ({}, {"text": "text"}, {"metadata": "a"})}
    assert len(names) == 3 and begun(name=None)[0]["name"] in names
    path.write_text('{"id": "a", "text": "one word"}\n')
    with pytest.raises(ehi.ray.ShardsError, match="files that have changed"):
        building.planned(job, dataset, model, begun()[0], columns)
    assert begun(name=None)[0]["name"] not in names
    # What is published is known by its files too.
    uri = tmp_path / "other"
    built = made(uri, SIX, name="nightly")
    job = pool.RayJob(uri)
    assert building._published(job, 1, built, False)["documents"] == len(SIX)
    assert building._published(job, 1, {**built, "made_from": "other files"}, True) is None
    with pytest.raises(ehi.ray.ShardsError, match="a set at .*other, version 1"):
        building._published(job, 1, {**built, "made_from": "other files"}, False)


def test_the_name_of_a_candidate_stands_for_the_same_pairs(tmp_path, monkeypatch):
    uri = tmp_path / "set"
    made(uri, SIX)
    local(monkeypatch)
    trained = {"asked": digest_of([None, [("q", "d1")], None, 9]), "model": {"hash": "0"}}
    connect(uri).create("candidates/one/trained.json", json.dumps({**trained, "of": "1"}).encode())
    with pytest.raises(ehi.ray.ShardsError, match="was trained for another model"):
        ehi.ray.retrain(uri, [("q", "d1")], name="one", documents=9)
    with pytest.raises(ehi.ray.ShardsError, match="with other pairs or settings"):
        ehi.ray.retrain(uri, [("q", "d2")], name="one", documents=9)
    for call in (lambda: ehi.ray.retrain(uri, [("q", "d1")], name="../x"), lambda: ehi.ray.adopt(uri, "a/b")):
        with pytest.raises(ValueError, match="`name`"):
            call()


def test_a_clean_that_is_cut_off_leaves_no_mark_of_files_that_are_gone(tmp_path, monkeypatch):
    local(monkeypatch)
    new = [document("x1"), document("x2")]
    delete = FolderStorage.delete

    def cut(most):
        left = [most]

        def some(storage, names):
            for name in names:
                if not left[0]:
                    raise OSError("cut off")
                left[0] -= 1
                delete(storage, [name])

        monkeypatch.setattr(FolderStorage, "delete", some)

    for most in (1, 2, 3, 5, 8):
        uri = tmp_path / str(most)
        made(uri, SIX)
        assert ehi.ray.append(uri, new, name="x")["version"] == 2
        assert ehi.ray.delete(uri, ["x1", "x2"]) == 3 and ehi.ray.compact(uri) == 4
        cut(most)
        with pytest.raises(OSError, match="cut off"):
            ehi.ray.clean(uri)
        monkeypatch.setattr(FolderStorage, "delete", delete)
        # The same shard as before, by its key.
        ehi.ray.append(uri, new, name="x")
        assert found(uri, tmp_path / f"cache-{most}") == texts([*SIX, *new])


def test_a_model_that_is_damaged_in_the_cache_is_fetched_again(tmp_path):
    uri, cache = tmp_path / "set", tmp_path / "cache"
    made(uri, SIX)
    assert found(uri, cache) == texts(SIX)
    (folder,) = (cache / "models").iterdir()
    for damage in (lambda path: path.unlink(), lambda path: path.write_bytes(path.read_bytes()[:-1] + b"x")):
        damage(folder / "tokenizer.json")
        assert found(uri, cache) == texts(SIX)


def test_a_forked_child_is_refused(tmp_path):
    uri = tmp_path / "set"
    made(uri, SIX)
    with ehi.ray.open(uri, cache=tmp_path / "cache") as shards:
        vector = shards.search("word").hits and ehi.Encoder(SMALL).encode_query("word")
        if not (child := os.fork()):
            refused = 0
            calls = (
                lambda: shards.search("word", mode="lexical"),
                lambda: shards.search(vector),
                lambda: shards.search(vector, seconds=2),
                lambda: shards.prepare(),
            )
            for call in calls:
                try:
                    call()
                except ehi.ray.ShardsError as error:
                    refused += "forked" in str(error)
            os._exit(refused)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 4
        assert len(shards.search("word").hits) == 6
