"""MTEB: an index as a search model, and as the store under any encoder. `pip install './python[mteb]'`.

import mteb
from ehi.mteb import EhiSearch, EhiStore

mteb.evaluate(EhiSearch("models/scifact-minilm"), mteb.get_task("SciFact"))

encoder = mteb.get_model("sentence-transformers/all-MiniLM-L6-v2")
store = EhiStore.of(encoder)
mteb.evaluate(mteb.models.SearchEncoderWrapper(encoder, index_backend=store), mteb.get_task("SciFact"))
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from . import Model
from ._shared import Path
from ._temporary import Evaluated, TemporaryIndex
from ._vectors import Vectors, rows

try:
    from mteb.models.model_meta import ModelMeta, ScoringFunction
except ImportError as error:
    raise ImportError("ehi.mteb needs MTEB: pip install './python[mteb]'") from error

if TYPE_CHECKING:
    from mteb.abstasks.task_metadata import TaskMetadata
    from mteb.types import Array, CorpusDatasetType, QueryDatasetType
    from mteb.types import RetrievalOutputType, TopRankedDocumentsType

_SIMILARITIES: dict[Any, Literal["cosine", "dot", "manhattan"]] = {
    ScoringFunction.COSINE: "cosine",
    ScoringFunction.DOT_PRODUCT: "dot",
    ScoringFunction.MANHATTAN: "manhattan",
}


class EhiSearch(Evaluated):
    """A model with its index, as MTEB's `SearchProtocol`.

    `model` is a `Model` or its path. `create` has options of `Index.create` (`passages`, `words`,
    `precision`), and all further keywords are options of `Index.search`: `mode="hybrid"`, `beam=8`. By
    default every document is scored by its embedding. Each corpus gets an index of its own below `folder`, or
    in the system's place for temporary files, which is removed when the next one comes and by `close`.
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
        self._name = name or f"ehi/{pathlib.Path(self.model.path).name}"

    @property
    def mteb_model_meta(self) -> ModelMeta:
        """What MTEB files results under: the model's name and hash, and the options of the search."""
        unknown = "loader release_date languages n_parameters memory_usage_mb max_tokens license open_weights"
        unknown += " public_training_code public_training_data training_datasets"
        return ModelMeta(
            **dict.fromkeys(unknown.split()),
            name=self._name,
            revision=self.model.hash,
            embed_dim=self.model.dim,
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


class EhiStore:
    """A store for the embeddings of any encoder, as MTEB's `IndexEncoderSearchProtocol`.

    Embeddings are kept as float16 and searched exactly.
    """

    def __init__(
        self,
        similarity: Literal["cosine", "dot", "manhattan"] = "cosine",
        folder: Path | None = None,
    ) -> None:
        self._similarity, self._folder = similarity, folder
        self._vectors: Vectors | None = None
        self._idxs: list[str] = []

    @classmethod
    def of(cls, encoder: Any, folder: Path | None = None) -> EhiStore:
        """A store that ranks as the encoder's metadata say."""
        name = encoder.mteb_model_meta.similarity_fn_name
        if name not in _SIMILARITIES:
            raise ValueError(
                f"similarity {name} is not supported; known are {[str(each) for each in _SIMILARITIES]}"
            )
        return cls(_SIMILARITIES[name], folder)

    def add_documents(self, embeddings: Array, idxs: list[str]) -> None:
        """Adds embeddings, `[n, dim]` of numpy or PyTorch, under the ids of their documents."""
        matrix, idxs = rows(embeddings), list(idxs)
        if len(matrix) != len(idxs):
            raise ValueError(f"{len(idxs)} ids with {len(matrix)} embeddings")
        if self._vectors is None:
            self._vectors = Vectors(matrix.shape[1], self._similarity, self._folder)
        first = len(self._idxs)
        # By position, because MTEB asks for positions.
        self._vectors.add([str(first + place) for place in range(len(idxs))], matrix)
        self._idxs += idxs

    def search(
        self,
        embeddings: Array,
        top_k: int,
        similarity_fn: Callable[[Array, Array], Array],
        top_ranked: TopRankedDocumentsType | None = None,
        query_idx_to_id: dict[int, str] | None = None,
    ) -> tuple[list[list[float]], list[list[int]]]:
        """Scores and places of the best documents for each embedding, best first.

        Scores are those of the store's own similarity, not of `similarity_fn`. With `top_ranked` a place is
        that in the query's own list.
        """
        if self._vectors is None:
            raise ValueError("`add_documents` comes before `search`")
        matrix = rows(embeddings)
        if top_ranked is None:
            found = self._vectors.search(matrix, top_k)
            places = [[int(place) for place in ids] for ids, _ in found]
            return [scores for _, scores in found], places
        if query_idx_to_id is None:
            raise ValueError("`top_ranked` goes with `query_idx_to_id`")
        place_of = {own: str(place) for place, own in enumerate(self._idxs)}
        all_scores, all_places = [], []
        for at, row in enumerate(matrix):
            ranked = list(top_ranked.get(query_idx_to_id[at], []))
            own = {place_of[each]: place for place, each in enumerate(ranked)}
            ((ids, scores),) = self._vectors.search(row[None], top_k, list(own)) if own else [([], [])]
            all_scores.append(scores)
            all_places.append([own[each] for each in ids])
        return all_scores, all_places

    def clear(self) -> None:
        """Forgets all embeddings."""
        if self._vectors is not None:
            self._vectors.close()
        self._vectors, self._idxs = None, []
