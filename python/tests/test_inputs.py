"""What `add`, `search` and `judge` take: frames, tables, columns and rows of other people's packages."""

import datetime
import io
import math
import re
import uuid
import warnings
from collections import Counter
from decimal import Decimal

import numpy as np
import pytest

import ehi
from ehi import shards
from places import MODEL

UTC = datetime.timezone.utc
DAY = datetime.date(2024, 1, 5)
NOON = datetime.datetime(2024, 1, 5, 12, 30)


def stored(index):
    return {own["id"]: own for own in index}


def frame(pandas):
    return pandas.DataFrame(
        {
            "id": [1, 2, 3],
            "title": ["Tea", None, "Bikes"],
            "text": ["Green tea has caffeine.", "Coffee is roasted.", "How to mend a tyre."],
            "year": [2021.0, math.nan, 2024.0],
            "when": pandas.to_datetime(["2024-01-05 12:30", None, "2024-01-06 00:00"]),
            "zone": pandas.to_datetime(["2024-01-05 12:30", None, "2024-01-06 00:00"]).tz_localize("Europe/Berlin"),
            "lasts": pandas.to_timedelta([90.5, None, -1], unit="s"),
            "small": np.array([0.1, 2, 3], np.float32),
            "kind": pandas.Categorical(["drink", None, "sport"]),
        }
    )


EXPECTED = {
    "1": {
        "id": "1",
        "title": "Tea",
        "text": "Green tea has caffeine.",
        "metadata": {
            "year": 2021.0,
            "when": "2024-01-05T12:30:00.000000",
            "zone": "2024-01-05T11:30:00.000000Z",
            "lasts": "PT90.5S",
            "small": 0.1,
            "kind": "drink",
        },
    },
    "2": {"id": "2", "title": "", "text": "Coffee is roasted.", "metadata": {"small": 2.0}},
}


def digits_apart(documents):
    """The digits below a second depend on the unit that a version of a package prefers."""
    for own in documents.values():
        for name in ("when", "zone"):
            if text := (own["metadata"] or {}).get(name):
                own["metadata"][name] = text[:19] + "Z" * text.endswith("Z")
    return documents


def test_a_frame_of_pandas_is_documents(empty):
    pandas = pytest.importorskip("pandas")
    given = frame(pandas)
    assert empty.add(given)["inserted"] == 3
    found = digits_apart(stored(empty))
    assert {id: found[id] for id in EXPECTED} == digits_apart({**EXPECTED})
    # A named index is a column, as in a file of Parquet.
    assert empty.add(given.set_index("id"))["replaced"] == 3 and digits_apart(stored(empty)) == found
    upper = given.rename(columns={"id": "ID", "text": "Text"})
    assert empty.add(upper)["replaced"] == 3 and digits_apart(stored(empty)) == found
    with pytest.raises(ehi.InputError, match="no column `text` .* found: id, title, body, .*rename one"):
        empty.add(given.rename(columns={"text": "body"}))
    with pytest.raises(ehi.InputError, match="two columns are called `year`"):
        empty.add(given.rename(columns={"when": "year"}))
    assert empty.add(given[:0])["statuses"] == []


def test_columns_of_a_frame_are_documents(empty):
    pandas = pytest.importorskip("pandas")
    given = frame(pandas)
    metadata = given[["year", "when", "zone", "lasts", "small", "kind"]].to_dict("records")
    texts = given.text.where(given.id != 3, None)
    summary = empty.add(ids=given.id, texts=texts, titles=given.title, metadata=metadata)
    assert summary["inserted"] == 3
    found = digits_apart(stored(empty))
    assert found["2"]["metadata"] == {"small": 2.0} and found["3"]["text"] == ""
    assert found["1"]["metadata"] == digits_apart({**EXPECTED})["1"]["metadata"] | {
        "small": pytest.approx(0.1)
    }
    with pytest.raises(TypeError, match="`metadata` must be a list or a column .*, not DataFrame"):
        empty.add(given.id, given.text, metadata=given[["year"]])


def test_tables_are_read_as_files_of_them(empty):
    """Tables of Arrow, and the frame that they were made of, give what their files give."""
    pandas, pa = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    given = frame(pandas)
    given["when"] = given["when"].astype("datetime64[ns]")
    table = pa.Table.from_pandas(given)
    table = table.append_column("price", pa.array([Decimal("9.99"), None, Decimal("10.00")]))
    given["price"] = [Decimal("9.99"), None, Decimal("10.00")]
    given["nested"] = [[1, None], {"a": None, "b": DAY}, NOON]
    file = io.BytesIO()
    parquet.write_table(table, file)
    expected = {}
    for own in shards.read(file.getvalue()):
        fields = {name: value for name, value in own.get("metadata", {}).items() if value is not None}
        expected[own["id"]] = {"title": "", **own, "metadata": fields}
    assert expected["1"]["metadata"]["when"] == "2024-01-05T12:30:00.000000000"
    empty.add(given)
    nested = [own["metadata"].pop("nested") for own in stored(empty).values()]
    assert nested == [[1, None], {"a": None, "b": "2024-01-05"}, "2024-01-05T12:30:00.000000"]
    found = stored(empty)
    for own in found.values():
        own["metadata"].pop("nested")
    assert found == expected
    others = [table, pa.RecordBatchReader.from_batches(table.schema, table.to_batches())]
    others += [table.to_batches()[0]]
    polars = pytest.importorskip("polars")
    others += [polars.from_arrow(table)]
    for other in others:
        empty.delete(filter={})
        assert empty.add(other)["inserted"] == 3 and stored(empty) == expected, type(other)
    with pytest.raises(TypeError, match="LazyFrame.*collect"):
        empty.add(polars.from_arrow(table).lazy())
    with pytest.raises(ehi.InputError, match="no column `text`.*rename one"):
        empty.add(table.drop_columns(["text"]))
    with pytest.raises(ehi.InputError, match="the column `x` is of the type Binary"):
        empty.add(table.append_column("x", pa.array([b"a", b"b", b"c"])))
    summary = empty.add(pa.table({"id": ["a", None, "c"], "text": ["of tea", "of bikes", None]}))
    assert [(own["position"], own["id"], own["field"]) for own in summary["refused"]] == [
        (1, None, "id"),
        (2, "c", "text"),
    ]
    assert all("give it a value" in own["error"] for own in summary["refused"])
    assert summary["statuses"] == ["inserted", "refused", "refused"]


def test_a_dataset_is_documents(empty):
    datasets = pytest.importorskip("datasets")
    rows = {"id": [1, 2], "text": ["of tea", "of bikes"], "when": [NOON, None], "label": [0, 1]}
    assert empty.add(datasets.Dataset.from_dict(rows))["inserted"] == 2
    assert empty.get("1")["metadata"] == {"when": "2024-01-05T12:30:00.000000", "label": 0}
    assert empty.get("2")["metadata"] == {"label": 1}
    streamed = datasets.Dataset.from_dict(rows).to_iterable_dataset()
    assert empty.add(streamed)["replaced"] == 2


def test_what_gives_dictionaries_is_documents(empty):
    rows = [{"id": place, "text": f"text {place}", "n": place, "none": None} for place in range(5)]
    assert empty.add(row for row in rows)["inserted"] == 5
    assert empty.get("3") == {"id": "3", "title": "", "text": "text 3", "metadata": {"n": 3}}
    assert empty.add(iter([{"_id": "a", "text": "x", "metadata": {"b": None, "c": math.nan}}]))["inserted"] == 1
    assert empty.get("a")["metadata"] == {"b": None}
    assert empty.add(list(empty))["replaced"] == 6

    def broken():
        yield {"id": "new", "text": "x"}
        raise KeyError("gone")

    with pytest.raises(KeyError, match="gone"):
        empty.add(broken())
    assert "new" not in empty
    for given, said in (
        (["a", "b"], r"ids without texts: add\(ids, texts\)"),
        ({"id": "a", "text": "x"}, "put a single one in a list"),
        ("abc", "not str"),
        (3, "`documents` must be a frame or an iterable of rows, not int"),
        (np.array(["a"]), "ids without texts"),
    ):
        with pytest.raises(TypeError, match=said):
            empty.add(given)


def test_values_have_one_form(empty):
    values = {
        "day": (DAY, "2024-01-05"),
        "time": (NOON, "2024-01-05T12:30:00.000000"),
        "zone": (NOON.replace(tzinfo=datetime.timezone(datetime.timedelta(hours=2))), "2024-01-05T10:30:00.000000Z"),
        "clock": (datetime.time(9, 5), "09:05:00.000000"),
        "span": (datetime.timedelta(days=1, microseconds=5), "PT86400.000005S"),
        "decimal": (Decimal("9.990"), 9.99),
        "whole": (Decimal("1E+3"), 1000),
        "exact": (Decimal("0.12345678901234567890"), "0.12345678901234567890"),
        "np_int": (np.int16(3), 3),
        "np_bool": (np.bool_(True), True),
        "np_f32": (np.float32(0.1), 0.1),
        "np_f64": (np.float64(0.1), 0.1),
        "np_str": (np.str_("x"), "x"),
        "np_day": (np.datetime64("2024-01-05"), "2024-01-05"),
        "np_ns": (np.datetime64("2024-01-05T12:30:00.5", "ns"), "2024-01-05T12:30:00.500000000"),
        "np_span": (np.timedelta64(1500, "ms"), "PT1.5S"),
        "array": (np.array([1.5, math.nan], np.float32), [1.5, None]),
        "tuple": ((1, (DAY,)), [1, ["2024-01-05"]]),
        "dictionary": ({"a": math.nan, "b": {"c": DAY}}, {"a": None, "b": {"c": "2024-01-05"}}),
    }
    missing = {"nan": math.nan, "none": None, "np_nat": np.datetime64("NaT"), "d_nan": Decimal("NaN")}
    fields = {name: value for name, (value, _) in values.items()} | missing
    expected = {name: value for name, (_, value) in values.items()}
    assert empty.add([{"id": "a", "text": "x", **fields}])["refused"] == []
    assert empty.add(["b"], ["x"], metadata=[fields])["refused"] == []
    assert empty.get("a")["metadata"] == expected
    assert empty.get("b")["metadata"] == expected | {"none": None}
    assert empty.ids({"day": {"$gte": DAY}, "np_int": np.int64(3)}) == ["a", "b"]
    with pytest.raises(ValueError, match="`n`: nan is not finite"):
        empty.count({"n": math.nan})
    with pytest.warns(UserWarning, match="infinite values left out: 2, the first at position 1"):
        empty.add(["c", "d"], ["x", "y"], metadata=[None, {"n": math.inf, "m": -math.inf, "o": 1}])
    assert empty.get("d")["metadata"] == {"o": 1}


def messy(pandas):
    """Rows with everything that a frame may hold, and what is wrong with them: the field, or nothing."""
    good = [
        {},
        {"value": math.nan},
        {"value": pandas.NaT},
        {"value": pandas.NA},
        {"value": None},
        {"value": pandas.Timestamp("2024-01-05 12:30")},
        {"value": pandas.Timestamp("2024-01-05 12:30", tz="Asia/Tokyo")},
        {"value": np.float32(0.5)},
        {"value": np.int64(7)},
        {"value": [1, [2, [3, {"a": ()}]]]},
        {"value": Decimal("1.50")},
        {"value": Decimal("0.1234567890123456789")},
        {"text": 12.5},
        {"text": None, "title": "a title"},
    ]
    deep = []
    for _ in range(200):
        deep = [deep]
    bad = [
        ("id", {"id": None}),
        ("id", {"id": math.nan}),
        ("id", {"id": 1.5}),
        ("id", {"id": ""}),
        ("id", {"id": "x" * 100_000}),
        ("id", {"id": True}),
        ("text", {"text": None}),
        ("text", {"text": math.nan}),
        ("text", {"text": " "}),
        ("text", {"text": ["a", "list"]}),
        ("text", {"text": b"bytes"}),
        ("text", {"text": "a lone \ud800"}),
        ("title", {"title": {"a": 1}}),
        ("value", {"value": {1, 2}}),
        ("value", {"value": b"bytes"}),
        ("value", {"value": "\udfff"}),
        ("value", {"value": 1 << 70}),
        ("value", {"value": uuid.UUID(int=1)}),
        ("value", {"value": {3: "a key"}}),
        ("value", {"value": deep}),
        ("value", {"value": object()}),
    ]
    return [(None, row) for row in good], bad


def test_a_messy_frame_loses_nothing(empty):
    pandas = pytest.importorskip("pandas")
    good, bad = messy(pandas)
    kinds = good + bad
    rows, wrong = [], {}
    for place in range(10_000):
        # Most have nothing to encode: what is stored is not what this is about.
        field, own = kinds[place % len(kinds)]
        rows.append({"id": place, "title": "", "text": "a", "value": 1, **own})
        if field:
            wrong[place] = field
    given = pandas.DataFrame({name: pandas.Series([row[name] for row in rows], dtype=object) for name in rows[0]})
    summary = empty.add(given)
    stored = summary["inserted"] + summary["replaced"] + summary["superseded"]
    assert stored + len(summary["refused"]) == len(rows) == len(summary["statuses"])
    assert {own["position"]: own["field"] for own in summary["refused"]} == wrong
    assert Counter(summary["statuses"]) == {"inserted": stored, "refused": len(wrong)}
    for own in summary["refused"]:
        id = rows[own["position"]]["id"]
        assert own["error"] and (own["field"] == "id" or own["id"] == str(id)), own
    reasons = {own["position"] % len(kinds): own["error"] for own in summary["refused"][: len(bad)]}
    for number, said in enumerate(
        ["there is no id; give", "there is no id", "string or a whole number", "empty", "ids have 1 to", "boolean"]
        + ["there is no text; give", "there is no text", "neither title nor text", "string or a number"]
        + [r"value.decode\(\)", "surrogates not allowed", "string or a number", r"sorted\(value\)"]
        + [r"value.decode\(\)", "surrogates not allowed", r"64 bits; str\(value\)", r"UUID; str\(value\)"]
        + ["a key of a dictionary must be a string, not int", "nested", "no value for object"],
        start=len(good),
    ):
        assert re.search(said, reasons[number]), (said, reasons[number])
    assert len(empty) == stored
    with pytest.raises(ehi.InputError, match="position 14, `id`: there is no id"):
        empty.add(given, all_or_none=True)
    with pytest.raises(ehi.InputError) as caught:
        empty.add(["fine", "p"], ["x", None], all_or_none=True)
    assert "position 1 (`p`), `text`" in str(caught.value) and caught.value.kind == "BadInput"
    assert len(empty) == stored and "fine" not in empty


def test_refused_rows_keep_their_places_with_embeddings(empty):
    rows = np.eye(5, 384)
    rows[3] = np.nan
    metadata = [{"a": 1}, {"a": {1}}, None, {}, math.nan]
    summary = empty.add_vectors(["a", "b", "c", "d", 5], rows, metadata=metadata)
    assert [(own["position"], own["id"], own["field"]) for own in summary["refused"]] == [
        (1, "b", "metadata"),
        (3, "d", "vectors"),
    ]
    assert summary["statuses"] == ["inserted", "refused", "inserted", "refused", "inserted"]
    for place, id in ((0, "a"), (2, "c"), (4, "5")):
        assert empty.search(rows[place], k=1, mode="dense").ids == [id]


def test_embeddings_of_any_form(empty):
    rows = np.eye(3, 384)
    forms = [rows, rows.astype(int), rows.tolist(), list(rows), tuple(map(tuple, rows.tolist())), rows.astype(">f4")]
    pandas = pytest.importorskip("pandas")
    forms += [pandas.Series(rows.tolist()), pandas.Series(list(rows))]
    if pa := pytest.importorskip("pyarrow"):
        forms += [pa.array(rows.tolist())]
    for form in forms:
        assert empty.add_vectors(["a", "b", "c"], form)["refused"] == []
        assert [found.ids for found in empty.search(form, k=1, mode="dense")] == [["a"], ["b"], ["c"]]
    for one in (rows[1], rows[1].tolist(), tuple(rows[1]), pandas.Series(rows[1]), rows[1].astype(np.int8)):
        assert empty.search(one, k=1, mode="dense").ids == ["b"]
        assert empty.scoped({}).search(one, k=1, mode="dense").ids == ["b"]
    assert empty.search([]) == [] and empty.search(rows[:0]) == []
    for bad, error in (
        (rows.astype(complex), TypeError),
        (rows > 0, TypeError),
        ([[1.0], [1.0, 2.0]], ehi.InputError),
        ([[1.0], "tea"], (TypeError, ehi.InputError)),
        ([object()], TypeError),
        (None, TypeError),
        ({"query": "tea"}, TypeError),
        (np.datetime64("2024-01-05"), TypeError),
    ):
        with pytest.raises(error, match="`query`"):
            empty.search(bad)
    with pytest.raises(ehi.InputError, match="3 ids with an array"):
        empty.add_vectors(["a", "b", "c"], rows[0])


def test_questions_of_any_form(empty):
    empty.add(["tea", "tyre"], ["Green tea has caffeine.", "How to mend a tyre."])
    questions = ["caffeine in tea?", "mend a tyre"]
    forms = [questions, tuple(questions), np.array(questions), np.array(questions, object), iter(questions)]
    if hasattr(np.dtypes, "StringDType"):
        forms += [np.array(questions, np.dtypes.StringDType())]
    pandas = pytest.importorskip("pandas")
    forms += [pandas.Series(questions), pandas.Series(questions, dtype="string")]
    polars, pa = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    forms += [polars.Series(questions), pa.array(questions), pa.chunked_array([questions])]
    for form in forms:
        assert [found.ids for found in empty.search(form, k=1)] == [["tea"], ["tyre"]], type(form)
    assert empty.search(np.str_(questions[0]), k=1).ids == ["tea"]
    assert [own["id"] for own in empty.get(pandas.Series(["tea", "tyre"]))] == ["tea", "tyre"]
    with pytest.raises(TypeError, match=r"`query\[1\]` must be a string, not NoneType"):
        empty.search(["tea", None])


def test_judgments_of_any_form(empty):
    asked, id = "is there caffeine in tea?", "tea"
    empty.add([id, "7"], ["Green tea has caffeine.", "Seven."])
    pandas = pytest.importorskip("pandas")
    polars, pa = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    columns = {"question": [asked, "b?"], "id": [id, "7"], "grade": [2, 0], "weight": [0.5, 1.0], "time": [9, 8]}
    assert empty.judge(pandas.DataFrame(columns))["added"] == 2
    all = empty.judgments()
    assert [(own["grade"], own["weight"], own["time"]) for own in all] == [(0, 1.0, 8), (2, 0.5, 9)]
    told = [own | also for own, also in zip(all, empty.standings())]
    grades = pandas.DataFrame(columns | {"grade": [2.0, 0.0], "time": [9.9, 8]})
    for form in (all, told, pa.table(columns), polars.DataFrame(columns), iter(all), grades):
        assert empty.judge(form)["replaced"] == 2 and empty.judgments() == all
    for form in ([[asked, id]], [(asked, id, 1.0)], [[asked, id, np.int64(1)]], [(asked, id, None)]):
        assert empty.judge(form)["replaced"] == 1 and empty.judgments_of(asked, [id])[0]["grade"] == 1
    lacks = pandas.DataFrame({"question": ["b?"], "id": [7], "weight": [math.nan]})
    assert empty.judge(lacks)["replaced"] == 1
    assert empty.learnable([[asked, id]])["held_out"] == 0 and empty.fuse(all)["fusion"] is None
    assert empty.learn(all)["decision"] == "too_few" and len(shards.Judgments(all)) == 2
    assert empty.forget(all[:1]) == 1 and empty.forget([[asked, id]]) == 1
    for bad, error, said in (
        ([(asked, id, 0.5)], ValueError, "pair 0: `grade` is 0.5; expected a whole number"),
        ([(asked, id), (asked, id, "x")], ValueError, "pair 1: `grade` is 'x'; expected a whole number"),
        ([(asked, 1.5)], ValueError, "`id` is 1.5; expected a string or a whole number"),
        ([(None, id)], ValueError, "pair 0 has no `question`"),
        ([{"question": asked, "id": id, "time": "now"}], ValueError, "seconds since 1970"),
        ([{"question": asked, "id": id, "user": 3}], ValueError, "a field `user`; known are question, id, grade"),
        ([asked], TypeError, "pair 0 is none of"),
        ((asked, id), TypeError, "pair 0 is none of"),
        ([(asked,)], TypeError, "pair 0 is none of"),
        ("tea", TypeError, "`pairs` must be a frame or an iterable of rows"),
        ({"question": asked}, TypeError, "put a single one in a list"),
        (pandas.DataFrame({"question": [asked], "document": [id]}), ValueError, "the columns question, document; expected are"),
        (3, TypeError, "`pairs`"),
    ):
        for call in (empty.judge, empty.learnable, empty.fuse, empty.learn, empty.forget):
            with pytest.raises(error, match=said):
                call(bad)
    assert empty.judgments() == []


def test_a_half_life_is_in_days(empty):
    empty.half_life = 90
    assert empty.half_life == 90
    with pytest.raises(ValueError, match="`half_life` is -1.0; it must be a number of days|`half_life` is -1;"):
        empty.half_life = -1


def test_numbers_out_of_range_are_named(empty, tmp_path):
    empty.add(["a"], ["tea"])
    huge = 10**30
    for name, call in (
        ("k", lambda value: empty.search("tea", k=value)),
        ("k", lambda value: empty.scoped({}).search("tea", value)),
        ("k", lambda value: empty.explain("tea", k=value)),
        ("beam", lambda value: empty.search("tea", beam=value)),
        ("passages", lambda value: empty.search("tea", passages=value)),
        ("per_group", lambda value: empty.search("tea", group_by="x", per_group=value)),
        ("rerank_depth", lambda value: empty.search("tea", rerank_depth=value)),
        ("most", lambda value: empty.facets("x", most=value)),
        ("most", lambda value: empty.scoped({}).facets("x", most=value)),
        ("most", empty.asked),
        ("limit", lambda value: empty.page(limit=value)),
        ("leaf", empty.leaves),
        ("terms", lambda value: empty.leaves(terms=value)),
        ("seed", lambda value: empty.tune(seed=value)),
        ("leaves", lambda value: empty.tune(leaves=value)),
        ("passes", lambda value: empty.distil(passes=value)),
        ("bytes", lambda value: empty.search("tea")[0].snippet("tea", value)),
        ("beams", lambda value: ehi.evaluate(empty, tmp_path, beams=[value])),
        ("dim", lambda value: ehi.Encoder(MODEL, dim=value)),
        ("k", lambda value: shards.check(value)),
    ):
        for bad in (-1, np.int64(-1), huge):
            with pytest.raises(ValueError, match=f"`{name}` is {bad}; it must be a whole number from 0") as caught:
                call(bad)
            assert isinstance(caught.value, ehi.InputError), name
        with pytest.raises(ehi.InputError if name == "beam" else TypeError, match=name):
            call("three")
        with pytest.raises(TypeError, match=name):
            call(1.5)
    assert empty.search("tea", k=np.int32(1)).ids == ["a"] and empty.search("tea", beam=np.int64(1)).ids == ["a"]


def test_options_out_of_range_are_value_errors(empty, tmp_path):
    assert issubclass(ehi.InputError, ValueError) and issubclass(ehi.FilterError, ValueError)
    assert issubclass(ehi.InputError, ehi.Error)
    for call in (
        lambda: empty.search("tea", mode="x"),
        lambda: empty.search("tea", recall=2),
        lambda: empty.search("tea", k=0),
        lambda: empty.count({"a": {"$no": 1}}),
        lambda: ehi.Index.create(tmp_path / "new", MODEL, similarity="x"),
        lambda: ehi.Index.create(tmp_path / "new", MODEL, wait=-1),
        lambda: ehi.Index.create(tmp_path / "new", MODEL, words="klingon"),
        lambda: ehi.train(MODEL, tmp_path / "new"),
        lambda: empty.forget(),
        lambda: empty.add(["a"], ["x", "y"]),
    ):
        with pytest.raises(ehi.InputError) as caught:
            call()
        assert isinstance(caught.value, ValueError) and isinstance(caught.value.kind, str)
    for name, call in (
        ("mode", lambda: empty.search("tea", mode=3)),
        ("recall", lambda: empty.search("tea", recall="much")),
        ("exact", lambda: empty.search("tea", exact=3)),
        ("bm25", lambda: empty.search("tea", bm25=3)),
        ("reranker", lambda: empty.search("tea", reranker="x")),
        ("words", lambda: ehi.Index.create(tmp_path / "new", MODEL, words=3)),
        ("passages", lambda: ehi.Index.create(tmp_path / "new", MODEL, passages=3)),
        ("wait", lambda: ehi.Index.create(tmp_path / "new", MODEL, wait="long")),
        ("questions", lambda: empty.calibrate("a question")),
    ):
        with pytest.raises(TypeError, match=f"`{name}`"):
            call()


def test_a_model_is_trained_on_a_frame(tmp_path):
    pandas = pytest.importorskip("pandas")
    documents = pandas.DataFrame({"id": [1], "text": ["tea"], "n": [1]})
    with pytest.raises(ehi.TrainError):
        ehi.train(MODEL, tmp_path / "mine", documents=documents, pairs=[["tea?", 2]])
    with pytest.raises(ehi.InputError, match=r"position 0 \(`1`\), `text`: there is no text"):
        ehi.train(MODEL, tmp_path / "mine", documents=documents.assign(text=None), pairs=[])
