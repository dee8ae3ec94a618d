"""What is there may be somebody else's, or may have been made to mislead."""

import copy
import gzip
import hashlib
import json

import pytest

pytest.importorskip("ray", reason='Ray is not installed: pip install "ehi[ray]"')

from local import document, made

import ehi.ray
from ehi.ray import publishing
from ehi.ray import manifest as manifests
from ehi.ray.storage import connect

DOCUMENTS = [document(f"d{number}") for number in range(4)]


@pytest.fixture
def uri(tmp_path):
    made(tmp_path / "set", DOCUMENTS)
    return tmp_path / "set"


def files_below(path):
    return sorted(own.relative_to(path).as_posix() for own in path.rglob("*") if own.is_file())


def test_what_is_no_set_is_not_cleaned(tmp_path):
    for name in ("models/mine/weights.bin", "builds/out.bin", "statistics/year.csv", "shards/a/b"):
        (tmp_path / "own" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "own" / name).write_text("mine")
    before = files_below(tmp_path / "own")
    with pytest.raises(ehi.ray.ManifestError, match="no set of shards"):
        ehi.ray.clean(tmp_path / "own")
    # Beside a set of ours they stay too.
    made(tmp_path / "own", DOCUMENTS)
    made(tmp_path / "own", DOCUMENTS[:2], name="second")
    assert any(name.startswith("shards/") for name in ehi.ray.clean(tmp_path / "own"))
    assert set(before) <= set(files_below(tmp_path / "own"))
    # A build that never came to its end.
    connect(tmp_path / "begun").create("builds/one/plan.json", b"{}")
    assert ehi.ray.clean(tmp_path / "begun") == ["builds/one/plan.json"]


def test_all_that_a_set_consists_of_is_cleaned_in_time(uri):
    storage = connect(uri)
    ehi.ray.delete(uri, "d1")
    for name in ("trained", "verdict"):
        storage.create(f"candidates/some-name_1/{name}.json", b"{}")
    made(uri, [document("another")], name="second")
    ehi.ray.clean(uri)
    manifest = manifests.read(storage)
    for name, _ in storage.list("shards") + storage.list("models"):
        assert name.split("/")[1] in {manifest["shards"][0]["key"], manifest["model"]["hash"]}
    assert not any(storage.list(folder) for folder in ("builds", "candidates", "tombstones"))


@pytest.mark.parametrize("kind", ["folder", "s3"])
def test_a_number_is_never_given_twice(uri, tmp_path, request, monkeypatch, kind):
    if kind == "s3":
        options = request.getfixturevalue("s3")
        storage = connect(f"s3://sets/{tmp_path.name}", options)
        for name in files_below(uri):
            storage.create(name, (uri / name).read_bytes())
        uri, more = f"s3://sets/{tmp_path.name}", {"storage_options": options}
    else:
        storage, more = connect(uri), {}
    first = manifests.read(storage)
    for number in range(4):
        ehi.ray.delete(uri, f"d{number % 2}", **more)
    assert manifests.name_of(2) in ehi.ray.clean(uri, **more)
    assert ehi.ray.versions(uri, **more) == [5] and ehi.ray.clean(uri, **more) == []
    with pytest.raises(ehi.ray.PublishConflict) as conflict:
        manifests.publish(storage, first, 1)
    assert conflict.value.version == 2
    with pytest.raises(ehi.ray.ManifestError, match="no manifest 2"):
        ehi.ray.restore(uri, 2, **more)
    # One that read an old state before others published, and these were cleaned away.
    read, stale = manifests.read, [{**first, "version": 1}]
    monkeypatch.setattr(manifests, "read", lambda *own: stale.pop() if stale else read(*own))
    assert ehi.ray.delete(uri, "d2", **more) == 6 and not stale
    assert len(read(storage)["tombstones"]) == 5


def test_ids_that_are_no_text(uri, tmp_path):
    with pytest.raises(ValueError, match="surrogates not allowed"):
        ehi.ray.delete(uri, ["d1", "\ud800"])
    assert ehi.ray.versions(uri) == [1]
    # Somebody else may have written them.
    data = gzip.compress(json.dumps(["d1", "\ud800"]).encode())
    entry = {"name": f"tombstones/{'a' * 32}.json.gz", "sha256": hashlib.sha256(data).hexdigest(), "ids": 2}
    connect(uri).create(entry["name"], data)
    storage, entry = connect(uri), {**entry, "before": 2}
    publishing.change(storage, lambda own: publishing.assemble(storage, own, own["shards"], [entry]))
    with ehi.ray.open(uri, cache=tmp_path / "cache") as shards:
        answer = shards.search("word", mode="dense")
        assert not answer.hits and all("is damaged" in why for why in answer.missing.values())


def at(manifest, *path):
    for name in path[:-1]:
        manifest = manifest[name]
    return manifest, path[-1]


@pytest.mark.parametrize(
    "path,value",
    [
        (("shards", 0, "key"), "../../esc/planted"),
        (("shards", 0, "key"), "/esc"),
        (("shards", 0, "attempt"), "../a"),
        (("shards", 0, "files", 0, "name"), "../planted"),
        (("shards", 0, "files", 0, "name"), 5),
        (("shards", 0, "files", 0, "same"), "../../planted"),
        (("shards", 0, "files"), {}),
        (("shards", 0, "rows"), "5"),
        (("shards", 0, "terms"), []),
        (("shards", 0, "refused"), [5]),
        (("shards", 0), None),
        (("shards",), 5),
        (("model", "hash"), "../.."),
        (("model", "files", 0, "same"), "config.json"),
        (("model",), "a"),
        (("tombstones",), [{"name": "shards"}]),
        (("tombstones",), [[]]),
        (("statistics",), {"sha256": "../a"}),
        (("beam",), None),
        (("beam",), 10**30),
        (("alpha",), "0.5"),
        (("documents",), True),
        (("precision",), None),
        (("columns",), []),
        (("judgments",), {"sha256": "../../planted"}),
    ],
)
def test_manifests_that_mislead_are_refused(uri, tmp_path, path, value):
    storage = connect(uri)
    manifest = copy.deepcopy(manifests.read(storage))
    assert manifests.flaw(manifest) is None
    of, name = at(manifest, *path)
    of[name] = value
    with pytest.raises(ehi.ray.ManifestError, match="cannot be published"):
        manifests.publish(storage, manifest, 1)
    storage.create(manifests.name_of(2), manifests.encode({**manifest, "version": 2}))
    with pytest.raises(ehi.ray.ManifestError, match="manifest 2 is damaged"):
        ehi.ray.open(uri, cache=tmp_path / "cache")
    for field in manifests.read(storage, 1):
        lacking = {own: each for own, each in manifests.read(storage, 1).items() if own != field}
        if field not in ("published", "build", "columns", "judgments"):
            with pytest.raises(ehi.ray.ManifestError, match="manifest 1 is damaged"):
                manifests.decode(manifests.encode(lacking), 1)
