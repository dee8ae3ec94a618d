"""What the library has, the package has: both lists are compared."""

import pathlib
import re

import ehi

ROOT = pathlib.Path(__file__).resolve().parents[2]

# In Rust, and in Python under another name or as an option of a call.
ELSEWHERE = {
    "analyzer": "stats",
    "bundle": "model",
    "builder": "create, open",
    "contains": "in",
    "embeddings": "stats",
    "create": "create",
    "delete_batch": "delete",
    "fusion": "stats",
    "get_many": "get",
    "insert": "add",
    "insert_all_or_none": "add",
    "insert_batch": "add",
    "insert_vectors": "add_vectors",
    "is_empty": "len",
    "is_lexical": "stats",
    "leaf_rows": "shards.leaf_rows",
    "len": "len",
    "logs_questions": "stats",
    "make_tree": "shards.make_tree",
    "needs_calibration": "health",
    "open_or_create": "create",
    "passages": "create",
    "previous_model": "stats",
    "query": "search",
    "query_batch": "search",
    "query_encoded": "shards.search",
    "query_encoder": "model.query_encoder",
    "query_vector": "search",
    "query_vector_batch": "search",
    "recall_curve": "stats",
    "record": "judge",
    "record_all": "judge",
    "search_batch": "search",
    "search_vector": "search",
    "search_vector_batch": "search",
    "similarity": "stats",
    "term_statistics": "shards.term_statistics",
    "tuning_due": "health",
    "with_progress": "progress",
}


def rust_names():
    names = set()
    for path in [*(ROOT / "src/index").rglob("*.rs"), *(ROOT / "src/train").rglob("*.rs")]:
        for block in re.findall(r"^impl Index \{\n(.*?)^\}", path.read_text(), re.M | re.S):
            names |= set(re.findall(r"^    pub fn (\w+)", block, re.M))
    return names


def test_every_call_of_an_index_has_a_name_here():
    names = rust_names()
    assert len(names) > 50
    missing = {name for name in names if not hasattr(ehi.Index, name) and name not in ELSEWHERE}
    assert not missing, missing
    assert not set(ELSEWHERE) - names, "no longer there in Rust"


def test_what_is_exported_is_there():
    assert all(hasattr(ehi, name) for name in ehi.__all__)
    for name in ("InputError", "StoreError", "ModelError", "DataError", "TrainError", "CancelledError"):
        assert issubclass(getattr(ehi, name), ehi.Error)
    assert issubclass(ehi.LockedError, ehi.StoreError) and issubclass(ehi.FilterError, ehi.InputError)
