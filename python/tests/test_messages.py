"""What a wrong argument is answered with: its name, what it must be, and what it is."""

import numpy as np
import pytest

import ehi
from places import SMALL


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    with ehi.Index.create(tmp_path_factory.mktemp("small") / "index", SMALL) as index:
        index.add(["a", 7], ["tea green", "coffee"])
        yield index


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("index.search('tea', k=2.5)", "`k` must be a whole number, not float"),
        ("index.search('tea', k=True)", "`k` must be a whole number, not bool"),
        ("index.search('tea', k=None)", "`k` must be a whole number, not NoneType"),
        ("index.search('tea', top_k=3)", "unknown keyword `top_k`; known are k, beam, recall"),
        ("index.search('tea', beam=True)", "`beam` must be a whole number, not bool"),
        ("index.search('tea', passages=True)", "`passages` must be a whole number, not bool"),
        ("index.search('tea', recall=True)", "`recall` must be a number, not bool"),
        ("index.search('tea', mode=3)", "`mode` must be a string, not int"),
        ("index.search('tea', exact='yes')", "`exact` must be True or False, not str"),
        ("index.search('tea', bm25=(1,))", "`bm25` must be a pair of the numbers k1 and b"),
        ("index.search('tea', filter=3)", "`filter` must be a dictionary or its JSON, not int"),
        ("index.search('tea', filter={'a': {1}})", "`filter`: `a`: JSON has no value for set"),
        ("index.search('tea', leaves=[1.5])", "`leaves` must be a list of the numbers of leaves"),
        ("index.search(None)", "`query` must be a text, a list or a column of texts, or embeddings, not NoneType"),
        ("index.search(['tea', None])", "`query[1]` must be a string, not NoneType"),
        ("index.explain(None)", "`query` must be a string, not NoneType"),
        ("index.explain('tea', against_exact=3)", "`against_exact` must be True or False, not int"),
        ("index.page(after=5.5)", "`after` must be a string or a whole number, not float"),
        ("index.page(limit='x')", "`limit` must be a whole number, not str"),
        ("index.scoped(None)", "`filter` must be a dictionary or its JSON, not NoneType"),
        ("index.facets(None)", "`fields` must be a string, or a list or a column of strings, not NoneType"),
        ("index.update('a', title=3)", "`title` must be a string, not int"),
        ("index.add(['b'], 'x')", "`texts` must be a list of strings, not one string"),
        ("index.add(3)", "`documents` must be a frame or an iterable of rows, not int"),
        ("index.judge(None)", "`pairs` must be a frame or an iterable of rows, not NoneType"),
        ("index.judgments_of(3, ['a'])", "`question` must be a string, not int"),
        ("index.forget(before='x')", "`before` must be a number, not str"),
        ("index.log_questions('no')", "`on` must be True or False, not str"),
        ("index.learn(config=3)", "`config` must be a dictionary, not int"),
        ("index.learn(choose=3)", "`choose` must be a function, not int"),
        ("index.learn(progress=3)", "`progress` must be a function, or True for bars of tqdm, not int"),
        ("index.snapshot(3)", "`target` must be a string or a path, not int"),
        ("setattr(index, 'half_life', 'x')", "`half_life` must be a number, not str"),
        ("ehi.Index.open(3)", "`path` must be a string or a path, not int"),
        ("ehi.Index.create(path, SMALL, passages=True)", "`passages` must be a pair of tokens and overlap, such as"),
        ("ehi.Index.create(path, SMALL, wait=True)", "`wait` must be a number, not bool"),
        ("ehi.Index.create(path, 3)", "a model must be an ehi.Model, the path of a folder or a SentenceTransformer, not int"),
        ("ehi.Model(SMALL, dim=1.5)", "`dim` must be a whole number, not float"),
        ("ehi.Encoder(SMALL).read_text(3)", "`text` must be a string, not int"),
        ("ehi.Encoder(SMALL).encode_query(['a', None])", "`texts[1]` must be a string, not NoneType"),
        ("ehi.Hit(3)", "`fields` must be a dictionary, not int"),
        ("ehi.train(3, path)", "`base` must be a string or a path, not int"),
    ],
)
def test_a_wrong_type_is_a_type_error(small, tmp_path, call, said):
    with pytest.raises(TypeError) as caught:
        eval(call, {"ehi": ehi, "index": small, "SMALL": SMALL, "path": tmp_path / "new"})
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("index.search('tea', k=-1)", "`k` is -1; it must be a whole number from 0, of at most 64 bits"),
        ("index.search('tea', mode='x')", "`mode` is `x`; known are best, dense, lexical, hybrid"),
        ("index.search('tea', beam='x')", "`beam` is `x`; it must be a whole number or `all`"),
        ("index.search('tea', encoder='x')", "`encoder` is `x`; known are fast, full"),
        ("ehi.Index.open(path, precision='int4')", "`precision` is `int4`; known are f32, int8"),
        ("ehi.Encoder(SMALL, precision='int4')", "`precision` is `int4`; known are f32, int8"),
        ("ehi.Index.create(path, SMALL, passages=(5, -1))", "`passages` is -1; it must be a whole number from 0"),
        ("ehi.evaluate(index, path, encoder='x')", "`encoder` is `x`; known are fast, full"),
        ("ehi.Hit({})", "the fields of a hit: missing field `id`"),
    ],
)
def test_a_wrong_value_is_an_input_error(small, tmp_path, call, said):
    with pytest.raises(ehi.InputError) as caught:
        eval(call, {"ehi": ehi, "index": small, "SMALL": SMALL, "path": tmp_path / "new"})
    assert str(caught.value).startswith(said)


def test_a_column_is_no_table(small):
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    for column in (pandas.Series(["x", "y"]), polars.Series(["x", "y"])):
        with pytest.raises(TypeError, match="`documents` must be .*not Series|ids without texts"):
            small.add(column)


def test_a_frame_of_judgments_has_its_columns(small):
    pandas = pytest.importorskip("pandas")
    with pytest.raises(ehi.InputError, match="`pairs` has the columns q, doc; expected are `question` and `id`"):
        small.judge(pandas.DataFrame({"q": ["tea?"], "doc": ["a"]}))
    with pytest.raises(ehi.InputError, match=r"`id` is 7.0; .*astype\(\"Int64\"\)"):
        small.judge(pandas.DataFrame({"question": ["tea?"], "id": [7.0]}))


def test_ids_that_have_become_floats(small):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"id": [8, None], "text": ["coffee", "tea"]})
    for own in small.add(frame)["refused"][:1]:
        assert own["error"].startswith("`id` is 8.0; it must be a string or a whole number") and 'astype("Int64")' in own["error"]
    with pytest.raises(TypeError, match=r"`ids\[0\]` must be a string or a whole number .*astype"):
        small.get(frame.id)
    assert small.add(frame.astype({"id": "Int64"}))["inserted"] == 1 and small.delete(8) == 1


@pytest.mark.parametrize("id", [7, np.int64(7), np.array(7), "7", np.str_("7")])
def test_an_id_is_a_string_or_a_whole_number_in_every_call(small, id):
    assert id in small and small[id]["id"] == small.get(id)["id"] == small.get([id])[0]["id"] == "7"
    assert small.update(id, metadata={"n": 1})["refused"] == []
    assert small.vectors(id).shape == small.vectors([id])[0].shape
    assert [own["id"] for own in small.page(after=id)] == ["a"]
    assert small.judge([("coffee?", id)])["without_document"] == 0
    assert small.judgments_of("coffee?", [id])[0]["id"] == "7" and small.forget([("coffee?", id)]) == 1
    assert small.scoped({}).get(id)["id"] == "7"
    assert small.delete(id) == 1 and small.add([id], ["coffee"])["inserted"] == 1
    del small[id]
    assert id not in small and small.add([{"id": id, "text": "coffee"}])["inserted"] == 1
    with pytest.raises(TypeError, match="`id` must be a string or a whole number, not bool"):
        small[True]
    with pytest.raises(KeyError, match="99"):
        small[99]


def test_two_ids_of_one_record(small):
    rows = [{"_id": "8", "id": 8, "text": "tea"}, {"_id": "x", "id": "y", "text": "tea"}]
    summary = small.add(rows)
    assert summary["statuses"] == ["inserted", "inserted"] and small["8"]["metadata"] is None
    assert small["x"]["metadata"] == {"id": "y"}
    assert small.delete(["8", "x"]) == 2
