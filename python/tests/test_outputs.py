"""What calls return: it can be shown, compared, kept and handed on."""

import collections.abc
import copy
import dataclasses
import pickle
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import ehi
from places import MODEL

QUESTION = "is there caffeine in tea?"
TEA = "Green tea has caffeine, less than coffee has, and more than herbs."


@pytest.fixture
def teas(empty):
    empty.add(
        ["tea", "tyre", "<b>"],
        [TEA, "How to mend a flat tyre.", "A <script>alert(1)</script> & tea."],
        titles=["Tea", "", "<i>"],
        metadata=[{"year": 2021, "tags": ["a"]}, None, {"year": "long ago"}],
    )
    return empty


def test_a_hit_says_what_was_found(teas):
    hit = teas.search(QUESTION)[0]
    assert repr(hit) == f"Hit(id='tea', score={hit.score:.4f}, title='Tea', text='{TEA[:40].rstrip()}…')"
    ids = teas.search(QUESTION, k=1, ids_only=True)[0]
    assert repr(ids) == f"Hit(id='tea', score={ids.score:.4f})"


def test_a_change_of_a_hit_stays(teas):
    hit = teas.search(QUESTION)[0]
    hit.metadata["x"] = 1
    hit.metadata["tags"].append("b")
    hit.passages[0]["seen"] = True
    assert hit.metadata == {"year": 2021, "tags": ["a", "b"], "x": 1} == hit.as_dict()["metadata"]
    assert hit.passages[0]["seen"] and hit.as_dict()["passages"] == hit.passages
    hit.as_dict()["metadata"]["x"] = 2
    assert hit.metadata["x"] == 1 and hit != teas.search(QUESTION)[0]
    assert teas.get("tea")["metadata"] == {"year": 2021, "tags": ["a"]}


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda own: pickle.loads(pickle.dumps(own))])
def test_hits_and_results_can_be_copied(teas, again):
    for options in ({}, {"ids_only": True}, {"mode": "lexical"}, {"group_by": "year"}):
        result = teas.search(QUESTION, **options)
        if not options:
            result[0].metadata["x"] = {1, 2}
        other = again(result)
        assert other == result and list(other) == list(result) and again(result[0]) == result[0]
        assert other.question == QUESTION and other.ids == result.ids and other.stats == result.stats
        assert other.request == result.request and other.signs == result.signs and other.notes == []
        assert other[0].snippet(QUESTION) == result[0].snippet(QUESTION)
        assert [hit.as_dict() for hit in other] == result.to_dicts()
    shared = copy.copy(result[0])
    assert shared is not result[0] and shared.group == result[0].group


def test_a_pickled_result_can_be_read_elsewhere(teas, tmp_path):
    result = teas.search([QUESTION, "tyre"])
    (tmp_path / "results").write_bytes(pickle.dumps(result))
    program = f"""
        import pathlib, pickle
        tea, tyre = pickle.loads(pathlib.Path({str(tmp_path / "results")!r}).read_bytes())
        print(tea[0].id, tea[0].metadata, tyre.ids[0], tea.question)
        """
    said = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True)
    assert said.stdout == f"tea {{'tags': ['a'], 'year': 2021}} tyre {QUESTION}\n", said.stderr


def test_hits_are_compared_by_content(teas):
    one, other = teas.search(QUESTION), teas.search(QUESTION)
    assert one == other and one[0] == other[0] != one[1] and one != teas.search("tyre") and one[0] != "tea"
    with pytest.raises(TypeError, match="unhashable"):
        hash(one)
    assert hash(one[0]) == hash(other[0])
    assert ehi.Hit(one[0].as_dict()) == one[0]
    with pytest.raises(ValueError, match="fields of a hit: missing field `score`"):
        ehi.Hit({"id": "a"})


def test_a_result_is_a_sequence(teas):
    result = teas.search(QUESTION)
    assert isinstance(result, collections.abc.Sequence)
    assert result.index(result[1]) == 1 and result.count(result[1]) == 1 and result[1] in result
    assert list(reversed(result)) == result[::-1] and "tea" not in result
    with pytest.raises(ValueError):
        result.index(result[0], 1)
    match result:
        case [first, *rest]:
            assert first.id == "tea" and len(rest) == 2


def test_a_result_shows_its_hits(filled, documents):
    result = filled.search(documents[0]["title"], k=12)
    lines = repr(result).splitlines()
    assert lines[0] == "SearchResult([" and lines[1] == f"  {result[0]!r}," and len(lines) == 13
    assert lines[11:] == ["  … 2 more hits", "])"]
    assert repr(filled.search("a", filter={"place": -1})) == "SearchResult([])"


def test_a_hit_is_a_dataclass_to_others(teas):
    hit = teas.search(QUESTION)[0]
    fields = dataclasses.asdict(hit)
    assert dataclasses.is_dataclass(hit) and fields["id"] == "tea" and fields["metadata"] == hit.metadata
    assert [own.name for own in dataclasses.fields(hit)][:4] == ["id", "score", "title", "text"]
    assert set(fields) <= set(hit.as_dict())


def test_tables(teas):
    pandas = pytest.importorskip("pandas", reason="needs pandas")
    result = teas.search(QUESTION)
    table = result.to_pandas()
    assert list(table) == ["id", "score", "title", "text", "metadata", "dense", "lexical"]
    assert list(table["id"]) == result.ids and list(table["score"]) == list(result.scores)
    assert table["score"].dtype == "float32" and table["metadata"][0] == {"year": 2021, "tags": ["a"]}
    assert list(pandas.DataFrame(result)["text"]) == list(table["text"])
    assert "group" in teas.search(QUESTION, group_by="year").to_pandas()
    empty = teas.search("xyzzy", mode="lexical").to_pandas()
    assert len(empty) == 0 and list(empty) == ["id", "score", "title", "text", "metadata"]


def test_tables_of_arrow(teas):
    pytest.importorskip("pyarrow", reason="needs pyarrow")
    table = teas.search(QUESTION, group_by="year", k=3).to_arrow()
    assert table.column_names == ["id", "score", "title", "text", "metadata", "dense", "lexical", "group"]
    rows = {row["id"]: row for row in table.to_pylist()}
    assert rows["tea"]["metadata"] == '{"tags": ["a"], "year": 2021}' and rows["tyre"]["metadata"] is None
    assert rows["<b>"]["group"] == '"long ago"' and table.schema.field("score").type == "float"
    assert teas.search("xyzzy", mode="lexical").to_arrow().num_rows == 0


def test_a_table_says_what_to_install(teas, monkeypatch):
    for name, call in (("pandas", "to_pandas"), ("pyarrow", "to_arrow")):
        monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(ImportError, match=f"pip install {name}"):
            getattr(teas.search(QUESTION), call)()


def test_a_notebook_shows_passages(teas):
    shown = teas.search(QUESTION)._repr_html_()
    assert "Green <mark>tea</mark> has <mark>caffeine</mark>, less" in shown and "width:20.0em" in shown
    assert "&lt;script&gt;" in shown and "<script" not in shown and "<i>" not in shown and "<b></b>" not in shown
    assert len(shown) < 2000
    row = ehi.Encoder(MODEL, precision="int8").encode_query("tyre")
    by_row = teas.search(row, k=1)
    assert by_row.question is None and "How to mend a flat tyre." in by_row._repr_html_()
    assert "tyre" in teas.search(row, k=1, ids_only=True)._repr_html_()
    assert "no hits" in teas.search("xyzzy", mode="lexical")._repr_html_()


def test_objects_say_what_they_are(teas, tmp_path):
    path, hash = str(teas.path), teas.model.hash[:8]
    model = f"dim=384, has_tree=True, hash='{hash}…'"
    assert repr(teas) == f"Index({path!r}, 3 documents, {model})"
    teas.flush()
    with ehi.Index.open(path, read_only=True, lazy_encoder=True) as reader:
        assert repr(reader) == f"Index({path!r}, 3 documents, {model}, read_only=True)"
    assert repr(reader) == f"Index({path!r}, closed)"
    assert repr(ehi.Model(MODEL)) == f"Model({str(MODEL)!r}, {model})"
    encoder = ehi.Encoder(MODEL, precision="int8")
    assert repr(encoder) == f"Encoder({str(MODEL)!r}, precision='int8', dim=384, max_tokens=256)"
    shown = repr(teas).replace("Index(", "ScopedIndex(").replace("3 documents", "1 documents")[:-1]
    assert repr(teas.scoped({"year": 2021})) == f'{shown}, filter={{"year":2021}})'
    with teas.auto_tune() as tuning:
        assert repr(tuning) == f"AutoTune({path!r}, 0 tunings)"
    assert repr(tuning) == f"AutoTune({path!r}, closed)"


def test_an_index_says_how_it_is_opened(empty):
    for arguments in ((), ("path",), ("path", MODEL)):
        with pytest.raises(TypeError, match=r"Index.create\(path, model\) makes .* Index.open\(path\) opens"):
            ehi.Index(*arguments)
    with pytest.raises(TypeError, match="unknown keyword `read_only`"):
        ehi.Index.create("path", MODEL, read_only=True)
    for name, value in (("wait", 1), ("durability", "none"), ("codes", True)):
        with pytest.raises(TypeError, match=f"`{name}` is for writing; leave it out with read_only=True"):
            ehi.Index.open(empty.path, read_only=True, **{name: value})
    empty.flush()
    assert ehi.Index.open(empty.path, read_only=True, wait=None, lazy_encoder=True).is_read_only


def test_an_index_is_a_mapping(teas):
    assert teas["tea"] == teas.get("tea") and "tea" in teas and len(teas) == 3
    del teas["tea"]
    assert "tea" not in teas and len(teas) == 2 and teas.search(QUESTION, k=3).ids[0] == "<b>"
    for call in (lambda: teas["tea"], lambda: teas.__delitem__("tea")):
        with pytest.raises(KeyError, match="tea"):
            call()
    with pytest.raises(TypeError):
        teas[0.5]


def test_metadata_are_updated_without_encoding(teas):
    before = teas.vectors("tea")
    summary = teas.update("tea", metadata={"year": 2025, "tags": None, "seen": {"by": None}})
    assert summary["replaced"] == 1 and summary["cut"]["documents"] == 0
    assert teas["tea"]["metadata"] == {"year": 2025, "seen": {"by": None}} and teas["tea"]["text"] == TEA
    assert (teas.vectors("tea") == before).all()
    assert teas.search(QUESTION, filter={"year": 2025}).ids == ["tea"] and not teas.ids({"year": 2021})
    teas.update("tyre", title="Tyres", text="A tyre is round.")
    assert teas["tyre"] == {"id": "tyre", "title": "Tyres", "text": "A tyre is round.", "metadata": None}
    assert (teas.vectors("tea") == before).all()


def test_a_wrong_update_changes_nothing(teas):
    with pytest.raises(ehi.InputError, match='no document "none"') as raised:
        teas.update("none", metadata={})
    assert raised.value.kind == "NoDocument"
    for wrong in ({"metadata": [1]}, {"text": 1}, {"title": b"a"}, {"metadata": {"a": object()}}, {}):
        with pytest.raises(TypeError, match="metadata|text|title|JSON"):
            teas.update("tea", **wrong)
    with pytest.raises(ehi.InputError, match="neither title nor text"):
        teas.update("tyre", text="")
    with pytest.raises(ehi.InputError, match="infinite"):
        teas.update("tea", metadata={"year": float("inf")})
    teas.flush()
    with ehi.Index.open(teas.path, read_only=True, lazy_encoder=True) as reader:
        with pytest.raises(ehi.StoreError) as raised:
            reader.update("tea", metadata={"a": 1})
        assert raised.value.kind == "ReadOnly"
    assert teas["tea"]["metadata"] == {"year": 2021, "tags": ["a"]}


def test_a_long_update_warns_of_what_is_not_read(tmp_path):
    with ehi.Index.create(tmp_path / "index", MODEL, precision="int8", passages=False) as index:
        index.add(["a"], ["A text."])
        with pytest.warns(UserWarning, match="longer than the model reads"):
            index.update("a", text="a long text " * 300)


def test_stored_vectors_come_back(empty):
    encoder = ehi.Encoder(MODEL, precision="int8")
    empty.add(["a", "b", "long"], ["Tea.", "A tyre.", "A tea is hot. " * 200])
    rows = empty.vectors(["b", "a"])
    assert rows.shape == (2, encoder.dim) and rows.dtype == np.float32
    assert np.allclose(rows, encoder.encode_document(["A tyre.", "Tea."]), atol=2e-3)
    assert (empty.vectors("a") == rows[1]).all() and empty.vectors([]).shape == (0, encoder.dim)
    passages = empty.vectors("long", passages=True)
    assert len(passages) > 1 and [own.shape[0] for own in empty.vectors(["a", "long"], passages=True)] == [
        1,
        len(passages),
    ]
    mean = passages.mean(axis=0)
    assert np.allclose(empty.vectors("long"), mean / np.linalg.norm(mean), atol=1e-5)
    with pytest.raises(ehi.InputError, match='no document "x", "y"'):
        empty.vectors(["x", "a", "y"])
    with pytest.raises(TypeError, match="ids"):
        empty.vectors([1.5])


def test_stages_are_words(empty, documents):
    heard = set()
    empty.add(documents[:10], progress=lambda stage, *_: heard.add(stage))
    empty.verify(progress=lambda stage, *_: heard.add(stage))
    assert heard == {"insert", "verify"}


def test_adapters_say_what_they_are(teas):
    langchain = pytest.importorskip("ehi.langchain", reason="needs LangChain")
    assert repr(langchain.EhiVectorStore(teas)) == f"EhiVectorStore({teas!r})"
    assert repr(langchain.EhiEmbeddings(MODEL)).startswith("EhiEmbeddings(Encoder('")


def test_stores_of_haystack_say_what_they_are(tmp_path):
    haystack = pytest.importorskip("ehi.haystack", reason="needs Haystack")
    store = haystack.EhiDocumentStore(tmp_path / "index", MODEL)
    assert repr(store) == f"EhiDocumentStore({store.index!r})" and "0 documents" in repr(store)
    store.index.close()
