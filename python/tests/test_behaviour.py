"""What people expect of a package of Python: signals, forks, pickles, arrays, progress, nothing that
leaks.
"""

import gc
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

import ehi
from ehi._temporary import TemporaryIndex
from places import MODEL, ROOT, SMALL


def test_progress_true_shows_bars(empty, documents, capsys, monkeypatch):
    pytest.importorskip("tqdm", reason="needs tqdm")
    empty.add(documents[:10], progress=True)
    assert "insert: 100%" in capsys.readouterr().err
    empty.verify(progress=False)
    assert capsys.readouterr().err == ""
    with pytest.raises(TypeError, match="progress"):
        empty.verify(progress="yes")
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    with pytest.raises(ImportError, match="progress"):
        empty.add(documents[10:20], progress=True)
    assert len(empty) == 10


def interrupted(program):
    """Runs a program until it says `go`, sends it Ctrl-C, and returns the rest of what it says."""
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "go\n"
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 7, out
    return out.split()


def test_ctrl_c_ends_a_training(tmp_path, documents):
    output = tmp_path / "model"
    program = f"""
        import sys, ehi
        documents = {documents[:60]!r}
        pairs = [(each["title"], each["id"]) for each in documents]
        said = []
        def progress(stage, done, total):
            if not said:
                said.append(print("go", flush=True))
        try:
            ehi.train({str(MODEL)!r}, {str(output)!r}, documents=documents, pairs=pairs, progress=progress)
        except KeyboardInterrupt:
            sys.exit(7)
    """
    assert interrupted(program) == []
    assert not (output / "ehi.json").exists()


@pytest.mark.parametrize(
    "call",
    [
        "encoder.encode_document(texts)",
        "index.search(texts, k=1, encoder='full')",
        "index.add(ids, texts)",
        "index.add(ids, texts, all_or_none=True)",
    ],
)
def test_ctrl_c_ends_what_takes_long(tmp_path, documents, call):
    # On a fast machine, too, it is far from done when the signal comes.
    program = f"""
        import sys, threading, time, ehi
        texts = {[each["text"] for each in documents[:20]]!r} * 5000
        ids = [str(place) for place in range(len(texts))]
        encoder = ehi.Encoder({str(MODEL)!r}, precision="int8")
        index = ehi.Index.create({str(tmp_path / "index")!r}, {str(MODEL)!r}, precision="int8")
        index.add(["a"], ["a text"])
        threading.Timer(0.5, lambda: print("go", flush=True)).start()
        try:
            {call}
        except KeyboardInterrupt:
            sys.exit(7)
    """
    assert interrupted(program) == []


def in_child(work):
    """What a forked child's call raises, or gives."""

    def run(answers):
        try:
            answers.put(repr(work()))
        except BaseException as error:  # noqa: BLE001
            answers.put(f"{type(error).__name__} {getattr(error, 'kind', None)} {error}")

    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    process = context.Process(target=run, args=(answers,))
    process.start()
    answer = answers.get(timeout=60)
    process.join(timeout=60)
    assert process.exitcode == 0
    return answer


def test_every_call_in_a_forked_child_is_refused(tmp_path, documents):
    index = ehi.Index.create(tmp_path / "index", MODEL, precision="int8")
    index.add(documents[:5])
    index.flush()
    reader = ehi.Index.open(tmp_path / "index", precision="int8", read_only=True)
    encoder = ehi.Encoder(MODEL, precision="int8")
    for work in (
        lambda: index.search("tea"),
        lambda: index.add(["a"], ["text"]),
        lambda: reader.search(["tea", "coffee"]),
        lambda: encoder.encode_query(["tea"] * 100),
        lambda: ehi.Index.open(tmp_path / "index", read_only=True),
    ):
        answer = in_child(work)
        assert answer.startswith("StoreError Forked") and "spawn" in answer
    # What a `with` block does at its end is no failure, and takes nothing from the parent.
    assert in_child(index.close) == "None"
    assert index.add(["a"], ["text"])["inserted"] == 1 and index.verify()["sound"]
    # There is no thread to wait for in the child.
    tuning = index.auto_tune(interval=3600)
    assert in_child(tuning.close) == "None"
    tuning.close()
    index.close()


def test_a_forked_child_leaves_the_folders_of_its_parent(tmp_path):
    store = TemporaryIndex(tmp_path, MODEL, precision="int8")
    if not (child := os.fork()):
        # As at the end of a program.
        store._remove()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0 and (store.folder / "index").exists()
    store.close()
    assert not store.folder.exists()


def test_a_process_may_fork_before_its_first_call(tmp_path, documents):
    program = f"""
        import os, sys, ehi
        child = os.fork()
        place = {str(tmp_path)!r} + f"/{{child == 0}}"
        with ehi.Index.create(place, {str(MODEL)!r}, precision="int8") as index:
            index.add(["a", "b"], ["a text", "another"])
            index.search(["a", "b"])
        if child:
            sys.exit(os.waitpid(child, 0)[1])
    """
    assert subprocess.run([sys.executable, "-c", textwrap.dedent(program)], timeout=120).returncode == 0


def test_what_is_open_is_not_pickled_and_paths_are(filled):
    reranker = ehi.Reranker(ROOT / "tests" / "fixtures" / "rerankers" / "6.2" / "identity")
    for each in (filled, filled.model, ehi.Encoder(MODEL, precision="int8"), reranker):
        with pytest.raises(TypeError, match="pickle"):
            pickle.dumps(each)
    model = pickle.loads(pickle.dumps(filled.model.path))
    assert ehi.Model(model).hash == filled.model.hash


def test_errors_tell_what_they_are(empty, documents):
    with pytest.raises(ehi.Error) as caught:
        empty.search("tea", k=0)
    assert (
        isinstance(caught.value, ehi.InputError) and caught.value.kind == "OutOfRange" and "k" in str(caught.value)
    )
    with pytest.raises(ehi.InputError) as caught:
        empty.add([{"id": "a", "text": "x"}, {"id": "b", "text": " "}], all_or_none=True)
    assert caught.value.kind == "EmptyDocument" and len(empty) == 0
    summary = empty.add([{"id": "a", "text": "x"}, {"id": "b", "text": " "}])
    assert summary["inserted"] == 1 and summary["refused"][0]["id"] == "b"
    for path in ("./missing", "a/b/c"):
        with pytest.raises(ehi.ModelError, match=f"there is no folder {path}$"):
            ehi.Model(path)
    texts = ["tea"] * 100 + [""] + ["tea"] * 20
    with pytest.raises(ehi.ModelError, match="text number 100 "):
        ehi.Encoder(SMALL).encode_document(texts)
    with pytest.raises(ehi.InputError):
        empty.search([], k=0)
    with pytest.raises(TypeError, match=r"`query\[1\]` must be a string"):
        empty.search(["tea", None])
    with pytest.raises(ehi.InputError, match=r"position 1 \(`d`\), `metadata`: `n`: JSON has no value for set"):
        empty.add(["c", "d"], ["x", "y"], metadata=[None, {"n": {1}}], all_or_none=True)
    with pytest.raises(TypeError, match=r"`ids\[0\]` must be a string"):
        empty.delete([None])
    with pytest.raises(TypeError, match="ids"):
        empty.add(documents[:1], ids=["a"])
    with pytest.raises(TypeError, match="ids"):
        empty.add(ids=["a"])
    assert empty.add(ids=["c"], texts=["text"])["inserted"] == 1


def test_arrays_of_any_layout(empty):
    rows = np.random.default_rng(3).standard_normal((6, 384)).astype(np.float32)
    ids = [f"{place}" for place in range(6)]
    layouts = {
        "fortran": np.asfortranarray(rows),
        "backwards": rows[::-1][::-1],
        "every other": np.repeat(rows, 2, axis=0)[::2],
        "columns": np.repeat(rows, 2, axis=1)[:, ::2],
        "half": rows.astype(np.float16),
        "half, columns": np.repeat(rows, 2, axis=1)[:, ::2].astype(np.float16),
        "unaligned": np.frombuffer(b"x" + rows.tobytes(), np.uint8)[1:].view(np.float32).reshape(rows.shape),
    }
    frozen = rows.copy()
    frozen.flags.writeable = False
    layouts["read-only"] = frozen
    for layout in layouts.values():
        assert empty.add_vectors(ids, layout)["refused"] == []
        for searched in layouts.values():
            found = empty.search(searched, k=1)
            assert [result.ids for result in found] == [[own] for own in ids]
            assert np.allclose([result.scores for result in found], 1, atol=2e-3)
    for wrong in (rows > 0, rows.astype(complex), rows.astype(bytes)):
        with pytest.raises(TypeError):
            empty.search(wrong)
    for wrong in (rows[0, 0], rows[None], rows[:, :0]):
        with pytest.raises((ValueError, TypeError)):
            empty.search(np.asarray(wrong))
    assert empty.search(rows[:0]) == []


def test_batches_are_lists_of_results(empty):
    rows = np.eye(3, 384, dtype=np.float32)
    empty.add_vectors(["a", "b", "c"], rows)
    batch = empty.search(rows[:2], k=5)
    assert [result.ids for result in batch] == [empty.search(row, k=5).ids for row in rows[:2]]
    assert len(batch[0][-1:]) == 1 and batch[0][-1].id == batch[0].ids[-1] and len(list(batch[0])) == 3
    with pytest.raises(ValueError, match="parallel"):
        empty.search(rows, parallel=True)


def test_walks_with_a_filter(empty):
    empty.add_vectors(
        [f"{place:04}" for place in range(600)],
        np.tile(np.eye(1, 384, dtype=np.float16), (600, 1)),
        metadata=[{"place": place} for place in range(600)],
    )
    assert [each["id"] for each in empty.iter({"place": {"$in": [3, 299, 598]}})] == ["0003", "0299", "0598"]
    assert list(empty.iter({"place": 1000})) == [] and sum(1 for _ in empty) == 600
    walk = empty.iter()
    empty.delete(next(walk)["id"])
    assert sum(1 for _ in walk) == 599


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def descriptors():
    return len(os.listdir("/proc/self/fd"))


def test_opening_and_closing_leaks_nothing(tmp_path):
    """Neither memory nor files of the process grow with opened and closed indexes."""
    path = tmp_path / "index"
    with ehi.Index.create(path, MODEL, precision="int8") as index:
        index.add_vectors(["a"], np.eye(1, 384, dtype=np.float32))

    def once():
        with ehi.Index.open(path, lazy_encoder=True) as index:
            assert index.search(np.eye(1, 384, dtype=np.float32)[0], k=1).ids == ["a"]
        ehi.Index.open(path, lazy_encoder=True, read_only=True).get("a")

    for _ in range(20):
        once()
    gc.collect()
    before, files = resident(), descriptors()
    for _ in range(100):
        once()
    gc.collect()
    assert descriptors() == files
    assert resident() - before < 4 << 20


def test_what_an_encoder_says(filled):
    encoder = ehi.Encoder(MODEL, precision="int8", dim=64, query_prompt="q: ")
    assert (
        encoder.encode_query("tea").shape == (64,) and encoder.read_text("tea", "query")["tokens"][1] == "q"
    )
    with pytest.raises(ValueError, match="bundle"):
        ehi.Model(MODEL, dim=64)
    filled.flush()
    again = ehi.Index.open(filled.path, model=MODEL, precision="int8", read_only=True)
    assert len(again) == len(filled)


def test_what_is_no_unicode_text_is_refused_and_stands_for_nothing_else(empty):
    empty.add(["a\ufffd\ufffd\ufffd", "b"], ["of tea", "of bikes"])
    for call in (
        lambda: empty.get("a\ud800"),
        lambda: empty.delete("a\ud800"),
        lambda: empty.delete(["a\ud800"]),
        lambda: empty.search("tea \ud800"),
        lambda: ehi.Encoder(MODEL).encode_query("tea \ud800"),
        lambda: empty.add(["c"], ["\ud800"], all_or_none=True),
    ):
        with pytest.raises((ValueError, TypeError)):
            call()
    assert "no Unicode text" in empty.add(["c"], ["\ud800"])["refused"][0]["error"]
    assert len(empty) == 2


def test_what_the_last_callback_raises_is_raised(empty):
    empty.add(["a", "b"], ["of tea", "of bikes"])
    empty.flush()
    empty.delete("b")

    def progress(stage, done, total):
        if done == total:
            raise KeyError(stage)

    with pytest.raises(KeyError, match="compact"):
        empty.compact(progress=progress)


def test_options_and_values_that_cannot_apply_are_errors(empty):
    empty.add([{"id": "tea", "text": "Green tea has caffeine.", "year": 2021, "seen": 1.0}])
    with pytest.raises(TypeError, match="`rerank_depth` goes with `reranker`"):
        empty.search("tea", rerank_depth=3)
    with pytest.raises(TypeError, match="`update` changes fields"):
        empty["tea"] = {}
    with pytest.raises(TypeError, match="known are .*read_only"):
        ehi.Index.open(empty.path, readonly=True)
    with pytest.raises(ehi.InputError, match="pair 0: `grade` is nan; expected a whole number, or no grade"):
        empty.judge([{"question": "tea", "id": "tea", "grade": float("nan")}])
    empty.update("tea", metadata={"seen": float("nan")})
    assert empty["tea"]["metadata"] == {"year": 2021}
    with pytest.raises(ehi.InputError, match="is not finite"):
        empty.search("tea", filter={"year": float("nan")})


def test_modules_are_imported_when_they_are_used():
    code = "import ehi; print(ehi.aio.open.__name__); ehi.nothing"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.stdout == "open\n" and "module 'ehi' has no attribute 'nothing'" in ran.stderr


def test_ctrl_c_ends_the_wait_for_another_writer(empty):
    threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        ehi.Index.open(empty.path, wait=60)
    assert time.monotonic() - begun < 30


def test_texts_are_encoded_once(documents, tmp_path):
    """A second index, even one that is open at the same time, takes its embeddings from the cache."""
    cache = tmp_path / "cache"

    def stored(name, **options):
        index = ehi.Index.create(tmp_path / name, MODEL, precision="int8", cache=cache, **options)
        return index, index.add(documents[:8])

    first, begun = stored("first")
    second, again = stored("second")
    assert begun["cached"] == 0 and again["cached"] == again["passages"] == begun["passages"]
    for one in documents[:8]:
        rows = [index.vectors(one["id"], passages=True) for index in (first, second)]
        np.testing.assert_array_equal(*rows)
    third, whole = stored("third", passages=False)
    assert whole["cached"] < 8
    for index in (first, second, third):
        index.close()
    with ehi.Index.open(tmp_path / "first", cache=str(cache)) as index:
        assert index.add(documents[:8])["cached"] == begun["passages"]
    with pytest.raises(TypeError, match="`cache` is for writing"):
        ehi.Index.open(tmp_path / "first", read_only=True, cache=cache)
    with pytest.raises(TypeError, match="`cache`"):
        ehi.Index.open(tmp_path / "first", cache=3)
