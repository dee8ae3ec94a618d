"""Records as documents, by the rules of `ehi insert`; what needs no cluster."""

import datetime
import decimal
import gzip
import json

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow", reason="Ray is not installed: pip install './python[ray]'")
import pyarrow.parquet as parquet

import ehi.ray
from ehi.ray import documents, spool

UTC = datetime.timezone.utc
DAY = datetime.datetime(2020, 1, 2, 3, 4, 5)


def document(record, **named):
    return documents.document_of(documents.given(**named), record)


@pytest.mark.parametrize(
    "record,named,expected",
    [
        ({"id": "a", "text": "b"}, {}, {"id": "a", "text": "b"}),
        ({"id": 7, "text": 1.10}, {}, {"id": "7", "text": "1.1"}),
        ({"_id": "a", "id": 1, "text": "b"}, {}, {"id": "a", "text": "b", "metadata": {"id": 1}}),
        # All other fields are the metadata, together with those of an object `metadata`.
        (
            {"id": "a", "title": "t", "text": "b", "year": 1, "lang": None, "metadata": {"place": None}},
            {},
            {"id": "a", "title": "t", "text": "b", "metadata": {"year": 1, "place": None}},
        ),
        ({"id": "a", "text": "b", "metadata": {}}, {}, {"id": "a", "text": "b"}),
        # As a text only where it is said that it is JSON.
        (
            {"id": "a", "text": "b", "metadata": '{"x": 1}'},
            {},
            {"id": "a", "text": "b", "metadata": {"metadata": '{"x": 1}'}},
        ),
        (
            {"id": "a", "text": "b", "metadata": '{"x": 1}', "y": 2},
            {"metadata": "metadata"},
            {"id": "a", "text": "b", "metadata": {"x": 1}},
        ),
        (
            {"id": "a", "text": "b", "own": {"x": 1}, "y": 2},
            {"metadata": "own"},
            {"id": "a", "text": "b", "metadata": {"x": 1}},
        ),
        (
            {"id": "a", "text": "b", "own": {"x": 1}, "y": 2},
            {"metadata": ["own"]},
            {"id": "a", "text": "b", "metadata": {"own": {"x": 1}}},
        ),
        ({"id": "a", "text": "b", "y": 2}, {"metadata": []}, {"id": "a", "text": "b"}),
        # BEIR's lines.
        (
            {"_id": "a", "text": "b", "metadata": '{"x": 1}'},
            {},
            {"id": "a", "text": "b", "metadata": {"x": 1}},
        ),
        (
            {"sku": "a", "name": "n", "x": "1", "y": "2", "metadata": {"z": 3}},
            {"id": "sku", "title": "name", "text": ["x", "none", "y"]},
            {"id": "a", "title": "n", "text": "1\n\n2", "metadata": {"z": 3}},
        ),
        (
            {"text": "b", "metadata": {"sku": "a", "z": 3}},
            {"id": "sku"},
            {"id": "a", "text": "b", "metadata": {"z": 3}},
        ),
    ],
)
def test_what_a_record_becomes(record, named, expected):
    assert document(record, **named) == expected


@pytest.mark.parametrize(
    "record,named,why",
    [
        ({"text": "b"}, {}, "no id in `_id`; there are `text`"),
        ({"id": True, "text": "b"}, {}, "the id in `id` is a boolean"),
        ({"id": "\ud800", "text": "b"}, {}, "surrogates"),
        ({"id": "a", "body": "b"}, {}, "the document `a`: there is no text in `text`; there are `id`"),
        ({"id": "a", "text": ["b"]}, {}, "the document `a`: `text` is a list; it is a text or a number"),
        ({"id": "a", "text": "b", "title": True}, {}, "the document `a`: `title` is a boolean"),
        ({"id": "a", "text": "b", "x": 1, "metadata": {"x": 2}}, {}, "`x` is a field, and one of `metadata`"),
        ({"id": "a", "text": "b", "lang": "en"}, {"metadata": "lang"}, "the document `a`: .*`lang` is a t"),
        ({"_id": "a", "text": "b", "metadata": [1]}, {}, "the document `a`: .*`metadata` is a list"),
    ],
)
def test_records_that_make_no_document(record, named, why):
    with pytest.raises(ehi.ray.DatasetError, match=why):
        document(record, **named)


@pytest.mark.parametrize("named", [{"id": "a", "text": "a"}, {"metadata": ["a", "a"]}, {"text": []}])
def test_columns_that_cannot_be_named(named):
    with pytest.raises(ValueError):
        documents.given(**named)


def test_columns_are_found_in_upper_and_lower_case():
    found = documents.resolve(documents.given(), ["ID", "Text", "TITLE", "year"])
    assert found == {"id": "ID", "text": ["Text"], "title": "TITLE", "metadata": ["year"]}
    with pytest.raises(ehi.ray.DatasetError, match="no column `Id` for the id; there are `id`"):
        documents.resolve(documents.given(id="Id"), ["id", "text"])


@pytest.mark.parametrize(
    "column,expected",
    [
        ([1.5, float("nan"), float("inf"), None], [1.5, None, None, None]),
        (pa.array([0.1, None], pa.float32()), [0.1, None]),
        (pa.array([[0.1, float("nan")]], pa.list_(pa.float32())), [[0.1, None]]),
        ([datetime.date(2020, 1, 2)], ["2020-01-02"]),
        ([DAY, DAY.replace(microsecond=500_000)], ["2020-01-02T03:04:05", "2020-01-02T03:04:05.500"]),
        ([DAY.replace(tzinfo=UTC)], ["2020-01-02T03:04:05Z"]),
        (pa.array([1], pa.timestamp("ns")), ["1970-01-01T00:00:00.000000001"]),
        ([datetime.time(3, 4)], ["03:04:00"]),
        ([datetime.timedelta(seconds=90.5)], ["PT90.5S"]),
        ([decimal.Decimal("1.10"), decimal.Decimal("0E-10")], ["1.1000000000", "0.0000000000"]),
        # What another row has, a row has not.
        ([{"a": 1}, {"b": [datetime.date(2020, 1, 2)]}], [{"a": 1}, {"b": ["2020-01-02"]}]),
        (pa.array(["a", "b"]).dictionary_encode(), ["a", "b"]),
    ],
)
def test_values_are_what_they_are_in_json(column, expected):
    column = column if isinstance(column, pa.Array) else pa.array(column)
    assert documents.lists_of(column) == expected
    json.dumps(expected, allow_nan=False)


def test_values_that_are_not_read():
    for kind in (pa.binary(), pa.list_(pa.large_binary()), pa.map_(pa.string(), pa.int64())):
        with pytest.raises(documents.ValueKindError, match="which is not read"):
            documents.lists_of(pa.array([], kind))
    with pytest.raises(documents.ValueKindError, match="of the type object"):
        documents.plain({"a": object()})
    assert documents.plain({"a": np.arange(2), "b": 2**70}) == {"a": [0, 1], "b": float(2**70)}


def test_files_of_json_are_read_as_they_are(tmp_path):
    lines = [{"id": 1, "when": "2020-01-01", "x": {"a": 1}}, {"id": "1", "x": {"b": None}}]
    text = "\n\n".join(json.dumps(line) for line in lines)
    (tmp_path / "a.jsonl").write_text("\ufeff" + text, encoding="utf-8")
    (tmp_path / "b.json").write_text(json.dumps(lines, indent=1), encoding="utf-8")
    (tmp_path / "c.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    for name in ("a.jsonl", "b.json", "c.jsonl.gz"):
        assert [record for record, _, _ in spool.records(str(tmp_path / name))] == lines


@pytest.mark.parametrize(
    "data,why",
    [
        (b'{"id": "a"}\n{"id"', "a.jsonl:2: malformed JSON"),
        (b'{"x": NaN}', "a.jsonl:1: malformed JSON: NaN is not a number"),
        (b"3\n", "a.jsonl:1: not a JSON object"),
        (b"[1]", "a.jsonl: record 1: not a JSON object"),
        (b"[{]", "a.jsonl: malformed JSON"),
        (b'{"id": "\xff"}', "a.jsonl:1: malformed JSON: .*utf-8"),
        (gzip.compress(b"{}" * 50)[:-9], "a.jsonl: "),
    ],
)
def test_files_that_cannot_be_read(tmp_path, data, why):
    (tmp_path / "a.jsonl").write_bytes(data)
    with pytest.raises(ehi.ray.DatasetError, match=why):
        list(spool.records(str(tmp_path / "a.jsonl")))


def test_what_is_no_dataset(tmp_path):
    for name in ("a.jsonl", "b.parquet", "c.csv"):
        (tmp_path / name).write_text("damaged")
    with pytest.raises(ehi.ray.DatasetError, match="c.csv: Parquet and JSON lines"):
        spool.paths_of(tmp_path)
    with pytest.raises(ehi.ray.DatasetError, match="not both in one call"):
        spool.paths_of([tmp_path / "a.jsonl", tmp_path / "b.parquet"])
    with pytest.raises(ehi.ray.DatasetError, match="b.parquet: "):
        list(spool.tables(str(tmp_path / "b.parquet"), list))
    frames = pytest.importorskip("pandas").DataFrame({"id": ["a"]})
    for given, why in (
        (frames, "not a DataFrame; make one with `ray.data.from_pandas"),
        (pa.table({"id": ["a"]}), "not a Table; .*`from_arrow"),
        ([{"id": "a", "text": "b"}], "not a list; .*`from_items"),
        (3, "paths of files, not a int"),
        ([], "there are no paths"),
    ):
        with pytest.raises(ehi.ray.DatasetError, match=why):
            spool.paths_of(given)


def test_of_parquet_only_the_columns_that_are_used_are_read(tmp_path):
    table = pa.table({"id": ["a"], "raw": [b"x"], "year": [1]})
    parquet.write_table(table, tmp_path / "a.parquet")
    found = list(spool.tables(str(tmp_path / "a.parquet"), lambda names: [n for n in names if n != "raw"]))
    assert [(names, batch.schema.names) for names, batch in found] == [(["id", "raw", "year"], ["id", "year"])]
