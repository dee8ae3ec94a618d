"""The types of reports are those of real ones, and those of the page of JSON."""

import re
import types
import typing

import pytest

import ehi
from ehi import reports
from places import MODEL, ROOT


def optional(kind):
    """Without None."""
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        (kind,) = (own for own in typing.get_args(kind) if own is not type(None))
    return kind


def differs(found, kind, at="report"):
    """How a value differs from its type."""
    if kind is typing.Any or (found is None and optional(kind) is not kind):
        return []
    kind = optional(kind)
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if typing.is_typeddict(kind):
        hints = typing.get_type_hints(kind)
        wrong = [f"{at}.{name}" for name in found.keys() - hints.keys() | kind.__required_keys__ - found.keys()]
        pairs = [(found[name], hint, f"{at}.{name}") for name, hint in hints.items() if name in found]
        return wrong + [each for pair in pairs for each in differs(*pair)]
    if origin is list:
        return [each for own in found for each in differs(own, *arguments, f"{at}[]")]
    if origin is typing.Literal:
        return [] if found in arguments else [f"{at} is {found!r}"]
    if origin is dict:
        return [each for own in found.values() for each in differs(own, arguments[1], f"{at}{{}}")]
    kinds = (int, float) if kind is float else kind
    return [] if isinstance(found, kinds) else [f"{at} is {found!r}"]


def test_a_difference_is_seen():
    kind = dict[str, list[reports.FacetValue | None]]
    assert differs({"a": [{"value": 1, "documents": 2}, None]}, kind) == []
    wrong = differs({"a": [{"value": 1}, {"value": 1, "documents": "x", "more": 1}]}, kind)
    assert wrong == ["report{}[].documents", "report{}[].more", "report{}[].documents is 'x'"]


@pytest.mark.filterwarnings("ignore:documents longer than the model reads")
@pytest.mark.parametrize("passages", [(200, 40), False])
def test_real_reports_have_the_declared_fields(tmp_path, documents, passages):
    judged = [(document["title"], document["id"]) for document in documents[:120]]
    with ehi.Index.create(tmp_path / "index", MODEL, precision="int8", passages=passages) as index:
        added = index.add([*documents, {"id": "bad", "text": ""}, documents[0]])
        assert not differs(added, reports.InsertSummary) and added["refused"]
        assert not differs(index.stats(), reports.Stats)
        assert not differs(index[documents[0]["id"]], reports.Document)
        assert not differs(index.judge(judged[:5]), reports.JudgeSummary)
        assert not differs(index.update(documents[1]["id"], title="A title"), reports.InsertSummary)
        assert not differs(index.facets(["place", "none"]), dict[str, reports.Facet])
        question = judged[0][0]
        for options in ({"mode": "hybrid"}, {"mode": "dense", "beam": 4}, {"mode": "lexical"}):
            result = index.search(question, **options)
            assert not differs(result.to_dicts(), list[reports.HitFields])
            assert not differs(result.ranked_by, reports.RankedBy)
            assert not differs(result.signs, reports.Signs) and not differs(result.stats, reports.SearchStats)
            explained = index.explain(question, **options, against_exact=options["mode"] != "lexical")
            assert not differs(explained, reports.Explanation)
        assert not differs(result[0].snippet(question), reports.Snippet)
        health = index.health()
        assert not differs(health, reports.Health) and health["documents_routing"]["recent"]
        assert not differs(index.learn(), reports.Learned)
        index.flush()
        assert not differs(index.verify(), reports.Verification)


def test_advice_is_in_words(empty):
    empty.add([str(number) for number in range(60)], [f"Green tea {number}" for number in range(60)])
    health = empty.health()
    advice = health["advice"]
    remedy = "`ehi tune` makes a tree anew and routes 60 documents, in less than a minute"
    assert health["remedies"][0]["sentence"] == remedy
    assert [own["kind"] for own in advice] == ["uncertain_documents"]
    assert advice[0]["sentence"].startswith("the tree is unsure of new documents (median entropy")
    assert not differs(advice, list[reports.Advice])
    assert empty.learn([("is tea green?", "1")])["sentence"].startswith("Too few questions are judged")


def paths(kind, at):
    """The fields of a type as the page writes them."""
    kind = optional(kind)
    if typing.get_origin(kind) is list:
        return paths(typing.get_args(kind)[0], f"{at}[]")
    if typing.is_typeddict(kind):
        hints = typing.get_type_hints(kind).items()
        return {each for name, own in hints for each in paths(own, f"{at}.{name}" if at else name)}
    return {at}


PAGES = {
    "search": ("hits[]", reports.HitFields),
    "stats": ("", reports.Stats),
    "health": ("health", reports.Health),
    "explain": ("", reports.Explanation),
    "verify": ("", reports.Verification),
    "learn": ("", reports.Learned),
    "judge": ("", reports.JudgeSummary),
}
# Of the program alone.
PROGRAM = {
    "search": r"(?!hits\[\])|hits\[\]\.snippet",
    "stats": "judgments|recall|fusion|query_encoder",
    "health": "words|sound|problem_count|warning_count",
    "judge": "notes|fused",
}


@pytest.mark.parametrize("command", PAGES)
def test_the_page_documents_the_declared_fields(command):
    page = (ROOT / "docs" / "json.md").read_text()
    _, _, section = page.partition(f"\n## {command}\n")
    rows = re.findall(r"^\| `([^`]+)` \| ([^|]+) \|", section.partition("\n## ")[0], re.M)
    rows = [(field, kind) for field, kind in rows if not re.match(PROGRAM.get(command, "$"), field)]
    assert rows
    declared = paths(PAGES[command][1], PAGES[command][0])
    # Fields that another section has.
    elsewhere = tuple(field for field, kind in rows if kind.startswith("as "))
    own = {field for field in declared if not field.startswith(elsewhere)}
    documented = {field for field, kind in rows if not kind.startswith("as ")}
    more = {field for field in documented if field.startswith(elsewhere)}
    assert own == documented - more and more <= declared
