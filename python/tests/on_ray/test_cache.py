"""Shards on the local disk: evicted, damaged, not to be had for a while; and folders for work."""

import concurrent.futures
import os
import shutil
import threading
import time

import pytest

pytest.importorskip("ray", reason='Ray is not installed: pip install "ehi[ray]"')

from local import document, made

import ehi
import ehi.ray
from ehi.ray import manifest as manifests
from ehi.ray import models, scratch, serving
from ehi.ray.cache import Cache
from ehi.ray.storage import FolderStorage, connect

COUNT, SHARDS = 24, 6
DOCUMENTS = [document(f"d{number}") for number in range(COUNT)]


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    uri = tmp_path_factory.mktemp("original") / "set"
    made(uri, DOCUMENTS, SHARDS)
    return uri


@pytest.fixture
def uri(original, tmp_path):
    shutil.copytree(original, tmp_path / "set")
    return tmp_path / "set"


def path_of(cache, storage, entry, tombstones):
    return cache.opened(storage, entry, tombstones, lambda path: path)


def all_of(shards):
    return shards.search("word", 100, mode="dense", exact=True)


@pytest.mark.parametrize("deleted", [0, 5])
def test_a_budget_below_the_set_leaves_nothing_out(uri, tmp_path, deleted):
    if deleted:
        ehi.ray.delete(uri, [own["id"] for own in DOCUMENTS[:deleted]])
    entries = manifests.read(connect(uri))["shards"]
    budget = int(2.2 * max(entry["bytes"] for entry in entries))
    options = {"cache": tmp_path / "cache", "budget": budget, "threads": 4, "most_open": 1}
    with ehi.ray.open(uri, **options) as shards, ehi.ray.open(uri, **options) as other:
        for _ in range(5):
            with concurrent.futures.ThreadPoolExecutor(2) as pool:
                for answer in pool.map(all_of, [shards, other]):
                    assert not answer.partial, answer.missing
                    assert len(answer.hits) == COUNT - deleted
    # Whoever is next makes room.
    cache = Cache(tmp_path / "cache", budget)
    cache.drop(entries[0])
    path_of(cache, connect(uri), entries[0], [])
    files = [path for path in (tmp_path / "cache" / "shards").rglob("*") if path.is_file()]
    taken = {os.stat(path).st_ino: os.stat(path).st_size for path in files if "model" not in path.parts}
    assert sum(taken.values()) <= budget + 100


def test_a_shard_that_is_about_to_be_opened_is_not_evicted(uri, tmp_path):
    storage = connect(uri)
    manifest = manifests.read(storage)
    models.fetch(storage, manifest["model"], tmp_path / "cache")
    first, second = manifest["shards"][:2]
    other = Cache(tmp_path / "cache", budget=1)

    def open(path):
        path_of(other, storage, second, [])
        return ehi.Index.open(path, lazy_encoder=True, read_only=True)

    index = Cache(tmp_path / "cache").opened(storage, first, [], open)
    assert len(index) == first["rows"]
    # It is not held any more.
    path_of(other, storage, second, [])
    path_of(other, storage, manifest["shards"][2], [])
    assert not [own for own in (tmp_path / "cache" / "shards").iterdir() if own.name.startswith(first["key"])]


def test_a_copy_without_what_was_deleted_shares_the_model(uri, tmp_path):
    storage = connect(uri)
    ehi.ray.delete(uri, [own["id"] for own in DOCUMENTS])
    manifest = manifests.read(storage)
    models.fetch(storage, manifest["model"], tmp_path / "cache")
    cache, entry = Cache(tmp_path / "cache"), manifest["shards"][0]
    base = path_of(cache, storage, entry, [])
    copy = path_of(cache, storage, entry, manifest["tombstones"])
    shared = [file["name"] for file in entry["files"] if "same" in file]
    assert base != copy and shared and all((base / name).samefile(copy / name) for name in shared)


def test_shards_load_no_encoder_of_their_own(uri, tmp_path, monkeypatch):
    seen, real = [], ehi.Index

    class Recorder:
        @staticmethod
        def open(path, **options):
            seen.append(options)
            return real.open(path, **options)

    monkeypatch.setattr(ehi, "Index", Recorder)
    with ehi.ray.open(uri, cache=tmp_path / "cache") as shards:
        assert shards.prepare() == {} and len(seen) == SHARDS
    assert all(options["lazy_encoder"] for options in seen)


def test_a_damaged_copy_is_fetched_again(uri, tmp_path):
    with ehi.ray.open(uri, cache=tmp_path / "cache") as shards:
        assert not all_of(shards).partial
    entry = manifests.read(connect(uri))["shards"][2]
    (vectors,) = (tmp_path / "cache" / "shards").glob(f"{entry['key']}*/**/*.vectors")
    data = bytearray(vectors.read_bytes())
    data[len(data) // 2] ^= 1
    vectors.chmod(0o600)
    vectors.write_bytes(data)
    with ehi.ray.open(uri, cache=tmp_path / "cache") as shards:
        answers = [all_of(shards) for _ in range(3)]
        assert list(answers[0].missing) == [entry["key"]]
        assert not answers[1].partial and not answers[2].partial and len(answers[2].hits) == COUNT


def test_a_store_that_does_not_answer_for_a_while(uri, tmp_path):
    class Failing(FolderStorage):
        error = None

        def download(self, key, path):
            if self.error:
                raise self.error
            return super().download(key, path)

    storage = Failing(uri)
    with ehi.ray.Searcher(storage, manifests.read(storage), Cache(tmp_path / "cache")) as shards:
        for error in (ehi.ray.StorageError("no answer"), OSError("no answer")):
            storage.error = error
            answer = all_of(shards)
            assert answer.partial and len(answer.missing) == SHARDS and not answer.hits
            assert set(answer.missing.values()) == {"no answer"}
            assert len(shards.prepare()) == SHARDS
        storage.error = None
        answer = all_of(shards)
        assert not answer.partial and len(answer.hits) == COUNT


def test_a_file_that_is_not_the_same_as_that_of_the_model(uri, tmp_path):
    storage = connect(uri)
    models.fetch(storage, manifests.read(storage)["model"], tmp_path / "cache")
    (config,) = (tmp_path / "cache" / "models").glob("*/config.json")
    config.write_text(config.read_text() + " ")
    entry = manifests.read(storage)["shards"][0]
    with pytest.raises(ehi.ray.ShardError, match="is not that of the model"):
        path_of(Cache(tmp_path / "cache"), storage, entry, [])


def test_closing_ends_searches_with_an_error(uri, tmp_path):
    shards = ehi.ray.open(uri, cache=tmp_path / "cache", threads=1)
    outcomes, begun = [], threading.Event()

    def client():
        while True:
            try:
                answer = all_of(shards)
                begun.set()
                assert len(answer.hits) == COUNT
            except Exception as error:
                outcomes.append(error)
                return

    threads = [threading.Thread(target=client, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    assert begun.wait(60)
    time.sleep(0.2)
    shards.close()
    for thread in threads:
        thread.join(30)
    assert len(outcomes) == 4 and all(str(error).endswith("is closed") for error in outcomes)
    assert {type(error) for error in outcomes} == {ehi.ray.ShardsError}
    with pytest.raises(ehi.ray.ShardsError, match="is closed$"):
        all_of(shards)
    with pytest.raises(ehi.ray.ShardsError, match="is closed$"):
        shards.prepare()
    shards.close()


def test_paths_are_those_of_the_moment_they_were_given(uri, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    with ehi.ray.open("set", cache="cache") as shards:
        with scratch.work_folder("test", "work") as work:
            monkeypatch.chdir(tmp_path / "elsewhere")
            assert not all_of(shards).partial and work.is_absolute()
    assert not list((tmp_path / "elsewhere").iterdir())
    with pytest.raises(ehi.ray.StorageError, match="names a machine, `data`"):
        connect("file://data/set")
    assert connect(f"file://{uri}").root == connect(f"file://localhost{uri}").root == uri


def test_a_place_for_work_that_is_not_ours(tmp_path):
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "old.lock").touch()
    (mine / "old").mkdir()
    (mine / "old" / "file").touch()
    home = scratch.home_of(tmp_path)
    home.symlink_to(mine)
    for call in (lambda: scratch.work_folder("test", tmp_path).__enter__(), lambda: scratch.sweep(tmp_path)):
        with pytest.raises(ehi.ray.StorageError, match="not a folder of this user"):
            call()
    assert (mine / "old" / "file").exists()
    home.unlink()
    # One of ours is closed to others, and what has another name than ours stays.
    shutil.copytree(mine, home)
    home.chmod(0o777)
    with scratch.work_folder("test", tmp_path) as work:
        assert home.stat().st_mode & 0o777 == 0o700 and work.exists()
    assert scratch.sweep(tmp_path) == [] and (home / "old" / "file").exists()
    if os.getuid() == 0:
        os.chown(home, 12345, 12345)
        with pytest.raises(ehi.ray.StorageError, match="not a folder of this user"):
            scratch.work_folder("test", tmp_path).__enter__()


def test_a_group_opens_a_state_once(uri, tmp_path, monkeypatch):
    opened, real = [], serving.Group

    def slow(*arguments, **options):
        opened.append(1)
        time.sleep(0.3)
        return real(*arguments, **options)

    monkeypatch.setattr(serving, "Group", slow)
    replica = serving.GroupReplica(str(uri), 0, 1, str(tmp_path / "cache"), None, None)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert [own.result() for own in [pool.submit(replica.prepare, 1) for _ in range(4)]] == [{}] * 4
    assert len(opened) == 1
