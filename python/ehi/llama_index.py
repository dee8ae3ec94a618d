"""LlamaIndex: an index as a retriever. `pip install './python[llama-index]'`.

from llama_index.core.schema import TextNode
from ehi.llama_index import EhiRetriever

retriever = EhiRetriever("notes", model="models/scifact-minilm", k=3)
retriever.add([TextNode(id_="tea", text="Green tea has caffeine.", metadata={"year": 2021})])
retriever.retrieve("is there caffeine in tea?")
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from os import PathLike
from typing import Any

import numpy as np

from . import Index, Model
from ._temporary import check

try:
    from llama_index.core.callbacks import CallbackManager
    from llama_index.core.retrievers import BaseRetriever
    from llama_index.core.schema import BaseNode, MetadataMode, NodeWithScore, QueryBundle, TextNode
    from llama_index.core.vector_stores.utils import metadata_dict_to_node, node_to_metadata_dict
except ImportError as error:
    raise ImportError("ehi.llama_index needs LlamaIndex: pip install './python[llama-index]'") from error


class EhiRetriever(BaseRetriever):
    """An index as a retriever.

    `index` is an `Index` that is open, or the path of one; with `model` it is made where there is none. `k`
    and further keywords are options of `Index.search`: `filter` in the form of MongoDB's, `mode`, `beam` and
    so on. The index encodes texts by its own model; a query that comes with an embedding is searched for by
    that.
    """

    def __init__(
        self,
        index: Index | str | PathLike[str],
        model: Model | str | PathLike[str] | None = None,
        *,
        k: int = 10,
        callback_manager: CallbackManager | None = None,
        verbose: bool = False,
        **search: Any,
    ) -> None:
        super().__init__(callback_manager=callback_manager, verbose=verbose)
        if isinstance(index, Index):
            if model is not None:
                raise TypeError("an open index has its model")
            self.index = index
        else:
            self.index = Index.open(index) if model is None else Index.create(index, model, exist_ok=True)
        self.k, self._search = k, search

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
        return metadata_dict_to_node(metadata)
    # A document that others have stored.
    fields = metadata if isinstance(metadata, dict) else {} if metadata is None else {"metadata": metadata}
    return TextNode(
        id_=hit.id, text=hit.text, metadata={"title": hit.title, **fields} if hit.title else fields
    )
