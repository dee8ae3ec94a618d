"""Haystack: an index as a document store, with its retriever. `pip install "ehi[haystack]"`.

from haystack import Document
from ehi.haystack import EhiDocumentStore, EhiRetriever

store = EhiDocumentStore("notes", model="models/scifact-minilm")
store.write_documents([Document(id="tea", content="Green tea has caffeine.", meta={"year": 2021})])
EhiRetriever(store, top_k=3).run("is there caffeine in tea?")["documents"]
# A pipeline that was written to a file: Pipeline.loads(text, allowed_modules=["ehi.haystack"])
"""

from __future__ import annotations

import asyncio
import functools
import json
import os
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from os import fspath
from typing import Any

from . import InputError
from ._shared import Path, check, fields_of, known_options, opened

try:
    from haystack import Document, component, default_from_dict, default_to_dict
    from haystack.document_stores.errors import DuplicateDocumentError
    from haystack.document_stores.types import DuplicatePolicy
    from haystack.errors import FilterError
except ImportError as error:
    raise ImportError('ehi.haystack needs Haystack: pip install "ehi[haystack]"') from error

_ORDER = {">": "$gt", ">=": "$gte", "<": "$lt", "<=": "$lte"}
# Whether the value is a list, and whether the condition is negated.
_AMONG = {"==": (False, False), "!=": (False, True), "in": (True, False), "not in": (True, True)}
_FIELDS = ("content", "blob", "score", "embedding", "sparse_embedding")
_NOTHING: dict[str, Any] = {"$ids": []}
# A key of the metadata for Haystack fields that documents of an index lack.
_MORE = "_haystack"
# Open stores by `to_dict` and process, because an index has only one writer.
_OPEN: weakref.WeakValueDictionary[str, EhiDocumentStore] = weakref.WeakValueDictionary()
_OPENING = threading.RLock()

# Methods whose names begin with these also have a form whose name ends in `_async`.
_VERBS = ("count", "filter", "write", "delete", "update", "get")


def _async(call: Callable[..., Any]) -> Callable[..., Any]:
    """The same method, run in a thread."""

    @functools.wraps(call)
    async def method(*arguments: Any, **options: Any) -> Any:
        return await asyncio.to_thread(call, *arguments, **options)

    method.__name__ = method.__qualname__ = f"{call.__name__}_async"
    return method


class EhiDocumentStore:
    """An index as a document store.

    `path` is that of an index; with `model`, the path of one, it is made where there is none, with `options`
    of `Index.create`. The index encodes contents by its own model: a document needs no embedding, and one
    that it has is given back and not searched by. Every document needs a content, and meta are what JSON has.

    Filters are those of `Index.search` in Haystack's words: dates are compared as text, so write them alike,
    in ISO format; a missing field is as one that is None; a condition on a list holds if it does for any
    element. Methods whose names end in `_async` do the same in a thread.
    """

    def __init__(self, path: Path, model: Path | None = None, **options: Any) -> None:
        self.path, self.model, self.options = fspath(path), model if model is None else fspath(model), options
        self.index = opened(path, model, **options)
        with _OPENING:
            _OPEN[_key(self.to_dict())] = self

    def __repr__(self) -> str:
        return f"EhiDocumentStore({self.index!r})"

    def to_dict(self) -> dict[str, Any]:
        return default_to_dict(self, path=self.path, model=self.model, **self.options)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> EhiDocumentStore:
        """The store that this process has open under the same path and options, if any, or a new one. So the
        components of a pipeline share it, and pipelines do; closed for one it is closed for all.
        """
        with _OPENING:
            found = _OPEN.get(_key(data))
            if found is not None and type(found) is cls and found._is_open():
                return found
            return default_from_dict(cls, data)

    def _is_open(self) -> bool:
        try:
            len(self.index)
        except InputError:
            return False
        return True

    def close(self) -> None:
        """Closes the index. Safe to call twice."""
        self.index.close()

    def count_documents(self) -> int:
        return len(self.index)

    def filter_documents(self, filters: dict[str, Any] | None = None) -> list[Document]:
        """Documents in the order of their ids."""
        return list(self._passing(filters))

    def write_documents(
        self, documents: list[Document], policy: DuplicatePolicy = DuplicatePolicy.NONE
    ) -> int:
        """Writes all of the documents or none, and returns how many were written.

        A document whose id is there is an error, also without a policy.
        """
        if not isinstance(documents, list) or not all(isinstance(each, Document) for each in documents):
            raise ValueError("documents are a list of haystack.Document")
        for each in documents:
            if not (each.content or "").strip():
                raise ValueError(f"document {each.id} has no content, by which an index would find it")
        chosen = documents
        if policy != DuplicatePolicy.OVERWRITE:
            ids = [each.id for each in documents]
            seen = {own for own, found in zip(ids, self.index.get(ids), strict=True) if found}
            chosen = []
            for each in documents:
                if each.id not in seen:
                    seen.add(each.id)
                    chosen.append(each)
                elif policy != DuplicatePolicy.SKIP:
                    raise DuplicateDocumentError(f"document {each.id} is there already")
        check(self.index.add([_row(each) for each in chosen], all_or_none=True))
        return len(chosen)

    def delete_documents(self, document_ids: list[str]) -> None:
        """Deletes the documents that are there."""
        self.index.delete(list(document_ids))

    def delete_all_documents(self) -> None:
        self.index.delete(filter={})

    def delete_by_filter(self, filters: dict[str, Any]) -> int:
        """Deletes the documents that pass, and returns how many there were."""
        return self.index.delete(filter=_filter(filters) or {})

    def update_by_filter(self, filters: dict[str, Any], meta: dict[str, Any]) -> int:
        """Sets fields of the documents that pass, which are encoded again; how many there were."""
        found = [replace(each, meta={**each.meta, **meta}) for each in self._passing(filters)]
        check(self.index.add([_row(each) for each in found], all_or_none=True))
        return len(found)

    def count_documents_by_filter(self, filters: dict[str, Any]) -> int:
        return self.index.count(_filter(filters))

    # The calls below read the documents, because `Index.facets` means something else: 1 and 1.0 are one
    # value, and so are two forms of a time, which it gives in UTC; a list has each of its values; an object
    # has none; a dot in the name of a field leads into an object; and a title is no field.

    def count_unique_metadata_by_filter(
        self, filters: dict[str, Any], metadata_fields: list[str]
    ) -> dict[str, int]:
        fields = [_field(each) for each in metadata_fields]
        seen: dict[str, set[str]] = {field: set() for field in fields}
        for document in self._passing(filters):
            for field in fields:
                if (value := document.meta.get(field)) is not None:
                    seen[field].add(_identity(value))
        return {field: len(values) for field, values in seen.items()}

    def get_metadata_fields_info(self) -> dict[str, dict[str, str]]:
        """Fields with their types as Haystack's own store names them; the last one seen where they differ."""
        names = {bool: "boolean", int: "int", float: "float"}
        return {
            field: {"type": names.get(type(value), "keyword")}
            for document in self._passing(None)
            for field, value in document.meta.items()
            if value is not None
        }

    def get_metadata_field_min_max(self, metadata_field: str) -> dict[str, Any]:
        """Least and greatest value of a field; None without values, and for numbers beside strings."""
        found = (each.meta.get(_field(metadata_field)) for each in self._passing(None))
        values: list[Any] = [value for value in found if isinstance(value, int | float | str)]
        if not values or len({isinstance(value, str) for value in values}) > 1:
            return {"min": None, "max": None}
        return {"min": min(values), "max": max(values)}

    def get_metadata_field_unique_values(
        self,
        metadata_field: str,
        search_term: str | None = None,
        from_: int = 0,
        size: int = 10,
        filters: dict[str, Any] | None = None,
    ) -> tuple[list[Any], int]:
        """A page of the values of a field in the order of their texts, and how many there are in all."""
        found = (each.meta.get(_field(metadata_field)) for each in self._passing(filters))
        values = {_identity(value): value for value in found if value is not None}
        if search_term:
            values = {own: each for own, each in values.items() if search_term.lower() in str(each).lower()}
        ordered = sorted(values.values(), key=lambda value: (str(value), type(value).__name__))
        return ordered[from_ : from_ + size], len(ordered)

    def _passing(self, filters: dict[str, Any] | None) -> Iterator[Document]:
        for each in self.index.iter(filter=_filter(filters)):
            yield _document(**each)


for _name in [name for name in vars(EhiDocumentStore) if name.partition("_")[0] in _VERBS]:
    setattr(EhiDocumentStore, f"{_name}_async", _async(getattr(EhiDocumentStore, _name)))


@component
class EhiRetriever:
    """Searches a store for a question in words.

    `filters` are Haystack's; those of a run hold in place of the retriever's own. `search` has options of
    `Index.search`: `{"mode": "hybrid"}`, `{"beam": 8}`.
    """

    def __init__(
        self,
        document_store: EhiDocumentStore,
        filters: dict[str, Any] | None = None,
        top_k: int = 10,
        search: dict[str, Any] | None = None,
    ) -> None:
        if not isinstance(document_store, EhiDocumentStore):
            raise ValueError("document_store must be an EhiDocumentStore")
        known_options(search or {}, "filter", "filters", "k")
        self.document_store, self.filters = document_store, filters
        self.top_k, self.search = top_k, search or {}

    def to_dict(self) -> dict[str, Any]:
        store = self.document_store.to_dict()
        return default_to_dict(
            self, document_store=store, filters=self.filters, top_k=self.top_k, search=self.search
        )

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> EhiRetriever:
        own = data["init_parameters"]
        store = EhiDocumentStore.from_dict(own["document_store"])
        return default_from_dict(cls, {**data, "init_parameters": {**own, "document_store": store}})

    @component.output_types(documents=list[Document])
    def run(
        self, query: str, filters: dict[str, Any] | None = None, top_k: int | None = None
    ) -> dict[str, list[Document]]:
        """The best `top_k` documents, with their scores."""
        chosen = _filter(self.filters if filters is None else filters)
        k = self.top_k if top_k is None else top_k
        hits = self.document_store.index.search(query, k, filter=chosen, **self.search)
        return {
            "documents": [_document(hit.id, hit.title, hit.text, hit.metadata, hit.score) for hit in hits]
        }

    @component.output_types(documents=list[Document])
    async def run_async(
        self, query: str, filters: dict[str, Any] | None = None, top_k: int | None = None
    ) -> dict[str, list[Document]]:
        """As `run`, in a thread."""
        return await asyncio.to_thread(self.run, query, filters, top_k)


def _row(document: Document) -> dict[str, Any]:
    fields = document.to_dict(flatten=False)
    own, text, meta = (fields.pop(name) for name in ("id", "content", "meta"))
    if _MORE in meta:
        raise ValueError(f"meta of document {own} has the field {_MORE}, which the store needs")
    fields.pop("score")
    more = {name: value for name, value in fields.items() if value is not None}
    return {"id": own, "text": text, "metadata": {**meta, _MORE: more} if more else meta}


def _document(
    id: str, title: str, text: str, metadata: Any, score: float | None = None, **_: Any
) -> Document:
    meta = fields_of(title, metadata)
    more = meta.pop(_MORE, {})
    return Document.from_dict({**more, "id": id, "content": text, "meta": meta, "score": score})


def _key(store: dict[str, Any]) -> str:
    own = dict(store.get("init_parameters", {}))
    own["path"] = os.path.realpath(own.get("path", ""))
    return json.dumps([os.getpid(), own], sort_keys=True, default=str)


def _field(name: str) -> str:
    return name.removeprefix("meta.")


def _identity(value: Any) -> str:
    # 1, 1.0, "1" and true are four values.
    return json.dumps(value, sort_keys=True)


def _filter(filters: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The filter of an index; `None` where every document passes.

    A missing field is as one that is `None`. Dates are compared as text, so they must be written alike, in
    ISO format. Where a field is a list, a condition holds if it does for any element.
    """
    return _node(filters) if filters else None


def _node(condition: Any) -> dict[str, Any]:
    if not isinstance(condition, Mapping):
        raise FilterError(f"a condition is a dictionary, not {type(condition).__name__}")
    if "field" in condition:
        return _comparison(condition)
    for key in ("operator", "conditions"):
        if key not in condition:
            raise FilterError(f"'{key}' key missing in {condition}")
    parts = [_node(each) for each in condition["conditions"]]
    match condition["operator"]:
        case "AND":
            return {"$and": parts} if parts else {}
        case "OR":
            return {"$or": parts} if parts else _NOTHING
        case "NOT":
            return {"$not": {"$and": parts}} if parts else _NOTHING
        case other:
            raise FilterError(f"unknown logical operator '{other}'; known are AND, OR and NOT")


def _comparison(condition: Mapping[str, Any]) -> dict[str, Any]:
    for key in ("operator", "value"):
        if key not in condition:
            raise FilterError(f"'{key}' key missing in {condition}")
    field, operator, value = condition["field"], str(condition["operator"]), condition["value"]
    value = [_plain(each) for each in value] if isinstance(value, list) else _plain(value)
    if field in _FIELDS:
        raise FilterError(f"'{field}' cannot be filtered by; 'id' and fields of 'meta' can")
    if operator in _AMONG:
        several, negated = _AMONG[operator]
        if several and not isinstance(value, list):
            raise FilterError(f"'{operator}' needs a list, not {type(value).__name__}")
        among = _any_of(field, value if several else [value])
        return {"$not": among} if negated else among
    if operator not in _ORDER:
        raise FilterError(f"unknown comparison operator '{operator}'")
    if field == "id":
        raise FilterError(f"ids are compared by ==, !=, in and not in, not by {operator}")
    if value is None:
        return _NOTHING
    return {field.removeprefix("meta."): {_ORDER[operator]: _ordered(operator, value)}}


def _any_of(field: str, values: list[Any]) -> dict[str, Any]:
    if field == "id" or not values:
        return {"$ids": values}
    return {"$or": [{field.removeprefix("meta."): {"$eq": each}} for each in values]}


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value


def _ordered(operator: str, value: Any) -> Any:
    if isinstance(value, str):
        try:
            datetime.fromisoformat(value)
        except ValueError:
            raise FilterError(
                f"'{operator}' compares numbers and dates in ISO format, not '{value}'"
            ) from None
    elif isinstance(value, bool) or not isinstance(value, int | float):
        raise FilterError(f"'{operator}' compares numbers and dates, not {type(value).__name__}")
    return value
