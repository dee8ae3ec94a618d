"""Publishing: one of several wins, in a folder and in an object store."""

import os
import threading

import pytest

import ehi.ray
from ehi.ray import manifest as manifests
from ehi.ray.storage import FolderStorage, connect

ROUNDS = 1_000


@pytest.fixture(params=["folder", "s3"])
def storage(request, tmp_path):
    if request.param == "folder":
        return connect(tmp_path / "set")
    return connect(f"s3://sets/{tmp_path.name}", request.getfixturevalue("s3"))


def test_objects_are_created_once_and_whole(storage, tmp_path):
    with pytest.raises(FileNotFoundError):
        storage.get("a/b")
    assert storage.create("a/b", b"first") and not storage.create("a/b", b"second")
    assert storage.get("a/b") == b"first"
    (tmp_path / "file").write_bytes(os.urandom(1 << 20))
    storage.upload("a/c/d", tmp_path / "file")
    storage.download("a/c/d", tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == (tmp_path / "file").read_bytes()
    assert storage.list("a") == [("a/b", 5), ("a/c/d", 1 << 20)] and storage.list("none") == []
    storage.delete(["a/b", "a/c/d", "a/none"])
    assert storage.list("a") == []
    for key in ("../a", "/a", "a//b", "a/./b"):
        with pytest.raises(ehi.ray.StorageError):
            storage.create(key, b"")


@pytest.mark.parametrize(
    "options,why",
    [
        # `obstore` panics.
        ({"region": "us-east-1", "allow_http": "true"}, "s3://sets/none: "),
        ({"bogus": 1}, "s3://sets/none: .*bogus"),
        ({"endpoint": "http://127.0.0.1:1"}, "s3://sets/none: .*127.0.0.1:1"),
        ({"secret_access_key": 3}, "s3://sets/none: "),
    ],
)
def test_what_an_object_store_says_is_an_error_of_storage(s3, options, why):
    given = {**s3, "retry_config": {"max_retries": 0}, **options}
    if "region" in options:
        given = options
    with pytest.raises(ehi.ray.StorageError, match=why) as raised:
        ehi.ray.versions("s3://sets/none", storage_options=given)
    assert "Debug source" not in str(raised.value)
    # No bucket, so that nothing can be written either.
    missing = connect("s3://no-such-bucket/none", {**s3, "retry_config": {"max_retries": 0}})
    for call in (lambda: missing.create("a/b", b""), lambda: missing.get("a/b"), lambda: missing.list("a")):
        with pytest.raises(ehi.ray.StorageError, match="s3://no-such-bucket/none: "):
            call()


@pytest.mark.parametrize("rounds", [ROUNDS])
def test_of_two_publishers_one_wins_each_time(storage, rounds):
    if not isinstance(storage, FolderStorage):
        rounds //= 10
    manifest = {
        "model": {"hash": "a" * 64, "attempt": "b" * 32, "files": [], "has_tree": False},
        **{name: None for name in ("words", "alpha", "statistics")},
        **{"shards": [], "tombstones": [], "beam": 1, "precision": "f32"},
    }
    barrier, wins = threading.Barrier(2), [[], []]

    def publisher(number):
        for parent in range(rounds):
            barrier.wait()
            try:
                manifests.publish(storage, {**manifest, "documents": number}, parent)
                wins[number].append(parent)
            except ehi.ray.PublishConflict as conflict:
                assert conflict.version == parent + 1

    threads = [threading.Thread(target=publisher, args=[number]) for number in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(wins[0] + wins[1]) == list(range(rounds))
    for number in (0, 1):
        # What is there is what the winner wrote.
        for parent in wins[number][:20]:
            assert manifests.read(storage, parent + 1)["documents"] == number
    assert manifests.latest_version(storage) == rounds


def test_manifests_that_cannot_be_used(storage):
    with pytest.raises(ehi.ray.ManifestError, match="nothing was published"):
        manifests.read(storage)
    for version, data, why in (
        (1, b"{", "damaged"),
        (2, b'{"format": 1}', "lacks"),
        (3, b'{"format": 9, "version": 3}', "format 9"),
        (4, b'{"format": 1, "version": 9}', "`version` of it is not what it has to be: 9"),
        (5, b'{"format": 1, "version": 5}', "damaged: it lacks"),
        (6, b"[" * 100_000, "manifest 6 is damaged"),
    ):
        storage.create(manifests.name_of(version), data)
        with pytest.raises(ehi.ray.ManifestError, match=why):
            manifests.read(storage)
    with pytest.raises(ehi.ray.ManifestError, match="no manifest 7"):
        manifests.read(storage, 7)
