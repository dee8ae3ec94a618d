"""The examples of docstrings and of README run and give what they say."""

import doctest
import importlib.util
import inspect
import json
import pathlib
import re

import pytest

import ehi
from datasets_ import part, write
from places import ROOT, SCIFACT, SMALL

NAMES = [name for name in ehi.__all__ if not name.startswith("_")]
# Made by calls that have an example, or errors, of which the text is all there is.
WITHOUT = {"Documents", "AutoTune", "SearchResult", "Hit", "Reranker"}


def docstrings():
    """Each public name with its docstring."""
    yield "ehi", ehi.__doc__
    for name in NAMES:
        item = getattr(ehi, name)
        yield name, inspect.getdoc(item)
        if inspect.isclass(item) and not issubclass(item, Exception):
            for member in vars(item):
                if not member.startswith("_"):
                    yield f"{name}.{member}", inspect.getdoc(getattr(item, member))


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with the models of the repository, as the examples expect it."""
    (tmp_path / "models").symlink_to(ROOT / "models")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_public_name_says_what_it_does():
    missing = [name for name, text in docstrings() if not text]
    assert not missing, missing


def test_every_call_that_does_work_has_an_example():
    missing = [
        name
        for name, text in docstrings()
        if callable(getattr(ehi, name, None) or getattr(ehi.Index, name.removeprefix("Index."), None))
        and ">>>" not in text
        and name.partition(".")[0] not in WITHOUT
        and not (inspect.isclass(getattr(ehi, name, None)) and issubclass(getattr(ehi, name), Exception))
    ]
    assert not missing, missing


@pytest.mark.parametrize(("name", "text"), [pair for pair in docstrings() if ">>>" in (pair[1] or "")])
def test_an_example(name, text, place):
    with ehi.Index.create("notes", model="models/scifact-minilm", precision="int8") as index:
        if name != "ehi":
            index.add(
                ["tea", "coffee", "tyre"],
                ["Green tea has caffeine.", "Coffee is roasted.", "How to mend a flat tyre."],
                metadata=[{"year": 2021}, {"year": 2024}, None],
            )
        else:
            index.close()
        names = {"ehi": ehi, "index": index}
        test = doctest.DocTestParser().get_doctest(text, names, name, None, None)
        flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        failures = []
        ran = doctest.DocTestRunner(optionflags=flags, verbose=False).run(test, out=failures.append)
        assert ran.attempted and not ran.failed, "".join(failures)


def test_the_example_of_readme(place, capsys):
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "python" / "README.md").read_text(), re.S)
    exec(compile(code, "README.md", "exec"), {})
    first, second = capsys.readouterr().out.splitlines()
    assert first.split()[1] == "tea" and second.split()[1] == "bikes"
    assert pathlib.Path("my-index").is_dir()


def test_the_notebook(place, monkeypatch):
    pytest.importorskip("pandas", reason="needs pandas")
    (place / "examples").mkdir()
    (place / "examples" / "data").symlink_to(ROOT / "examples" / "data")
    monkeypatch.chdir(place / "examples")
    cells = json.loads((ROOT / "examples" / "notes.ipynb").read_text(encoding="utf-8"))["cells"]
    assert not [cell for cell in cells if cell.get("outputs") or cell.get("execution_count")]
    names = {}
    for number, cell in enumerate(cells):
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), f"cell {number}", "exec"), names)
    with ehi.Index.open("notes") as index:
        assert len(index) == 150 and len(index.judgments()) > 20
        assert index.search(names["question"], k=1)[0].score > 0.5


def program(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_help_desk_learns_from_clicks(tmp_path, capsys):
    desk = program("help_desk")
    articles = tmp_path / "articles.jsonl"
    rows = [{"id": f"article-{n}", "text": text} for n, text in enumerate(["the cat sat", "a dog ran", "the end"])]
    articles.write_text("".join(json.dumps(row) + "\n" for row in rows))
    place = tmp_path / "desk"
    desk.insert(place, articles, SMALL)
    question = "where did the cat go"
    with ehi.Index.open(place) as index:
        index.judge([(question, "article-0", 0)])
    desk.night(place)  # Without a click.
    for id, shown in [("article-2", 1), ("article-2", 3), ("article-0", 2)]:
        desk.click(place, question, id, shown)
    for _ in range(2):
        desk.night(place)
    with ehi.Index.open(place) as index:
        told = {judgment["id"]: judgment for judgment in index.judgments()}
        assert told["article-2"]["weight"] == pytest.approx(1 - 0.9 * 0.7)
        assert told["article-0"]["grade"] == 0 and told["article-0"]["weight"] == 1
        assert index.search(question)[0].id == "article-2"
    capsys.readouterr()
    desk.ask(place, question)
    assert len(capsys.readouterr().out.splitlines()) == 3


def test_encoders_are_compared(tmp_path):
    write(tmp_path / "data", *part(SCIFACT, 20, 80))
    rows = list(program("compare_encoders").compare(tmp_path / "data", [SMALL, SMALL]))
    assert len(rows) == 2 and rows[0][1:3] == rows[1][1:3] and 0 <= rows[0][1] <= 1
