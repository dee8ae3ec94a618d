"""BEIR: an index as a retriever. `pip install './python[beir]'`.

from beir.retrieval.evaluation import EvaluateRetrieval
from ehi.beir import EhiSearch

retriever = EvaluateRetrieval(EhiSearch("models/scifact-minilm"), k_values=[10, 100])
results = retriever.retrieve(corpus, queries)
print(retriever.evaluate(qrels, results, retriever.k_values))
"""

from __future__ import annotations

import contextlib
import pathlib
import pickle
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from . import Encoder, Model
from ._shared import Path
from ._temporary import Evaluated
from ._vectors import Vectors

try:
    from beir.retrieval.search import BaseSearch
except ImportError as error:
    raise ImportError("ehi.beir needs BEIR: pip install './python[beir]'") from error

_SIMILARITIES = {"cos_sim": "cosine", "dot": "dot"}
# Documents of one file of embeddings.
_CHUNK = 50_000


class EhiSearch(Evaluated, BaseSearch):
    """A model with its index, as BEIR's `BaseSearch`.

    `model` is a `Model` or its path; `create` and further keywords are options of `Index.create` and
    `Index.search`, as for `ehi.mteb.EhiSearch`. By default every document is scored by its embedding. The
    index lives below `folder`, or in the system's place for temporary files, while a call runs.
    """

    def __init__(
        self,
        model: Model | Path,
        *,
        folder: Path | None = None,
        create: Mapping[str, Any] | None = None,
        **search: Any,
    ) -> None:
        super().__init__(model, folder, create, search)
        self.results: dict[str, dict[str, float]] = {}

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
        _none(kwargs)
        create = {} if score_function is None else {"similarity": _similarity(score_function)}
        texts, titles = [each.get("text", "") for each in corpus.values()], list(map(_title, corpus.values()))
        with contextlib.closing(self._filled(list(corpus), texts, titles, **create)) as store:
            found = store.search(queries, top_k + 1, self._search)
        self.results = {own: _without(own, scores.items(), top_k) for own, scores in found.items()}
        return self.results

    def encode(
        self,
        corpus: dict[str, dict[str, str]],
        queries: dict[str, str],
        encode_output_path: str = "./embeddings/",
        overwrite: bool = False,
        query_filename: str = "queries.pkl",
        corpus_filename: str = "corpus.*.pkl",
        **kwargs: Any,
    ) -> None:
        """Writes the embeddings into files as BEIR's own `encode` does; those that are there stay."""
        _none(kwargs)
        folder = pathlib.Path(encode_output_path)
        folder.mkdir(parents=True, exist_ok=True)
        encoder = Encoder(self.model)
        target = folder / query_filename
        if overwrite or not target.exists():
            target.write_bytes(pickle.dumps((encoder.encode_query(list(queries.values())), list(queries))))
        ids = list(corpus)
        for place in range(0, len(ids), _CHUNK):
            target = folder / corpus_filename.replace("*", str(place // _CHUNK))
            if overwrite or not target.exists():
                own = ids[place : place + _CHUNK]
                texts = [
                    " ".join(filter(None, (_title(corpus[each]), corpus[each].get("text", ""))))
                    for each in own
                ]
                target.write_bytes(pickle.dumps((encoder.encode_document(texts), own)))

    def search_from_files(
        self,
        query_embeddings_file: str,
        corpus_embeddings_files: list[str],
        top_k: int,
        score_function: str = "dot",
        **kwargs: Any,
    ) -> dict[str, dict[str, float]]:
        """Searches embeddings of any encoder, from files of BEIR's `encode`, exactly."""
        _none(kwargs)
        queries, query_ids = _read(query_embeddings_file)
        similarity = _similarity(score_function)
        with contextlib.closing(Vectors(queries.shape[1], similarity, self._folder)) as vectors:
            for each in corpus_embeddings_files:
                rows, ids = _read(each)
                vectors.add(ids, rows)
            found = vectors.search(queries, top_k)
        pairs = zip(query_ids, found, strict=True)
        self.results = {own: dict(zip(ids, scores, strict=True)) for own, (ids, scores) in pairs}
        return self.results


def _title(document: Mapping[str, str]) -> str:
    return document.get("title") or ""


def _without(own: str, scores: Any, k: int) -> dict[str, float]:
    kept: Iterator[tuple[str, float]] = (pair for pair in scores if pair[0] != own)
    return dict(pair for pair, _ in zip(kept, range(k)))


def _similarity(name: str) -> Any:
    if name not in _SIMILARITIES:
        raise ValueError(f"score function `{name}` is not known; known are {', '.join(_SIMILARITIES)}")
    return _SIMILARITIES[name]


def _none(options: Mapping[str, Any]) -> None:
    if options:
        raise TypeError(f"unknown options: {', '.join(options)}")


def _read(path: str) -> tuple[np.ndarray, list[str]]:
    # Like BEIR's own files, these can run code of their author.
    rows, ids = pickle.loads(pathlib.Path(path).read_bytes())
    return np.asarray(rows), [str(each) for each in ids]
