"""Datasets as documents, by the rules of `ehi insert`; what needs no cluster."""

import gzip
import json

import pytest

pytest.importorskip("ray", reason='Ray is not installed: pip install "ehi[ray]"')
import pyarrow as pa
import pyarrow.parquet as parquet

import ehi
import ehi.ray
from ehi.ray import documents, spool
from ehi.ray.storage import connect


def read(source, **named):
    return list(documents.Reader(source, documents.given(**named)))


def written(path, *records):
    path.write_text("\n".join(json.dumps(record) for record in records), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    "record,named,expected",
    [
        ({"id": "a", "text": "b", "year": 1, "metadata": {"x": 1}}, {}, {"metadata": {"year": 1, "x": 1}}),
        # One column is the metadata, an object or its JSON.
        ({"id": "a", "text": "b", "metadata": '{"x": 1}', "y": 2}, {"metadata": "metadata"}, {"metadata": {"x": 1}}),
        ({"id": "a", "text": "b", "metadata": {"x": 1}, "y": 2}, {"metadata": "metadata"}, {"metadata": {"x": 1}}),
        ({"id": "a", "text": "b", "own": {"x": 1}, "y": 2}, {"metadata": "own"}, {"metadata": {"x": 1}}),
        ({"id": "a", "text": "b", "own": '{"x": NaN}', "y": 2}, {"metadata": "own"}, {"metadata": {"x": None}}),
        ({"id": "a", "text": "b", "own": None, "y": 2}, {"metadata": "own"}, {}),
        ({"id": "a", "text": "b", "own": {"x": 1}}, {"metadata": ["own"]}, {"metadata": {"own": {"x": 1}}}),
        ({"id": "a", "text": "b", "y": 2}, {"metadata": []}, {}),
        ({"sku": "a", "body": "b"}, {"id": "sku", "text": "body"}, {}),
    ],
)
def test_what_a_record_becomes(tmp_path, record, named, expected):
    assert read(written(tmp_path / "a.jsonl", record), **named) == [{"id": "a", "text": "b", **expected}]


@pytest.mark.parametrize("own", ["no JSON", "[1]", 3, '"\\ud800"', '{"x": "\\ud800"}', "[" * 100_000])
def test_metadata_that_cannot_be_used_is_named(tmp_path, own):
    path = written(tmp_path / "a.jsonl", {"id": "a", "text": "b", "own": own})
    with pytest.raises(ehi.DataError, match="the document `a`: the metadata in `own` cannot be used"):
        read(path, metadata="own")


@pytest.mark.parametrize("named", [{"id": "a", "text": "a"}, {"metadata": ["a", "a"]}, {"id": 3}])
def test_columns_that_cannot_be_named(named):
    with pytest.raises((ehi.DataError, TypeError)):
        documents.given(**named)


def divided(tmp_path, table, **named):
    """What the blocks of a dataset become, and the names that none of their records has."""
    divider = spool._Divider(connect(tmp_path), documents.given(**named), 1, "builds/a")
    groups = [json.loads(row["group"][0]) for row in divider.block(table)]
    files = [file for group in groups for file in group["files"] if file]
    return list(documents.spooled(connect(tmp_path), files)), groups[-1]["unseen"] if groups else None


def test_a_block_is_read_and_what_is_null_is_missing(tmp_path):
    table = pa.table({"id": [1, 2], "text": ["a\u2028\nb", "c"], "x": [0.5, None], "y": [{"z": 1}, None]})
    expected = [
        {"id": "1", "text": "a\u2028\nb", "metadata": {"x": 0.5, "y": {"z": 1}}},
        {"id": "2", "text": "c"},
    ]
    assert divided(tmp_path, table) == (expected, [])
    # Other blocks may have the columns that this one lacks.
    expected[0]["metadata"] = {"x": 0.5}
    assert divided(tmp_path, table, metadata=["x", "none"]) == (expected, ["none"])
    assert divided(tmp_path, table[:0]) == ([], None)
    for named, why in (({"id": "none"}, "no id: .*`none`"), ({"text": "none"}, "no text: .*`none`")):
        with pytest.raises(ehi.DataError, match=why):
            divided(tmp_path, table, **named)


def test_files_are_found_and_read_whatever_their_format(tmp_path):
    record = {"id": "a", "text": "b"}
    written(tmp_path / "a.jsonl", record)
    (tmp_path / "b.json.gz").write_bytes(gzip.compress(json.dumps([record]).encode()))
    (tmp_path / "c.csv").write_text("id,text\na,b\n")
    parquet.write_table(pa.table({"id": ["a"], "text": ["b"]}), tmp_path / "d.parquet")
    (tmp_path / "_SUCCESS").touch()
    paths = spool.paths_of(tmp_path)
    assert [path.rsplit("/", 1)[1] for path in paths] == ["a.jsonl", "b.json.gz", "c.csv", "d.parquet"]
    assert all(read(path) == [record] for path in paths)
    assert spool.paths_of([tmp_path / "c.csv", tmp_path / "?.jsonl"]) == [paths[2], paths[0]]
    (tmp_path / "e.parquet").write_bytes(b"PAR1 damaged")
    with pytest.raises(ehi.DataError, match="e.parquet: "):
        read(str(tmp_path / "e.parquet"))


def test_what_is_no_dataset(tmp_path):
    frames = pytest.importorskip("pandas").DataFrame({"id": ["a"]})
    for given, why in (
        (frames, "not a DataFrame; make one with `ray.data.from_pandas"),
        (pa.table({"id": ["a"]}), "not a Table; .*`from_arrow"),
        ([{"id": "a", "text": "b"}], "not a list; .*`from_items"),
        (3, "paths of files, not a int"),
        ([], "there are no paths"),
        (tmp_path / "none.jsonl", "there is no file"),
    ):
        with pytest.raises(ehi.DataError, match=why):
            spool.paths_of(given)
