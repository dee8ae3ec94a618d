"""LlamaIndex: an index as a retriever. `pip install './python[llama-index]'`.

from llama_index.core.schema import TextNode
from ehi.llama_index import EhiRetriever

retriever = EhiRetriever("notes", model="models/scifact-minilm", k=3)
retriever.add([TextNode(id_="tea", text="Green tea has caffeine.", metadata={"year": 2021})])
retriever.retrieve("is there caffeine in tea?")
retriever.close()
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np

from . import Index, Model
from ._shared import Path, check, fields_of, known_options, opened

try:
    from llama_index.core.callbacks import CallbackManager
    from llama_index.core.retrievers import BaseRetriever
    from llama_index.core.schema import BaseNode, MetadataMode, NodeWithScore, QueryBundle, TextNode
    from llama_index.core.vector_stores.types import FilterCondition, FilterOperator, MetadataFilters
    from llama_index.core.vector_stores.utils import metadata_dict_to_node, node_to_metadata_dict
except ImportError as error:
    raise ImportError("ehi.llama_index needs LlamaIndex: pip install './python[llama-index]'") from error


class EhiRetriever(BaseRetriever):
    """An index as a retriever.

    `index` is an `Index` that is open, or the path of one; with `model` it is made where there is none. `k`
    and further keywords are options of `Index.search`: `filter` in the form of MongoDB's, `mode`, `beam` and
    so on; `filters` are LlamaIndex's, except matches of text. The index encodes texts by its own model; a
    query that comes with an embedding is searched for by that.
    """

    def __init__(
        self,
        index: Index | Path,
        model: Model | Path | None = None,
        *,
        k: int = 10,
        callback_manager: CallbackManager | None = None,
        verbose: bool = False,
        filters: MetadataFilters | None = None,
        **search: Any,
    ) -> None:
        known_options(search, "k")
        if filters is not None:
            if "filter" in search:
                raise TypeError("`filter` and `filters` exclude each other")
            search["filter"] = _filter(filters)
        super().__init__(callback_manager=callback_manager, verbose=verbose)
        self.index = opened(index, model)
        self.k, self._search = k, search

    def close(self) -> None:
        """Closes the index. Safe to call twice."""
        self.index.close()

    def add(self, nodes: Sequence[BaseNode]) -> list[str]:
        """Stores nodes with their relationships; their ids. One whose id is there takes its place.

        What is encoded is a node's text with the metadata that LlamaIndex shows to encoders.
        """
        documents = []
        for node in nodes:
            # Without embedding: the index has its own.
            kept = node.model_copy(update={"embedding": None})
            metadata = node_to_metadata_dict(kept, remove_text=False, flat_metadata=False)
            text = node.get_content(metadata_mode=MetadataMode.EMBED)
            documents.append({"id": node.node_id, "text": text, "metadata": metadata})
        check(self.index.add(documents))
        return [node.node_id for node in nodes]

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        asked: Any = query_bundle.query_str
        if query_bundle.embedding is not None:
            asked = np.asarray(query_bundle.embedding, np.float32)
        hits = self.index.search(asked, self.k, **self._search)
        return [NodeWithScore(node=_node(hit), score=hit.score) for hit in hits]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await asyncio.to_thread(self._retrieve, query_bundle)


def _node(hit: Any) -> BaseNode:
    metadata = hit.metadata
    if isinstance(metadata, dict) and "_node_content" in metadata:
        try:
            return metadata_dict_to_node(metadata)
        except Exception as error:
            raise ValueError(f"the metadata of document {hit.id} are of no node: {error}") from error
    # A document stored by other means.
    return TextNode(id_=hit.id, text=hit.text, metadata=fields_of(hit.title, metadata))


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
