"""What the library has, the package has: both lists are compared."""

import ast
import inspect
import pathlib
import re

import ehi

ROOT = pathlib.Path(__file__).resolve().parents[2]

# In Rust, and in Python under another name or as an option of a call.
ELSEWHERE = {
    "analyzer": "stats",
    "expires": "stats",
    "bundle": "model",
    "builder": "create, open",
    "candidates": "shards.candidates",
    "contains": "in",
    "count_where": "count",
    "embeddings": "stats",
    "create": "create",
    "delete_batch": "delete",
    "delete_where": "delete",
    "finish_fit": "fuse",
    "forget_where": "forget",
    "fusion": "stats",
    "get_many": "get",
    "ids_where": "ids",
    "insert": "add",
    "insert_all_or_none": "add",
    "insert_batch": "add",
    "insert_from": "shards.copy",
    "insert_vectors": "add_vectors",
    "is_empty": "len",
    "is_lexical": "stats",
    "len": "len",
    "logs_questions": "stats",
    "make_tree": "shards.make_tree",
    "needs_calibration": "health",
    "open_or_create": "create",
    "open_read_only": "open",
    "passages": "create",
    "previous_model": "stats",
    "query_encoder": "model.query_encoder",
    "recall_curve": "stats",
    "record": "judge",
    "record_all": "judge",
    "search_many": "search",
    "search_with": "search",
    "set_half_life": "half_life",
    "similarity": "stats",
    "term_statistics": "shards.term_statistics",
    "tuning_due": "health",
    "why_nothing_passes": "search",
    "with_progress": "progress",
}


# Options of a search and of a handle, and what models have: as above.
OF_SEARCH = {
    "dense": "mode",
    "from_json": "search",
    "hybrid": "mode",
    "lexical": "mode",
    "of": "mode",
    "reach": "beam, recall, exact",
    "rerank": "reranker",
}
OF_HANDLES = {
    "analyzer": "words",
    "create": "create",
    "embedding_cache": "cache",
    "encoder_precision": "precision",
    "expect_model": "model",
    "lock_wait": "wait",
    "open": "open",
    "open_or_create": "create",
    "open_read_only": "open",
    "sized_passages": "passages",
    "whole_documents": "passages",
}
OF_MODELS = {
    "Bundle": {
        "from_encoder": "Model",
        "from_encoder_with": "Model",
        "for_vectors": "Index.create",
        "model": "Encoder",
        "open": "Model",
        "routing_profiles": "Index.health",
    },
    "Encoder": {
        "embed": "encode_query, encode_document",
        "embed_with": "encode_query, encode_document",
        "load": "Encoder",
        "precision": "Encoder",
        "prompt": "describe",
        "settings": "describe",
        "tokenize": "read_text",
    },
    "Reranker": {"open": "Reranker"},
}


def rust_names(kind, *folders):
    names = set()
    for path in [each for folder in folders for each in (ROOT / "src" / folder).rglob("*.rs")]:
        head = rf"^impl(?:<'?\w+(?:, \w+(?:: \w+)?)*>)? {kind}(?:<[^>]*>)? \{{\n(.*?)^\}}"
        for block in re.findall(head, path.read_text(), re.M | re.S):
            names |= set(re.findall(r"^    pub fn (\w+)", block, re.M))
    return names


def compare(names, has, elsewhere):
    missing = {name for name in names if not has(name) and name not in elsewhere}
    assert not missing, missing
    assert not set(elsewhere) - names, "no longer there in Rust"


def test_every_call_of_an_index_has_a_name_here():
    names = rust_names("Index", "index", "learn")
    assert len(names) > 50
    compare(names, lambda name: hasattr(ehi.Index, name), ELSEWHERE)


def test_every_call_of_a_scope_has_a_name_here():
    names = rust_names("Scoped", "index")
    elsewhere = {"search_many": "search", "search_with": "search", "delete_where": "delete"}
    compare(names, lambda name: hasattr(ehi.ScopedIndex, name), elsewhere)


def test_every_option_has_a_name_here():
    search = inspect.signature(ehi.Index.search).parameters
    names = rust_names("SearchRequest", "index")
    assert len(names) > 15
    compare(names, lambda name: name in search, OF_SEARCH)
    calls = (ehi.Index.create, ehi.Index.open)
    handles = {name for call in calls for name in inspect.signature(call).parameters}
    compare(rust_names("IndexBuilder", "index"), lambda name: name in handles, OF_HANDLES)


def test_the_stub_has_the_options_of_a_search():
    """They are a dictionary in the stub, which stubtest cannot compare."""
    tree = ast.parse(pathlib.Path(ehi.__file__).with_name("__init__.pyi").read_text())
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    fields = [
        field.target.id
        for name in ("_RequestOptions", "_SearchOptions")
        for field in classes[name].body
        if isinstance(field, ast.AnnAssign)
    ]
    assert sorted(fields) == sorted(set(inspect.signature(ehi.Index.search).parameters) - {"self", "query", "k"})


def test_every_call_of_a_model_has_a_name_here():
    for kind, ours in (("Bundle", ehi.Model), ("Encoder", ehi.Encoder), ("Reranker", ehi.Reranker)):
        names = rust_names(kind, "model")
        assert names, kind
        compare(names, lambda name: hasattr(ours, name), OF_MODELS[kind])


def test_what_is_exported_is_there():
    assert all(hasattr(ehi, name) for name in ehi.__all__)
    for name in ("InputError", "StoreError", "ModelError", "DataError", "TrainError", "CancelledError"):
        assert issubclass(getattr(ehi, name), ehi.Error)
    assert issubclass(ehi.LockedError, ehi.StoreError) and issubclass(ehi.FilterError, ehi.InputError)
