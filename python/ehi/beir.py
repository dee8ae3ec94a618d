"""BEIR: an index as a retriever. `pip install "ehi[beir]"`.

from beir.retrieval.evaluation import EvaluateRetrieval
from ehi.beir import EhiSearch

retriever = EvaluateRetrieval(EhiSearch("models/scifact-minilm"), k_values=[10, 100])
results = retriever.retrieve(corpus, queries)
print(retriever.evaluate(qrels, results, retriever.k_values))
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Mapping, Sequence
from typing import Any

from . import Encoder, Model
from ._shared import Path
from ._temporary import Evaluated

try:
    from beir.retrieval.search.dense import DenseRetrievalExactSearch
except ImportError as error:
    raise ImportError('ehi.beir needs BEIR: pip install "ehi[beir]"') from error

_SIMILARITIES = {"cos_sim": "cosine", "dot": "dot"}


class EhiSearch(Evaluated, DenseRetrievalExactSearch):
    """A model with its index, as a search of BEIR's.

    `model` is a `Model` or its path; `create` and further keywords are options of `Index.create` and
    `Index.search`, as for `ehi.mteb.EhiSearch`. By default every document is scored by its embedding.
    Published figures of encoders are in f32: `create={"precision": "f32"}`. The index lives below `folder`,
    or in the system's place for temporary files, while a call runs. `encode` and `search_from_files` are
    BEIR's own, over the model's encoder.
    """

    def __init__(
        self,
        model: Model | Path,
        *,
        folder: Path | None = None,
        create: Mapping[str, Any] | None = None,
        **search: Any,
    ) -> None:
        Evaluated.__init__(self, model, folder, create, search)
        DenseRetrievalExactSearch.__init__(self, _Encoder(self._model), convert_to_tensor=False)

    def search(
        self,
        corpus: dict[str, dict[str, str]],
        queries: dict[str, str],
        top_k: int,
        score_function: str | None = None,
        *,
        return_sorted: bool = False,
        **kwargs: Any,
    ) -> dict[str, dict[str, float]]:
        """Scores of the best `top_k` documents of each query, best first.

        A document with the query's own id is left out, as BEIR's own searches do. `score_function`, cos_sim
        or dot, is the similarity of the index; by default the model's own.
        """
        if kwargs:
            raise TypeError(f"unknown options: {', '.join(kwargs)}")
        if score_function not in (None, *_SIMILARITIES):
            known = ", ".join(_SIMILARITIES)
            raise ValueError(f"score function `{score_function}` is unknown; known are {known}")
        create = {} if score_function is None else {"similarity": _SIMILARITIES[score_function]}
        texts, titles = [each.get("text", "") for each in corpus.values()], list(map(_title, corpus.values()))
        with contextlib.closing(self._filled(list(corpus), texts, titles, **create)) as store:
            found = store.search(queries, top_k + 1, self._search)
        self.results = {
            query: dict([pair for pair in scores.items() if pair[0] != query][:top_k])
            for query, scores in found.items()
        }
        return self.results


class _Encoder:
    """An encoder as BEIR wants one."""

    def __init__(self, model: Model) -> None:
        self._model = model

    @functools.cached_property
    def _encoder(self) -> Encoder:
        return Encoder(self._model)

    def encode_queries(self, queries: list[str], **_: Any) -> Any:
        return self._encoder.encode_query(queries)

    def encode_corpus(self, corpus: Sequence[Mapping[str, str]], **_: Any) -> Any:
        texts = [" ".join(filter(None, (_title(each), each.get("text", "")))) for each in corpus]
        return self._encoder.encode_document(texts)


def _title(document: Mapping[str, str]) -> str:
    return document.get("title") or ""
