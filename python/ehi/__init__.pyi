"""Types of the package; `README.md` and the docstrings say what it does."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import Field
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Literal, Protocol, TypedDict, final, overload

import numpy as np
import pandas
import pyarrow
from numpy.typing import NDArray
from typing_extensions import Never, Unpack

from .reports import (
    Document,
    Explanation,
    Facet,
    Health,
    HitFields,
    InsertSummary,
    Judged,
    JudgeSummary,
    Learned,
    Passage,
    RankedBy,
    SearchStats,
    Signs,
    Snippet,
    Stats,
    Verification,
)
from .shards import TermStatistics

_Path = str | PathLike[str]
# A whole number is written in decimal.
_Id = str | int
_Model = Model | _Path | _SentenceTransformer
_Progress = Callable[[str, int, int | None], object] | bool | None
# Arrays of any library, columns of lists, and lists of numbers.
_Vectors = NDArray[Any] | Sequence[float] | Sequence[Sequence[float]] | Sequence[NDArray[Any]]
# A list, an array or a column of a frame.
_Column = Iterable[object]
# A frame of pandas or polars, a table of pyarrow, or what gives dictionaries.
_Documents = Iterable[Mapping[str, object]] | _Frame | _Table
_Json = dict[str, Any]
_Filter = Mapping[str, object] | str
_Mode = Literal["best", "dense", "lexical", "hybrid"]
_Encoder = Literal["fast", "full"]
_Precision = Literal["f32", "int8"]
_Durability = Literal["none", "on_flush", "every_batch"]
_Similarity = Literal["cosine", "dot", "manhattan"]
_Role = Literal["query", "document"]
_Judgments = Iterable[Sequence[object] | Mapping[str, object]] | _Frame | _Table

__version__: str
__all__ = [
    "AutoTune",
    "CancelledError",
    "DataError",
    "Documents",
    "Encoder",
    "Error",
    "FilterError",
    "Hit",
    "Index",
    "InputError",
    "LockedError",
    "Model",
    "ModelError",
    "PartialError",
    "Reranker",
    "ScopedIndex",
    "SearchResult",
    "StoreError",
    "TrainError",
    "__version__",
    "evaluate",
    "train",
    "train_reranker",
]

class Error(Exception):
    kind: str

class InputError(Error, ValueError): ...
class FilterError(InputError): ...
class StoreError(Error): ...
class LockedError(StoreError): ...
class ModelError(Error): ...
class DataError(Error): ...
class TrainError(Error): ...
class CancelledError(Error): ...

class PartialError(Error):
    stored: int
    refused: int

class _Frame(Protocol):
    """A frame of pandas."""

    def itertuples(self) -> Iterable[Any]: ...

class _Table(Protocol):
    """A frame of polars, a table of pyarrow, or any other that gives its rows by Arrow."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...

class _SentenceTransformer(Protocol):
    """`sentence_transformers.SentenceTransformer`, which need not be installed."""

    truncate_dim: int | None
    def save_pretrained(self, path: str, /, *, create_model_card: bool = True) -> None: ...

@final
class Model:
    def __new__(
        cls,
        path: _Path | _SentenceTransformer,
        *,
        dim: int | None = None,
        query_prompt: str | None = None,
        document_prompt: str | None = None,
    ) -> Model: ...
    @property
    def path(self) -> Path: ...
    @property
    def hash(self) -> str: ...
    @property
    def dim(self) -> int: ...
    @property
    def has_tree(self) -> bool: ...
    @property
    def query_encoder(self) -> _Json | None: ...
    def has_encoder_of(self, other: Model) -> bool: ...
    def distil(
        self,
        *,
        data: _Path | None = None,
        documents: _Documents | None = None,
        pairs: _Judgments | None = None,
        kind: Literal["static", "none"] = "static",
        texts: int | None = None,
        passes: int | None = None,
        seed: int = 0,
        progress: _Progress = None,
    ) -> _Json | None: ...

@final
class Encoder:
    def __new__(
        cls,
        model: _Model,
        *,
        precision: _Precision | None = None,
        dim: int | None = None,
        query_prompt: str | None = None,
        document_prompt: str | None = None,
    ) -> Encoder: ...
    @property
    def dim(self) -> int: ...
    @property
    def max_tokens(self) -> int: ...
    @property
    def similarity(self) -> _Similarity: ...
    def describe(self) -> _Json: ...
    def read_text(self, text: str, role: _Role = "document") -> _Json: ...
    def encode_query(self, texts: str | Sequence[str]) -> NDArray[np.float32]: ...
    def encode_document(self, texts: str | Sequence[str]) -> NDArray[np.float32]: ...

@final
class Reranker:
    def __new__(cls, path: _Path, *, precision: _Precision = "f32") -> Reranker: ...
    @property
    def max_tokens(self) -> int: ...
    def score(self, question: str, documents: list[str]) -> NDArray[np.float32]: ...

class _RequestOptions(TypedDict, total=False):
    beam: int | Literal["all"] | None
    recall: float | None
    exact: bool
    mode: _Mode | None
    alpha: float | None
    rrf: float | None
    bm25: tuple[float, float] | None
    filter: _Filter | None
    codes: bool | None
    encoder: _Encoder | None
    ids_only: bool
    passages: int | None
    no_memory: bool

class _SearchOptions(_RequestOptions, total=False):
    vectors: _Vectors | None
    group_by: str | None
    per_group: int | None
    reranker: Reranker | None
    rerank_depth: int
    parallel: bool
    unlogged: bool
    leaves: Sequence[int] | None
    statistics: TermStatistics | None

@final
class Hit:
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]
    def __hash__(self) -> int: ...
    def __new__(cls, fields: Mapping[str, object] | HitFields) -> Hit: ...
    def __eq__(self, other: object, /) -> bool: ...
    @property
    def id(self) -> str: ...
    @property
    def score(self) -> float: ...
    @property
    def title(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def metadata(self) -> Any: ...
    @property
    def leaf(self) -> int: ...
    @property
    def dense(self) -> float | None: ...
    @property
    def lexical(self) -> float | None: ...
    @property
    def memory(self) -> float | None: ...
    @property
    def judged(self) -> Judged | None: ...
    @property
    def rerank_score(self) -> float | None: ...
    @property
    def group(self) -> Any: ...
    @property
    def passages(self) -> list[Passage]: ...
    def snippet(self, question: str, bytes: int = 480) -> Snippet: ...
    def as_dict(self) -> HitFields: ...

@final
class SearchResult(Sequence[Hit]):
    __hash__: ClassVar[None]  # type: ignore[assignment]
    def __new__(cls, hits: Sequence[Hit], question: str | None, about: _Json) -> SearchResult: ...
    @property
    def question(self) -> str | None: ...
    @property
    def request(self) -> _Json: ...
    @property
    def ids(self) -> list[str]: ...
    @property
    def scores(self) -> NDArray[np.float32]: ...
    @property
    def rerank_scores(self) -> NDArray[np.float32]: ...
    @property
    def stats(self) -> SearchStats: ...
    @property
    def ranked_by(self) -> RankedBy: ...
    @property
    def signs(self) -> Signs: ...
    @property
    def notes(self) -> list[str]: ...
    def to_dicts(self) -> list[HitFields]: ...
    def to_pandas(self) -> pandas.DataFrame: ...
    def to_arrow(self) -> pyarrow.Table: ...
    def _repr_html_(self) -> str: ...
    def index(self, hit: object, start: int = 0, stop: int = ...) -> int: ...
    def count(self, hit: object) -> int: ...
    def __len__(self) -> int: ...
    @overload
    def __getitem__(self, at: int, /) -> Hit: ...
    @overload
    def __getitem__(self, at: slice, /) -> list[Hit]: ...
    def __iter__(self) -> Iterator[Hit]: ...
    def __reversed__(self) -> Iterator[Hit]: ...
    def __contains__(self, hit: object, /) -> bool: ...
    def __eq__(self, other: object, /) -> bool: ...

@final
class Documents:
    def __iter__(self) -> Documents: ...
    def __next__(self) -> Document: ...

@final
class AutoTune:
    @property
    def tunings(self) -> int: ...
    def close(self) -> None: ...
    def __enter__(self) -> AutoTune: ...
    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None, /
    ) -> None: ...

@final
class Index:
    def __new__(cls, *_args: Never, **_options: Never) -> Index: ...
    @staticmethod
    @overload
    def create(
        path: _Path,
        model: _Model,
        *,
        dim: None = None,
        similarity: _Similarity | None = None,
        durability: _Durability | None = None,
        codes: bool | None = None,
        words: str | None = None,
        precision: _Precision | None = None,
        passages: tuple[int, int] | Literal[False] | None = None,
        expires: str | None = None,
        wait: float | None = None,
        lazy_encoder: bool = False,
        own_model: bool = False,
        cache: _Path | None = None,
        exist_ok: bool = False,
    ) -> Index: ...
    @staticmethod
    @overload
    def create(
        path: _Path,
        model: None = None,
        *,
        dim: int,
        similarity: _Similarity | None = None,
        durability: _Durability | None = None,
        codes: bool | None = None,
        words: str | None = None,
        expires: str | None = None,
        wait: float | None = None,
        cache: _Path | None = None,
        exist_ok: bool = False,
    ) -> Index: ...
    @staticmethod
    def open(
        path: _Path,
        *,
        read_only: bool = False,
        model: _Model | None = None,
        durability: _Durability | None = None,
        codes: bool | None = None,
        precision: _Precision | None = None,
        wait: float | None = None,
        lazy_encoder: bool = False,
        own_model: bool = False,
        cache: _Path | None = None,
    ) -> Index: ...
    @staticmethod
    def repair(
        path: _Path,
        *,
        model: _Model | None = None,
        undecided: Literal["refuse", "keep", "drop"] = "refuse",
        forget: bool = False,
        progress: _Progress = None,
    ) -> _Json: ...
    @property
    def path(self) -> Path: ...
    @property
    def is_read_only(self) -> bool: ...
    @property
    def model(self) -> Model: ...
    def close(self) -> None: ...
    def __enter__(self) -> Index: ...
    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None, /
    ) -> None: ...
    def __len__(self) -> int: ...
    def __contains__(self, id: _Id, /) -> bool: ...
    def __getitem__(self, id: _Id, /) -> Document: ...
    def __delitem__(self, id: _Id, /) -> None: ...
    def __iter__(self) -> Documents: ...
    def add(
        self,
        documents: _Documents | _Column | None = None,
        texts: _Column | None = None,
        titles: _Column | None = None,
        metadata: _Column | None = None,
        *,
        ids: _Column | None = None,
        all_or_none: bool = False,
        progress: _Progress = None,
    ) -> InsertSummary: ...
    def add_vectors(
        self,
        ids: _Column,
        vectors: _Vectors,
        texts: _Column | None = None,
        titles: _Column | None = None,
        metadata: _Column | None = None,
        *,
        progress: _Progress = None,
    ) -> InsertSummary: ...
    @overload
    def get(self, ids: _Id) -> Document | None: ...
    @overload
    def get(self, ids: list[str] | list[int] | tuple[_Id, ...]) -> list[Document | None]: ...
    def update(
        self,
        id: _Id,
        *,
        metadata: Mapping[str, object] | None = None,
        title: str | None = None,
        text: str | None = None,
    ) -> InsertSummary: ...
    @overload
    def vectors(self, ids: _Id, *, passages: bool = False) -> NDArray[np.float32]: ...
    @overload
    def vectors(
        self, ids: list[str] | list[int] | tuple[_Id, ...], *, passages: Literal[False] = False
    ) -> NDArray[np.float32]: ...
    @overload
    def vectors(
        self, ids: list[str] | list[int] | tuple[_Id, ...], *, passages: Literal[True]
    ) -> list[NDArray[np.float32]]: ...
    def delete(self, ids: _Id | Iterable[_Id] | None = None, *, filter: _Filter | None = None) -> int: ...
    def count(self, filter: _Filter | None = None) -> int: ...
    def ids(self, filter: _Filter | None = None) -> list[str]: ...
    def facets(
        self, fields: str | Sequence[str], filter: _Filter | None = None, most: int = 10
    ) -> dict[str, Facet]: ...
    def scoped(self, filter: _Filter) -> ScopedIndex: ...
    def page(self, after: _Id | None = None, limit: int = 100) -> list[Document]: ...
    def iter(self, filter: _Filter | None = None) -> Documents: ...
    @overload
    def search(
        self,
        query: str,
        k: int = 10,
        **options: Unpack[_SearchOptions],
    ) -> SearchResult: ...
    @overload
    def search(
        self,
        query: list[str] | tuple[str, ...],
        k: int = 10,
        **options: Unpack[_SearchOptions],
    ) -> list[SearchResult]: ...
    @overload
    def search(
        self,
        query: Sequence[float],
        k: int = 10,
        **options: Unpack[_SearchOptions],
    ) -> SearchResult: ...
    @overload
    def search(
        self,
        query: Sequence[Sequence[float]] | Sequence[NDArray[Any]],
        k: int = 10,
        **options: Unpack[_SearchOptions],
    ) -> list[SearchResult]: ...
    # One or several: an array by its dimensions.
    @overload
    def search(
        self,
        query: NDArray[Any] | Iterable[str],
        k: int = 10,
        **options: Unpack[_SearchOptions],
    ) -> Any: ...
    def explain(
        self,
        query: str,
        k: int = 10,
        *,
        against_exact: bool = False,
        **options: Unpack[_RequestOptions],
    ) -> Explanation: ...
    def flush(self) -> None: ...
    def refresh(self) -> bool: ...
    def stats(self) -> Stats: ...
    def notices(self) -> list[str]: ...
    def health(self) -> Health: ...
    def leaves(
        self,
        leaf: int | None = None,
        *,
        terms: int | None = None,
        samples: int | None = None,
        queries: _Column | None = None,
    ) -> list[_Json]: ...
    def verify(self, *, progress: _Progress = None) -> Verification: ...
    def snapshot(self, target: _Path) -> None: ...
    def compact(self, *, progress: _Progress = None) -> None: ...
    def make_lexical(self, words: str = "tokens", *, progress: _Progress = None) -> None: ...
    def rebuild_postings(self, *, progress: _Progress = None) -> None: ...
    def calibrate(self, questions: _Column | None = None, *, progress: _Progress = None) -> _Json: ...
    def tune(
        self,
        *,
        leaves: int | None = None,
        passes: int | None = None,
        questions: _Column | None = None,
        always: bool = False,
        seed: int = 0,
        checkpoints: _Path | None = None,
        resume: bool = False,
        progress: _Progress = None,
    ) -> _Json: ...
    def judge(self, pairs: _Judgments) -> JudgeSummary: ...
    def judgments(self) -> list[_Json]: ...
    def standings(self) -> list[_Json]: ...
    def judgments_of(self, question: str, ids: Iterable[_Id]) -> list[_Json | None]: ...
    def forget(
        self,
        pairs: _Judgments | None = None,
        *,
        question: str | None = None,
        before: float | None = None,
    ) -> int: ...
    @property
    def half_life(self) -> float | None: ...
    @half_life.setter
    def half_life(self, days: float | None) -> None: ...
    def log_questions(self, on: bool) -> None: ...
    def logged_questions(self) -> list[_Json]: ...
    def asked(self, most: int = 100) -> list[str]: ...
    def learnings(self) -> list[_Json]: ...
    def leaf_changes(self) -> _Json | None: ...
    def learnable(self, pairs: _Judgments | None = None) -> _Json: ...
    def learn(
        self,
        pairs: _Judgments | None = None,
        *,
        config: Mapping[str, object] | None = None,
        accept: bool = False,
        choose: Callable[[Learned], bool] | None = None,
        progress: _Progress = None,
    ) -> Learned: ...
    def fuse(self, pairs: _Judgments | None = None, *, progress: _Progress = None) -> _Json: ...
    def distil(
        self,
        pairs: _Judgments | None = None,
        *,
        kind: Literal["static", "none"] = "static",
        texts: int | None = None,
        passes: int | None = None,
        questions: _Column | None = None,
        seed: int = 0,
        progress: _Progress = None,
    ) -> _Json | None: ...
    def reencode(self, model: _Model, *, progress: _Progress = None) -> _Json: ...
    def rollback(self, *, progress: _Progress = None) -> _Json: ...
    def drop_previous_model(self) -> bool: ...
    def auto_tune(self, *, interval: float | None = None) -> AutoTune: ...

@final
class ScopedIndex:
    def __len__(self) -> int: ...
    def __contains__(self, id: _Id, /) -> bool: ...
    def __getitem__(self, id: _Id, /) -> Document: ...
    @overload
    def search(
        self,
        query: str,
        k: int = 10,
        **options: Unpack[_SearchOptions],
    ) -> SearchResult: ...
    @overload
    def search(
        self,
        query: list[str] | tuple[str, ...],
        k: int = 10,
        **options: Unpack[_SearchOptions],
    ) -> list[SearchResult]: ...
    @overload
    def search(
        self,
        query: Sequence[float],
        k: int = 10,
        **options: Unpack[_SearchOptions],
    ) -> SearchResult: ...
    @overload
    def search(
        self,
        query: Sequence[Sequence[float]] | Sequence[NDArray[Any]],
        k: int = 10,
        **options: Unpack[_SearchOptions],
    ) -> list[SearchResult]: ...
    # One or several: an array by its dimensions.
    @overload
    def search(
        self,
        query: NDArray[Any] | Iterable[str],
        k: int = 10,
        **options: Unpack[_SearchOptions],
    ) -> Any: ...
    @overload
    def get(self, ids: _Id) -> Document | None: ...
    @overload
    def get(self, ids: list[str] | list[int] | tuple[_Id, ...]) -> list[Document | None]: ...
    def delete(self, ids: _Id | Iterable[_Id] | None = None, *, filter: _Filter | None = None) -> int: ...
    def count(self, filter: _Filter | None = None) -> int: ...
    def ids(self, filter: _Filter | None = None) -> list[str]: ...
    def facets(
        self, fields: str | Sequence[str], filter: _Filter | None = None, most: int = 10
    ) -> dict[str, Facet]: ...

def train(
    base: _Path,
    output: _Path,
    *,
    data: _Path | None = None,
    documents: _Documents | None = None,
    pairs: _Judgments | None = None,
    config: Mapping[str, object] | None = None,
    progress: _Progress = None,
) -> tuple[Model, _Json]: ...
def train_reranker(
    base: _Path,
    output: _Path,
    *,
    data: _Path | None = None,
    documents: _Documents | None = None,
    pairs: _Judgments | None = None,
    index: Index | None = None,
    dev_fraction: float = 0.1,
    config: Mapping[str, object] | None = None,
    progress: _Progress = None,
) -> tuple[Reranker, _Json]: ...
def evaluate(
    index: Index,
    data: _Path,
    *,
    split: str = "test",
    beams: Sequence[int] | None = None,
    encoder: _Encoder | None = None,
    ignore_identical_ids: bool | None = None,
    progress: _Progress = None,
) -> _Json: ...
