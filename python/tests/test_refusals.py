"""What is refused, what reaches the caller, and how results are shown."""

import pickle
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest

import ehi
import ehi.aio
from places import SMALL


@pytest.fixture
def small(tmp_path):
    with ehi.Index.create(tmp_path / "index", SMALL) as index:
        index.add(["a", "b"], ["tea green", "coffee"], metadata=[{"n": 1}, {"n": 2}])
        yield index


class Raising:
    def __init__(self, error):
        self.error = error

    def isoformat(self):
        raise self.error


@pytest.mark.parametrize("error", [MemoryError(), KeyboardInterrupt(), RuntimeError("broken")])
def test_only_errors_of_data_refuse_a_row(small, error):
    with pytest.raises(type(error)):
        small.add([{"id": "c", "text": "tea", "when": Raising(error)}])
    with pytest.raises(type(error)):
        small.judge([("tea?", "a", Raising(error))])
    summary = small.add([{"id": "c", "text": "tea", "when": Raising(ValueError("no time"))}])
    assert summary["refused"][0]["error"] == "no time"

    class Rows:
        def __iter__(self):
            raise error

    for call in (small.add, small.judge, small.get, small.search):
        with pytest.raises(type(error)):
            call(Rows())


@pytest.mark.parametrize("error", [KeyboardInterrupt(), KeyError("gone")])
def test_what_a_producer_of_arrow_raises(small, error):
    pa = pytest.importorskip("pyarrow")
    schema = pa.schema({"id": pa.string(), "text": pa.string()})

    def batches():
        yield pa.record_batch([["c"], ["tea"]], schema=schema)
        raise error

    with pytest.raises(type(error)):
        small.add(pa.RecordBatchReader.from_batches(schema, batches()))
    assert len(small) == 2


def test_a_null_row_of_structs(small):
    pa = pytest.importorskip("pyarrow")
    rows = pa.array([{"id": "c", "text": "tea"}, None])
    for given in (rows, pa.chunked_array([rows])):
        summary = small.add(given)
        assert summary["refused"][0]["error"] == "a row must be a dictionary, not NoneType"
        assert summary["statuses"][1] == "refused"


def test_long_durations_and_long_doubles(small):
    fields = {"long": np.timedelta64(10**18, "s"), "short": np.timedelta64(-1, "m"), "number": np.longdouble(0.5)}
    assert small.add([{"id": "c", "text": "tea", **fields, "odd": np.longdouble("nan")}])["refused"] == []
    assert small["c"]["metadata"] == {"long": "PT1000000000000000000S", "short": "-PT60S", "number": 0.5}
    (refused,) = small.add([{"id": "c", "text": "tea", "x": np.timedelta64(1, "Y")}])["refused"]
    assert "the unit `Y` has no length" in refused["error"]


@pytest.mark.parametrize("name", ["parallel", "unlogged", "rerank_depth"])
def test_explain_takes_no_option_that_cannot_apply(small, name):
    with pytest.raises(TypeError, match=f"`{name}` does not apply to `explain`"):
        small.explain("tea", **{name: True})


def test_a_mistyped_folder_is_not_looked_for_on_the_hub(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models").mkdir()
    for path in ("models/nothing", "./modle"):
        with pytest.raises(ehi.ModelError, match=f"there is no folder {path}$"):
            ehi.Model(path)


def test_an_update_that_changes_nothing_commits_nothing(small):
    for change in ({"metadata": {"n": 1}}, {"text": "tea green"}, {"metadata": {"none": None}}, {"metadata": {}}):
        before = small.stats()
        assert small.update("a", **change)["replaced"] == 0
        assert small.stats() == before
    assert small.update("a", metadata={"n": 3})["replaced"] == 1


def test_a_field_to_group_by_that_no_document_has(small):
    said = ["no document has the field `m` in its metadata"]
    assert small.search("tea", group_by="m").notes == said
    assert small.scoped({"n": 1}).search("tea", group_by="m").notes == said
    assert small.search("tea", group_by="n").notes == []


def test_a_duration_of_arrow_that_is_too_long(small):
    pa = pytest.importorskip("pyarrow")
    lasts = pa.array([2**62, 5], pa.int64()).cast(pa.duration("s"))
    summary = small.add(pa.table({"id": ["x", "y"], "text": ["tea", "tea"], "lasts": lasts}))
    assert summary["statuses"] == ["refused", "inserted"] and small["y"]["metadata"] == {"lasts": "PT5S"}
    assert "a duration of more than 292 million years" in summary["refused"][0]["error"]


def test_hits_are_hashable(small):
    hit, again = (small.search("tea", k=1)[0] for _ in range(2))
    assert len({hit, again, *small.search("coffee tea")}) >= 2 and hash(hit) == hash(again)
    assert hash(pickle.loads(pickle.dumps(hit))) == hash(hit)


def test_what_objects_are_shown_as(small):
    summary = small.add([{"id": "c", "text": "tea"}, {"id": "d", "text": " "}, {"id": "e", "text": None}])
    assert repr(summary).startswith("InsertSummary(inserted=1, passages=1, refused=2: position 1 ('d'): ")
    assert "; position 2 ('e'): there is no text" in repr(summary)
    assert repr(small.update("c", title="T")) == "InsertSummary(inserted=0, replaced=1, passages=1)"
    assert summary == dict(summary) == pickle.loads(pickle.dumps(summary))
    nothing = small.search("tea", filter={"nothing": 1})
    assert repr(nothing) == f"SearchResult([], notes={nothing.notes!r})" and nothing.notes
    scoped = small.scoped({"n": 1})
    assert repr(scoped).startswith(f"ScopedIndex('{small.path}', 1 documents, dim=24") and '{"n":1}' in repr(scoped)
    assert repr(iter(small)) == f"Documents({small!r})"
    assert repr(small.iter({"n": 1})) == f'Documents({small!r}, filter={{"n":1}})'
    assert repr(ehi.aio.AsyncIndex(small)) == f"Async{small!r}"
    assert repr(ehi.aio.AsyncIndex(small).scoped({"n": 1})) == f"Async{scoped!r}"


def test_a_scoped_index_is_a_mapping_of_its_documents(small):
    scoped = small.scoped({"n": 1})
    assert len(scoped) == 1 and "a" in scoped and "b" not in scoped
    assert scoped["a"] == small["a"] == scoped.get("a")
    with pytest.raises(KeyError, match="b"):
        scoped["b"]
    small.close()
    assert repr(scoped).endswith(", closed)")


def test_ctrl_c_ends_a_batch_of_long_questions_at_once(filled):
    program = f"""
        import sys, time, ehi
        index = ehi.Index.open({str(filled.path)!r}, read_only=True)
        questions = [" ".join(f"protein {{n}} of mice {{m}}" for m in range(60)) for n in range(300)]
        index.search(questions[:2])
        print("go", flush=True)
        try:
            index.search(questions)
        except KeyboardInterrupt:
            sys.exit(7)
    """
    filled.flush()
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "go\n"
    time.sleep(1)
    begun = time.monotonic()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    took = time.monotonic() - begun
    assert process.returncode == 7
    print(f"{took:.2f} s")
    assert took < 5
