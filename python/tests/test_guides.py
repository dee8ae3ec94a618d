"""The blocks of Python in the guides run, in the order of each page."""

import re
import shutil

import pytest

import ehi
from datasets_ import part, write
from places import MODEL, ROOT, SCIFACT

NEEDED = {"inputs": "pandas"}
SLOW = {"query-encoders", "training"}
PAGES = ["inputs", "learning", "models", "operate", "passages", "query-encoders", "search", "training", "tuning"]


def blocks(page):
    return re.findall(r"```python\n(.*?)```", (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8"), re.S)


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with small versions of what the pages name; its documents."""
    corpus, queries, qrels = part(SCIFACT, 20, 80)
    write(tmp_path / "my-data", corpus, queries, qrels)
    shutil.copy(tmp_path / "my-data" / "qrels" / "test.tsv", tmp_path / "my-data" / "qrels" / "train.tsv")
    encoder = tmp_path / "e5-small-v2"
    shutil.copytree(MODEL, encoder, ignore=shutil.ignore_patterns("ehi.json", "indexer.*", "query-*", "training.json"))
    for name, source in {
        "models/scifact-minilm": MODEL,
        "target/base-model": encoder,
        "ms-marco-MiniLM-L6-v2": ROOT / "tests" / "fixtures" / "rerankers" / "6.2" / "identity",
        "examples/data/scifact": tmp_path / "my-data",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).symlink_to(source)
    (tmp_path / "products.csv").write_text("sku,name,summary,price\n7,Tea,Green tea.,4.5\n")
    monkeypatch.chdir(tmp_path)
    return [{"id": own, **document} for own, document in corpus.items()]


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=[pytest.mark.slow] if page in SLOW else []) for page in PAGES]
)
def test_a_guide(page, place):
    if page in NEEDED:
        pytest.importorskip(NEEDED[page])
    # A training makes it; a change of model needs another one.
    if page != "training":
        shutil.copytree(MODEL if page == "query-encoders" else "e5-small-v2", "my-bundle")
    code = blocks(page)
    assert code
    for name in set(re.findall(r'Index\.open\("([^"]+)"', "".join(code))):
        with ehi.Index.create(name, MODEL, precision="int8") as index:
            index.add(place)
    names = {}
    for number, block in enumerate(code):
        exec(compile(block, f"docs/{page}.md, block {number}", "exec"), names)


def test_every_page_with_such_blocks_is_run():
    others = {"distributed", "tutorial"}  # Of sets of shards, and of an index that the commands make.
    found = {path.stem for path in (ROOT / "docs").glob("*.md") if blocks(path.stem)}
    assert found - others == set(PAGES)
