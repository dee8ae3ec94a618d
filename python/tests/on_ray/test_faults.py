"""Processes that are killed at random moments: every published state is whole, nothing is twice, nothing lost.

python -m pytest tests/on_ray/test_faults.py                    # some
python -m pytest tests/on_ray/test_faults.py -m "slow or not slow"   # 50 and more
"""

import collections
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time

import pytest

ray = pytest.importorskip("ray", reason='Ray is not installed: pip install "ehi[ray]"')

from processes import descendants
from sets import MODEL, write_lines

import ehi.ray
from ehi.ray import manifest as manifests
from ehi.ray import scratch as scratches
from ehi.ray import shard
from ehi.ray.storage import connect

FEW, MORE = 24, 8
DRIVER = """
import json, sys
import ehi.ray
address, calls = sys.argv[1], json.load(open(sys.argv[2]))
if address:
    import ray
    ray.init(address=address, log_to_driver=False, logging_level="ERROR")
print("begun", flush=True)
for name, arguments, options in calls:
    getattr(ehi.ray, name)(*arguments, **options)
print("done", flush=True)
"""


class Case:
    """Calls of a driver, what the set has before, and what it has after them."""

    def __init__(self, calls, before, after, needs_ray=True):
        self.calls, self.before, self.after, self.needs_ray = calls, before, after, needs_ray


@pytest.fixture(scope="module")
def original(cluster, corpus, tmp_path_factory):
    """A set with a small shard and some deletions."""
    folder = tmp_path_factory.mktemp("original")
    lines = write_lines(folder / "corpus.jsonl", corpus[:FEW])
    options = {"shards": 3, "precision": "int8", "metadata": "metadata"}
    ehi.ray.build(lines, MODEL, folder / "set", **options)
    ehi.ray.append(folder / "set", write_lines(folder / "more.jsonl", corpus[FEW : FEW + MORE]))
    ehi.ray.delete(folder / "set", [corpus[0]["id"], corpus[FEW]["id"]])
    return folder


def case_of(kind, original, uri, corpus, scratch):
    ids = [document["id"] for document in corpus]
    first, now = set(ids[:FEW]), set(ids[1:FEW] + ids[FEW + 1 : FEW + MORE])
    work = {"scratch": str(scratch)}
    if kind == "build":
        shutil.rmtree(uri)
        options = {"shards": 3, "precision": "int8", "metadata": "metadata", **work}
        return Case([("build", [str(original / "corpus.jsonl"), str(MODEL), str(uri)], options)], None, first)
    if kind == "append":
        lines = write_lines(uri.parent / "added.jsonl", [{**own, "text": "b"} for own in corpus[:4]])
        return Case([("append", [str(uri), str(lines)], {"shards": 2, **work})], now, now | set(ids[:4]))
    if kind == "compact":
        return Case([("compact", [str(uri)], {"rows": 20, **work})], now, now)
    if kind == "split":
        return Case([("compact", [str(uri)], {"rows": 5, **work})], now, now)
    gone = sorted(now)[:20]
    return Case([("delete", [str(uri), id], {}) for id in gone], now, now - set(gone), needs_ray=False)


def check_whole(uri):
    """Each published state has all of its objects, each as long as its manifest says; none has a gap."""
    storage = connect(uri)
    there = {
        name: size for folder in ("shards", "models", "tombstones") for name, size in storage.list(folder)
    }
    versions = ehi.ray.versions(uri)
    for version in versions:
        manifest = manifests.read(storage, version)
        for entry in manifest["shards"]:
            for file in entry["files"]:
                if "same" not in file:
                    assert there[f"{shard.files_prefix(entry)}/{file['name']}"] == file["bytes"]
            assert shard.finished(storage, entry["key"])["attempt"] == entry["attempt"]
        assert all(own["name"] in there for own in manifest["tombstones"])
        assert manifest["documents"] == sum(entry["rows"] for entry in manifest["shards"])
    return versions


def found(uri, cache):
    """How often each document is found."""
    with ehi.ray.open(uri, cache=cache) as shards:
        answer = shards.search("protein", 1_000, exact=True, mode="dense")
        assert not answer.partial, answer.missing
        return collections.Counter(hit.id for hit in answer.hits)


def check_state(uri, cache, *states):
    counts = found(uri, cache)
    assert set(counts.values()) <= {1}
    assert set(counts) in states, (len(counts), [len(state) for state in states])


def check_clean(uri, scratch):
    """Nothing is left but what the newest manifest names."""
    ehi.ray.clean(uri, scratch=str(scratch))
    # The actors of a driver that was killed are ended by Ray, in a moment.
    over = time.monotonic() + 20
    while any(scratches.home_of(scratch).glob("*")) and time.monotonic() < over:
        time.sleep(0.3)
        scratches.sweep(scratch)
    assert not list(scratches.home_of(scratch).glob("*"))
    storage = connect(uri)
    manifest = manifests.read(storage)
    named = {name for entry in manifest["shards"] for name in shard.names_of_files(entry)}
    named |= {shard.terms_name(entry) for entry in manifest["shards"]}
    named |= {shard.done_name(entry["key"]) for entry in manifest["shards"]}
    assert {name for name, _ in storage.list("shards")} == named
    assert storage.list("builds") == [] and len(manifests.versions(storage)) == 1
    assert not list(scratches.home_of(uri).glob("*"))


@pytest.fixture(scope="module")
def lasting():
    """How long the calls of each kind take when nobody is killed, as last seen."""
    return {}


@pytest.mark.parametrize(
    "kind,kills",
    [
        ("append", 1),
        ("compact", 1),
        ("delete", 2),
        pytest.param("build", 10, marks=pytest.mark.slow),
        pytest.param("append", 10, marks=pytest.mark.slow),
        pytest.param("compact", 8, marks=pytest.mark.slow),
        pytest.param("split", 8, marks=pytest.mark.slow),
        pytest.param("delete", 5, marks=pytest.mark.slow),
    ],
)
def test_killed_at_random_moments(original, corpus, tmp_path, lasting, kind, kills):
    rng = random.Random(f"{kind} {kills}")
    done, rounds = 0, 0
    while done < kills:
        rounds += 1
        assert rounds < 5 * kills, "the kills come too late"
        place = tmp_path / str(rounds)
        shutil.copytree(original / "set", place / "set")
        uri, scratch, cache = place / "set", place / "scratch", place / "cache"
        case = case_of(kind, original, uri, corpus, scratch)
        address = ray.get_runtime_context().gcs_address if case.needs_ray else ""
        (place / "calls.json").write_text(json.dumps(case.calls))
        command = [sys.executable, "-c", DRIVER, address, str(place / "calls.json")]
        driver = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert driver.stdout.readline() == "begun\n", driver.stderr.read()[-2000:]
        begun = time.monotonic()
        time.sleep(rng.uniform(0, lasting.get(kind, 4 if case.needs_ray else 0.5)))
        is_actor = case.needs_ray and rng.random() < 0.5
        pids = descendants(["ray::make_shard"]) if is_actor else [driver.pid]
        if pids and driver.poll() is None:
            os.kill(rng.choice(pids), signal.SIGKILL)
            done += 1
        if is_actor or driver.poll() is not None:
            _, errors = driver.communicate(timeout=240)
            assert driver.returncode in (0, -signal.SIGKILL), errors[-2000:]
            lasting[kind] = time.monotonic() - begun
        driver.wait()
        driver.stdout.close()
        driver.stderr.close()
        is_whole = bool(check_whole(uri)) if uri.exists() else False
        if is_whole and kind == "delete":
            counts = found(uri, cache)
            assert set(counts.values()) == {1} and case.after <= set(counts) <= case.before
        elif is_whole:
            check_state(uri, cache, case.after, *([case.before] if case.before else []))
        else:
            assert case.before is None
        # The same calls again end where nobody was killed.
        for name, arguments, options in case.calls:
            getattr(ehi.ray, name)(*arguments, **options)
        check_whole(uri)
        check_state(uri, cache, case.after)
        if kind == "append":
            assert ehi.ray.versions(uri) == [1, 2, 3, 4]
        check_clean(uri, scratch)
        check_state(uri, place / "other", case.after)
        shutil.rmtree(place)


def test_staged_objects_of_the_living_stay(tmp_path):
    """What a process is creating is not taken for what a killed one has left."""
    code = """
import os, signal, sys
from ehi.ray import scratch, storage
own = scratch.work_folder("test", sys.argv[1])
(own.__enter__() / "file").write_text("a")
os.fsync = lambda handle: print("begun", flush=True) or sys.stdin.readline()
storage.connect(sys.argv[1] + "/set").create("manifests/one", b"data")
own.__exit__(None, None, None)
"""
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for process in processes:
        assert process.stdout.readline() == "begun\n"
    storage = connect(tmp_path / "set")
    assert storage.sweep() == [] and scratches.sweep(tmp_path) == []
    assert len(list(scratches.home_of(tmp_path / "set").glob("staged-*.lock"))) == 2
    processes[0].kill()
    processes[0].wait()
    assert len(storage.sweep()) == 1 and len(scratches.sweep(tmp_path)) == 1
    processes[1].stdin.write("\n")
    # The second call of `fsync` is for the folder.
    processes[1].stdin.write("\n")
    processes[1].stdin.close()
    assert processes[1].wait(60) == 0
    assert storage.get("manifests/one") == b"data" and not list(scratches.home_of(tmp_path).glob("*"))
    for process in processes:
        process.stdout.close()
