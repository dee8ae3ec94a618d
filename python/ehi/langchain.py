"""LangChain: an index as a vector store, its encoder as embeddings. `pip install "ehi[langchain]"`.

from langchain_core.documents import Document
from ehi.langchain import EhiVectorStore

store = EhiVectorStore("notes", model="models/scifact-minilm")
store.add_documents([Document("Green tea has caffeine.", metadata={"year": 2021})], ids=["tea"])
retriever = store.as_retriever(search_kwargs={"k": 3, "filter": {"year": {"$gte": 2020}}})
retriever.invoke("is there caffeine in tea?")
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

import numpy as np

from . import Encoder, Hit, Index, Model
from ._shared import Path, check, fields_of, opened

try:
    from langchain_core.documents import Document
    from langchain_core.embeddings import Embeddings
    from langchain_core.vectorstores import VectorStore
    from langchain_core.vectorstores.utils import maximal_marginal_relevance
except ImportError as error:
    raise ImportError('ehi.langchain needs LangChain: pip install "ehi[langchain]"') from error


class EhiEmbeddings(Embeddings):
    """The encoder of a `Model`, or of the path of one, with options of `Encoder`."""

    def __init__(self, model: Model | Path, **options: Any) -> None:
        self.model = model if isinstance(model, Model) else Model(model)
        self.encoder = Encoder(self.model, **options)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return self.encoder.encode_document(texts).tolist() if texts else []

    def embed_query(self, text: str) -> list[float]:
        row: list[float] = self.encoder.encode_query(text).tolist()
        return row

    def __repr__(self) -> str:
        return f"EhiEmbeddings({self.encoder!r})"


class EhiVectorStore(VectorStore):
    """An index as a vector store.

    `index` is an `Index` that is open, or the path of one; with `model` it is made where there is none, with
    `options` of `Index.create`. The index encodes texts by its own model. Keywords of searches are those of
    `Index.search`: `filter` in the form of MongoDB's, `mode`, `beam` and so on. Metadata are what JSON has.
    """

    def __init__(self, index: Index | Path, model: Model | Path | None = None, **options: Any) -> None:
        self.index = opened(index, model, **options)
        self._embeddings: EhiEmbeddings | None = None

    def close(self) -> None:
        """Closes the index. Safe to call twice."""
        self.index.close()

    def __repr__(self) -> str:
        return f"EhiVectorStore({self.index!r})"

    @property
    def embeddings(self) -> EhiEmbeddings:
        """The encoder of the index's model."""
        model = self.index.model
        # The model changes when the index learns or is rolled back.
        if self._embeddings is None or self._embeddings.model.hash != model.hash:
            self._embeddings = EhiEmbeddings(model)
        return self._embeddings

    # Without `index` there is no store; LangChain has it among its keywords.
    @classmethod
    def from_texts(  # type: ignore[override]
        cls,
        texts: list[str],
        embedding: Embeddings | None = None,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        index: Index | Path,
        model: Model | Path | None = None,
        **options: Any,
    ) -> EhiVectorStore:
        """A store with these texts. `embedding`, if any, is an `EhiEmbeddings`: its model then is the
        index's.
        """
        if embedding is not None:
            if not isinstance(embedding, EhiEmbeddings):
                raise TypeError(
                    f"an index encodes by a model of its own, not by {type(embedding).__name__}: "
                    "give an EhiEmbeddings, or `model`"
                )
            if model is not None:
                raise TypeError("`embedding` and `model` exclude each other")
            model = embedding.model
        store = cls(index, model, **options)
        store.add_texts(texts, metadatas, ids=ids)
        return store

    def add_documents(
        self,
        documents: list[Document],
        ids: Sequence[str | None] | None = None,
        *,
        batch_size: int | None = None,
        **kwargs: Any,
    ) -> list[str]:
        """Stores documents under `ids`, else their own ids, else new ones; where one is refused, none of
        them, or with `batch_size`, as LangChain's `index` gives it, none of its batch and those after it.
        Other keywords are those of `Index.add`.
        """
        if ids is not None and len(ids) != len(documents):
            raise ValueError(f"{len(documents)} documents with {len(ids)} ids")
        size = max(len(documents), 1) if batch_size is None else batch_size
        if size < 1:
            raise ValueError(f"`batch_size` is {size}; it is a number of documents from 1")
        given = ids if ids is not None else [document.id for document in documents]
        own = [each or str(uuid.uuid4()) for each in given]
        pairs = zip(own, documents, strict=True)
        rows = [{"id": each, "text": one.page_content, "metadata": one.metadata} for each, one in pairs]
        for begin in range(0, max(len(rows), 1), size):
            check(self.index.add(rows[begin : begin + size], **{"all_or_none": True, **kwargs}))
        return own

    def delete(self, ids: list[str] | None = None, **kwargs: Any) -> bool | None:
        """Deletes documents; all of them where no ids are given."""
        if kwargs:
            raise TypeError(f"unknown options: {', '.join(kwargs)}")
        if isinstance(ids, str):
            raise TypeError("`ids` is a list of strings, not one string")
        if ids is None:
            self.index.delete(filter={})
        else:
            self.index.delete(list(ids))
        return True

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        return [_document(**one) for one in self.index.get(list(ids)) if one]

    def similarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        return [document for document, _ in self.similarity_search_with_score(query, k, **kwargs)]

    def similarity_search_with_score(
        self, query: str, k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        """Documents with the scores that the search ranks by; higher is better."""
        return [(_of_hit(hit), hit.score) for hit in self.index.search(query, k, **kwargs)]

    def _similarity_search_with_relevance_scores(
        self, query: str, k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        # A threshold needs a score that does not depend on the other candidates: (1 + cosine) / 2.
        if (similarity := self.index.stats()["similarity"]) != "cosine":
            raise ValueError(
                f"relevance from 0 to 1 is known of cosine alone, and this index ranks by {similarity}"
            )
        options: dict[str, Any] = {"mode": "dense", **kwargs}
        hits = self.index.search(query, k, **options)
        if any(hit.dense is None for hit in hits):
            raise ValueError("relevance from 0 to 1 is known of embeddings alone, not of words")
        return [
            (_of_hit(hit), min(1.0, max(0.0, (1 + hit.dense) / 2))) for hit in hits if hit.dense is not None
        ]

    def similarity_search_by_vector(
        self, embedding: list[float], k: int = 4, **kwargs: Any
    ) -> list[Document]:
        """Searches for an embedding of the index's own encoder."""
        return [_of_hit(hit) for hit in self.index.search(np.asarray(embedding, np.float32), k, **kwargs)]

    def max_marginal_relevance_search(
        self, query: str, k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **kwargs: Any
    ) -> list[Document]:
        """`k` of the best `fetch_k` documents that differ among each other, whose texts are encoded again."""
        return self.max_marginal_relevance_search_by_vector(
            self.embeddings.embed_query(query), k, fetch_k, lambda_mult, **kwargs
        )

    def max_marginal_relevance_search_by_vector(
        self, embedding: list[float], k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **kwargs: Any
    ) -> list[Document]:
        found = self.similarity_search_by_vector(embedding, fetch_k, **kwargs)
        if not found:
            return []
        rows = self.embeddings.embed_documents([document.page_content for document in found])
        chosen = maximal_marginal_relevance(np.asarray(embedding, np.float32), rows, lambda_mult, k)
        return [found[place] for place in chosen]


def _of_hit(hit: Hit) -> Document:
    return _document(hit.id, hit.title, hit.text, hit.metadata)


def _document(id: str, title: str, text: str, metadata: Any, **_: Any) -> Document:
    return Document(id=id, page_content=text, metadata=fields_of(title, metadata))
