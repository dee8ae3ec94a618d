"""MTEB: an index as a search model. `pip install "ehi[mteb]"`.

import mteb
from ehi.mteb import EhiSearch

mteb.evaluate(EhiSearch("models/scifact-minilm"), mteb.get_task("SciFact"))
"""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from . import Model
from ._shared import Path
from ._temporary import Evaluated, TemporaryIndex

try:
    from mteb.models.model_meta import ModelMeta, ScoringFunction
except ImportError as error:
    raise ImportError('ehi.mteb needs MTEB: pip install "ehi[mteb]"') from error

if TYPE_CHECKING:
    from mteb.abstasks.task_metadata import TaskMetadata
    from mteb.types import CorpusDatasetType, QueryDatasetType
    from mteb.types import RetrievalOutputType, TopRankedDocumentsType


class EhiSearch(Evaluated):
    """A model with its index, as MTEB's `SearchProtocol`.

    `model` is a `Model` or its path. `create` has options of `Index.create` (`passages`, `words`,
    `precision`), and all further keywords are options of `Index.search`: `mode="hybrid"`, `beam=8`. By
    default every document is scored by its embedding. Published figures of encoders are in f32:
    `create={"precision": "f32"}`. Each corpus gets an index of its own below `folder`, or in the system's
    place for temporary files, which is removed when the next one comes and by `close`.
    """

    def __init__(
        self,
        model: Model | Path,
        *,
        name: str | None = None,
        folder: Path | None = None,
        create: Mapping[str, Any] | None = None,
        **search: Any,
    ) -> None:
        super().__init__(model, folder, create, search)
        self._store: TemporaryIndex | None = None
        self._name = name or f"ehi/{pathlib.Path(self._model.path).name}"

    @property
    def mteb_model_meta(self) -> ModelMeta:
        """What MTEB files results under: the model's name and hash, and the options of the search."""
        unknown = "loader release_date languages n_parameters memory_usage_mb max_tokens license open_weights"
        unknown += " public_training_code public_training_data training_datasets"
        return ModelMeta(
            **dict.fromkeys(unknown.split()),
            name=self._name,
            revision=self._model.hash,
            embed_dim=self._model.dim,
            framework=[],
            similarity_fn_name=ScoringFunction.COSINE,
            use_instructions=False,
            experiment_kwargs={name: str(value) for name, value in {**self._create, **self._search}.items()},
        )

    def index(self, corpus: CorpusDatasetType, *, task_metadata: TaskMetadata, **kwargs: Any) -> None:
        """Makes an index of the corpus."""
        if "text" not in corpus.column_names:
            raise ValueError(f"{task_metadata.name} has no texts; its corpus has {corpus.column_names}")
        self.close()
        ids, texts = list(corpus["id"]), list(corpus["text"])
        titles = list(corpus["title"]) if "title" in corpus.column_names else []
        self._store = self._filled(ids, texts, [title or "" for title in titles] or [""] * len(ids))

    def search(
        self,
        queries: QueryDatasetType,
        *,
        top_k: int,
        top_ranked: TopRankedDocumentsType | None = None,
        **kwargs: Any,
    ) -> RetrievalOutputType:
        """The best `top_k` documents for each query, with their scores; of `top_ranked` where that is
        given.
        """
        if self._store is None:
            raise ValueError("`index` comes before `search`")
        texts = list(queries["text"])
        if "instruction" in queries.column_names:
            # Joined as MTEB does for models without instruction support.
            pairs = zip(texts, queries["instruction"], strict=True)
            texts = [text if instruction is None else f"{text} {instruction}" for text, instruction in pairs]
        asked = dict(zip(queries["id"], texts, strict=True))
        return self._store.search(asked, top_k, self._search, top_ranked)

    def close(self) -> None:
        """Removes the index. Safe to call twice."""
        if self._store is not None:
            self._store.close()
        self._store = None
