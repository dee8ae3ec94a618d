"""Indexes of real texts with the shipped model."""

import gzip
import json

import pytest

import ehi
from places import MODEL, ROOT, SCIFACT


def lines(path):
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


@pytest.fixture(scope="session")
def documents():
    """200 abstracts."""
    path = next(SCIFACT.glob("corpus.jsonl*"))
    return [
        {"id": line["_id"], "title": line["title"], "text": line["text"], "metadata": {"place": place}}
        for place, line in enumerate(lines(path)[:200])
    ]


@pytest.fixture(scope="session")
def filled(documents, tmp_path_factory):
    """An index of them, shared by tests that do not write."""
    index = ehi.Index.create(tmp_path_factory.mktemp("filled") / "index", MODEL, precision="int8")
    index.add(documents)
    yield index
    index.close()


@pytest.fixture
def empty(tmp_path):
    with ehi.Index.create(tmp_path / "index", MODEL, precision="int8") as index:
        yield index


@pytest.fixture
def example(tmp_path, monkeypatch):
    """Runs the code in the docstring of a module, and gives the names that it leaves."""

    def run(module):
        (tmp_path / "models").symlink_to(ROOT / "models")
        monkeypatch.chdir(tmp_path)
        _, _, code = module.__doc__.partition("\n\n")
        names = {}
        exec(compile(code, module.__name__, "exec"), names)
        return names

    return run
