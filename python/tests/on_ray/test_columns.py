"""Builds of files that differ, and what `append` knows of a build."""

import datetime
import json

import pytest

ray = pytest.importorskip("ray", reason='Ray is not installed: pip install "ehi[ray]"')
import pyarrow as pa
import pyarrow.parquet as parquet
from sets import MODEL

import ehi
import ehi.ray
from ehi.ray import pool
from ehi.ray import manifest as manifests
from ehi.ray.storage import connect


def write(path, *records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def found(uri, cache):
    with ehi.ray.open(uri, cache=cache) as shards:
        hits = shards.search("text", 100, mode="dense", exact=True).hits
        return {hit.id: (hit.title, hit.text, hit.metadata) for hit in hits}


def test_files_with_other_columns_and_what_comes_later(cluster, tmp_path):
    uri, cache = tmp_path / "set", tmp_path / "cache"
    first = write(tmp_path / "1.jsonl", {"id": 1, "text": "a", "when": "2020-01-01", "metadata": {"x": 1}})
    second = write(tmp_path / "2.jsonl", {"id": "b", "title": "B", "text": "b", "metadata": {"x": "1"}})
    told = []
    built = ehi.ray.build(
        [first, second],
        MODEL,
        uri,
        shards=1,
        precision="int8",
        progress=lambda stage, done, total: told.append((stage, done, total)),
    )
    assert told[-1] == ("shards", 1, 1) and ("read", 2, None) in told
    expected = {"1": ("", "a", {"when": "2020-01-01", "x": 1}), "b": ("B", "b", {"x": "1"})}
    assert found(uri, cache) == expected
    # It is there, and nothing is done again; anything else is refused.
    again = ehi.ray.build([first, second], MODEL, uri, shards=1, precision="int8")
    assert again == built and ehi.ray.versions(uri) == [1]
    third = write(tmp_path / "3.jsonl", {"id": "c", "text": "c", "metadata": {"y": [1, {"z": None}]}})
    with pytest.raises(ehi.ray.ShardsError, match=f"a set at {uri}, version 1: .*`replace=True`"):
        ehi.ray.build(third, MODEL, uri, shards=1, precision="int8")
    assert connect(uri).list("builds") == [
        own for own in connect(uri).list("builds") if built["name"] in own[0]
    ]
    # Metadata is read as it was by the build.
    ehi.ray.append(uri, third)
    expected["c"] = ("", "c", {"y": [1, {"z": None}]})
    assert found(uri, cache) == expected
    assert ehi.ray.build(third, MODEL, uri, shards=1, precision="int8", replace=True)["version"] == 3
    assert found(uri, cache) == {"c": expected["c"]}
    # What was published by that build was changed since.
    ehi.ray.delete(uri, "none")
    with pytest.raises(ehi.ray.ShardsError, match="version 4"):
        ehi.ray.build(third, MODEL, uri, shards=1, precision="int8")


def test_parquet_with_dates_and_columns_of_other_names(cluster, tmp_path):
    uri, cache = tmp_path / "set", tmp_path / "cache"
    day = datetime.date(2020, 1, 2)
    rows = {"sku": [1, 2], "body": ["a", "b"], "price": [1.5, float("nan")], "when": [day, None], "no": [0] * 2}
    parquet.write_table(pa.table(rows), tmp_path / "a.parquet")
    more = {"sku": [3], "title": ["C"], "body": ["c"], "price": [2.5], "when": [day], "raw": [b"raw"]}
    parquet.write_table(pa.table(more), tmp_path / "b.parquet")
    columns = {"id": "sku", "text": "body", "metadata": ["price", "when"]}
    ehi.ray.build(
        [tmp_path / "a.parquet", tmp_path / "b.parquet"], MODEL, uri, shards=1, precision="int8", **columns
    )
    expected = {
        "1": ("", "a", {"price": 1.5, "when": "2020-01-02"}),
        "2": ("", "b", {"price": None, "when": None}),
        "3": ("C", "c", {"price": 2.5, "when": "2020-01-02"}),
    }
    assert found(uri, cache) == expected
    assert manifests.read(connect(uri))["columns"] == {
        "id": "sku",
        "text": ["body"],
        "title": None,
        "metadata": ["price", "when"],
    }
    # `append` takes the build's columns, those included that no document has.
    ehi.ray.append(uri, write(tmp_path / "c.jsonl", {"sku": 4, "body": "d", "other": 1}))
    assert found(uri, cache) == expected | {"4": ("", "d", None)}
    ehi.ray.append(uri, write(tmp_path / "d.jsonl", {"id": 5, "body": "e", "other": 1}), id="id", metadata=[])
    assert found(uri, cache)["5"] == ("", "e", None)
    with pytest.raises(ehi.DataError, match="e.jsonl:1: there is no id: the field `sku` is missing"):
        ehi.ray.append(uri, write(tmp_path / "e.jsonl", {"id": 5, "body": "e"}))
    with pytest.raises(ehi.DataError, match="no record has the column `none`"):
        ehi.ray.append(uri, write(tmp_path / "f.jsonl", {"sku": 5, "body": "e"}), title="none")
    with pytest.raises(ehi.CancelledError):
        ehi.ray.append(uri, tmp_path / "c.jsonl", name="other", progress=lambda *_: False)


def test_progress_is_a_function_or_true(tmp_path):
    heard = []
    pool.RayJob(tmp_path, progress=lambda *own: heard.append(own)).tell("read", 1, None)
    assert heard == [("read", 1, None)]
    with pytest.raises(ehi.CancelledError):
        pool.RayJob(tmp_path, progress=lambda *_: False).tell("read", 1, None)
    for other in (None, False, True):
        pool.RayJob(tmp_path, progress=other).tell("read", 1, None)


def test_options_are_looked_at_before_the_dataset_is(tmp_path):
    path = write(tmp_path / "1.jsonl", {"id": 1, "text": "a"})
    with pytest.raises(ValueError, match="`englsh`"):
        ehi.ray.build(path, MODEL, tmp_path / "set", words="englsh")
    with pytest.raises(TypeError, match="`progress` is a function of stage"):
        ehi.ray.build(path, MODEL, tmp_path / "set", progress=3)
    assert not (tmp_path / "set").exists()
