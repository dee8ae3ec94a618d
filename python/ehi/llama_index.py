"""LlamaIndex: an index as a vector store, its encoder as embeddings. `pip install "ehi[llama-index]"`.

from llama_index.core import VectorStoreIndex
from llama_index.core.schema import TextNode
from ehi.llama_index import EhiVectorStore

store = EhiVectorStore("notes", model="models/scifact-minilm")
store.add([TextNode(id_="tea", text="Green tea has caffeine.", metadata={"year": 2021})])
index = VectorStoreIndex.from_vector_store(store, embed_model=store.embed_model)
found = index.as_retriever(similarity_top_k=3).retrieve("is there caffeine in tea?")
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from . import Encoder, Index, Model
from ._shared import Path, check, fields_of, known_options, opened
from .aio import run

try:
    from llama_index.core.base.embeddings.base import BaseEmbedding
    from llama_index.core.bridge.pydantic import PrivateAttr
    from llama_index.core.schema import BaseNode, MetadataMode, TextNode
    from llama_index.core.vector_stores.types import (
        BasePydanticVectorStore,
        FilterCondition,
        FilterOperator,
        MetadataFilters,
        VectorStoreQuery,
        VectorStoreQueryMode,
        VectorStoreQueryResult,
    )
    from llama_index.core.vector_stores.utils import metadata_dict_to_node, node_to_metadata_dict
except ImportError as error:
    raise ImportError('ehi.llama_index needs LlamaIndex: pip install "ehi[llama-index]"') from error


class EhiEmbedding(BaseEmbedding):
    """The encoder of a `Model`, or of the path of one, with options of `Encoder` and of `BaseEmbedding`."""

    _model: Model = PrivateAttr()
    _encoder: Encoder = PrivateAttr()

    def __init__(self, model: Model | Path, **options: Any) -> None:
        model = model if isinstance(model, Model) else Model(model)
        fields = {name: options.pop(name) for name in list(options) if name in type(self).model_fields}
        # A thread encodes 16 texts at a time.
        super().__init__(**{"model_name": model.hash, "embed_batch_size": 256, **fields})
        self._model, self._encoder = model, Encoder(model, **options)

    @classmethod
    def class_name(cls) -> str:
        return "EhiEmbedding"

    def _get_query_embedding(self, query: str) -> list[float]:
        row: list[float] = self._encoder.encode_query(query).tolist()
        return row

    def _get_text_embedding(self, text: str) -> list[float]:
        row: list[float] = self._encoder.encode_document(text).tolist()
        return row

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        rows: list[list[float]] = self._encoder.encode_document(texts).tolist()
        return rows

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return await run(self._get_query_embedding, query)

    async def _aget_text_embedding(self, text: str) -> list[float]:
        return await run(self._get_text_embedding, text)

    async def _aget_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return await run(self._get_text_embeddings, texts)


_MODES = {
    VectorStoreQueryMode.DEFAULT: None,
    VectorStoreQueryMode.SPARSE: "lexical",
    VectorStoreQueryMode.TEXT_SEARCH: "lexical",
    VectorStoreQueryMode.HYBRID: "hybrid",
    VectorStoreQueryMode.SEMANTIC_HYBRID: "hybrid",
}


class EhiVectorStore(BasePydanticVectorStore):
    """An index as a vector store.

    `index` is an `Index` that is open, or the path of one; with `model` it is made where there is none, with
    `options` of `Index.create`. The index encodes nodes, passage by passage, and questions by its own model.
    So a question is searched for by its words, whatever a query transform would embed in its place, and by an
    embedding only where there are no words. An embedding that a node carries is not stored: `VectorStoreIndex`
    needs an `embed_model`, which embeds each node that it inserts once more; `add` does not.

    `vector_store_kwargs` of a retriever are options of `Index.search`: `filter` in the form of MongoDB's,
    `beam` and so on. `filters` are LlamaIndex's, except matches of text.
    """

    stores_text: bool = True
    is_embedding_query: bool = False
    _index: Index = PrivateAttr()
    _embed_model: EhiEmbedding | None = PrivateAttr(default=None)

    def __init__(self, index: Index | Path, model: Model | Path | None = None, **options: Any) -> None:
        super().__init__(stores_text=True)
        self._index = opened(index, model, **options)

    @classmethod
    def class_name(cls) -> str:
        return "EhiVectorStore"

    @property
    def client(self) -> Index:
        """The index."""
        return self._index

    @property
    def embed_model(self) -> EhiEmbedding:
        """The encoder of the index's model."""
        model = self._index.model
        # The model changes when the index learns or is rolled back.
        if self._embed_model is None or self._embed_model._model.hash != model.hash:
            self._embed_model = EhiEmbedding(model)
        return self._embed_model

    def __repr__(self) -> str:
        return f"EhiVectorStore({self._index!r})"

    def close(self) -> None:
        """Closes the index. Safe to call twice."""
        self._index.close()

    def persist(self, persist_path: str, fs: Any = None) -> None:
        """Flushes the index, which is in a folder of its own."""
        self._index.flush()

    def add(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[str]:
        """Stores nodes with their relationships; where one is refused, none of them. One whose id is there
        takes its place. Keywords are those of `Index.add`.

        What is encoded is a node's text with the metadata that LlamaIndex shows to encoders.
        """
        documents, dim = [], self._index.model.dim
        for node in nodes:
            if node.embedding is not None and len(node.embedding) != dim:
                raise ValueError(
                    f"node {node.node_id} has an embedding of {len(node.embedding)} numbers, and those of "
                    f"the index's model have {dim}: give `embed_model=store.embed_model`"
                )
            metadata = node_to_metadata_dict(
                node.model_copy(update={"embedding": None}), remove_text=False, flat_metadata=False
            )
            text = node.get_content(metadata_mode=MetadataMode.EMBED)
            documents.append({"id": node.node_id, "text": text, "metadata": metadata})
        check(self._index.add(documents, **{"all_or_none": True, **kwargs}))
        return [node.node_id for node in nodes]

    # Further keywords, which LlamaIndex allows, are errors in these four.
    def delete(self, ref_doc_id: str) -> None:  # type: ignore[override]
        """Deletes the nodes of a document."""
        self._index.delete(filter={"ref_doc_id": {"$eq": ref_doc_id}})

    def delete_nodes(  # type: ignore[override]
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None
    ) -> None:
        """Deletes the nodes of `node_ids` that pass `filters`."""
        passing = _all_of(node_ids, filters)
        if not passing:
            raise ValueError("give `node_ids` or `filters`; `clear` deletes every node")
        self._index.delete(filter=passing)

    def clear(self) -> None:
        self._index.delete(filter={})

    def get_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None
    ) -> list[BaseNode]:
        """The nodes of `node_ids` that pass `filters`, or all that do, in the order of their ids."""
        return [_node(**each) for each in self._index.iter(_all_of(node_ids, filters))]

    def query(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        """Searches. Keywords are options of `Index.search`. `sparse_top_k` and `hybrid_top_k` take the place
        of `similarity_top_k` in their own modes.
        """
        mode, k = query.mode, query.similarity_top_k
        if mode not in _MODES:
            raise ValueError(f"an index has no mode '{mode.value}'; it has {', '.join(_MODES)}")
        unused = {"output_fields", "embedding_field", "mmr_threshold", "sparse_top_k", "hybrid_top_k"}
        if _MODES[mode]:
            own = "sparse_top_k" if _MODES[mode] == "lexical" else "hybrid_top_k"
            unused.remove(own)
            k = getattr(query, own) or k
        if given := [name for name in sorted(unused) if getattr(query, name) is not None]:
            raise ValueError(f"a query in mode '{mode.value}' has no {', '.join(given)}")
        options: dict[str, Any] = {"mode": _MODES[mode], "alpha": query.alpha}
        options = {name: value for name, value in options.items() if value is not None}
        known_options(kwargs, "k", *options)
        asked: Any = query.query_str
        if not asked:
            if query.query_embedding is None:
                raise ValueError("a query needs `query_str` or `query_embedding`")
            asked = np.asarray(query.query_embedding, np.float32)
        # A retriever of `VectorStoreIndex` gives an empty list where it has no ids.
        passing = _all_of(
            query.node_ids or None, query.filters, query.doc_ids or None, kwargs.pop("filter", None)
        )
        hits = list(self._index.search(asked, k, filter=passing, **options, **kwargs))
        return VectorStoreQueryResult(
            nodes=[_node(hit.id, hit.title, hit.text, hit.metadata) for hit in hits],
            similarities=[hit.score for hit in hits],
            ids=[hit.id for hit in hits],
        )

    async def async_add(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[str]:
        return await run(self.add, nodes, **kwargs)

    async def adelete(self, ref_doc_id: str) -> None:  # type: ignore[override]
        await run(self.delete, ref_doc_id)

    async def adelete_nodes(  # type: ignore[override]
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None
    ) -> None:
        await run(self.delete_nodes, node_ids, filters)

    async def aclear(self) -> None:
        await run(self.clear)

    async def aget_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None
    ) -> list[BaseNode]:
        return await run(self.get_nodes, node_ids, filters)

    async def aquery(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        return await run(self.query, query, **kwargs)


def _all_of(
    node_ids: list[str] | None,
    filters: MetadataFilters | None,
    doc_ids: list[str] | None = None,
    also: Any = None,
) -> dict[str, Any] | None:
    """A filter of an index; `None` where every node passes."""
    parts = [
        node_ids is not None and {"$ids": node_ids},
        doc_ids is not None and {"ref_doc_id": {"$in": doc_ids}},
        filters is not None and _filter(filters),
        json.loads(also) if isinstance(also, str) else also,
    ]
    parts = [part for part in parts if part]
    return {"$and": parts} if parts else None


def _node(id: str, title: str, text: str, metadata: Any, **_: Any) -> BaseNode:
    if isinstance(metadata, dict) and "_node_content" in metadata:
        try:
            return metadata_dict_to_node(metadata)
        except Exception as error:
            raise ValueError(f"the metadata of document {id} are of no node: {error}") from error
    # A document stored by other means.
    return TextNode(id_=id, text=text, metadata=fields_of(title, metadata))


# A list in metadata passes if any of its elements does.
_OPERATORS = {
    FilterOperator.EQ: "$eq",
    FilterOperator.CONTAINS: "$eq",
    FilterOperator.GT: "$gt",
    FilterOperator.GTE: "$gte",
    FilterOperator.LT: "$lt",
    FilterOperator.LTE: "$lte",
    FilterOperator.IN: "$in",
    FilterOperator.ANY: "$in",
}
_NEGATED = {FilterOperator.NE: "$eq", FilterOperator.NIN: "$in"}
_OF_LISTS = (FilterOperator.IN, FilterOperator.NIN, FilterOperator.ANY, FilterOperator.ALL)


def _filter(filters: MetadataFilters) -> dict[str, Any]:
    parts = [
        _filter(each) if isinstance(each, MetadataFilters) else _condition(each) for each in filters.filters
    ]
    if not parts:
        return {}
    if filters.condition == FilterCondition.NOT:
        return {"$not": {"$or": parts}}
    return {"$or" if filters.condition == FilterCondition.OR else "$and": parts}


def _condition(one: Any) -> dict[str, Any]:
    key, value, operator = one.key, one.value, one.operator
    if operator in _OF_LISTS and not isinstance(value, list):
        raise ValueError(f"the filter '{operator.value}' of '{key}' needs a list")
    if operator in _OPERATORS:
        return {key: {_OPERATORS[operator]: value}}
    if operator in _NEGATED:
        return {"$not": {key: {_NEGATED[operator]: value}}}
    if operator == FilterOperator.ALL:
        return {"$and": [{key: {"$eq": each}} for each in value]}
    if operator == FilterOperator.IS_EMPTY:
        empty: list[Any] = [None, "", []]
        return {"$or": [{key: {"$eq": each}} for each in empty]}
    raise ValueError(f"an index has no filter '{operator.value}'; mode='lexical' searches for words")
