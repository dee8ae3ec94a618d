from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any, TypeAlias, final

import numpy as np
import numpy.typing as npt

from . import Index, Model, SearchResult

_Path: TypeAlias = str | PathLike[str]
_Vector: TypeAlias = npt.NDArray[np.float32] | npt.NDArray[np.float16]
_Candidate: TypeAlias = tuple[str, float, float | None, bool, bool]

__all__ = [
    "TermStatistics",
    "candidates",
    "compare",
    "copy",
    "fuse",
    "ids",
    "is_held_out",
    "leaf_rows",
    "make_tree",
    "plain_question",
    "route",
    "search",
    "term_statistics",
]

@final
class TermStatistics:
    @staticmethod
    def from_bytes(bytes: bytes) -> TermStatistics: ...
    def to_bytes(self) -> bytes: ...
    @property
    def kind(self) -> str: ...
    @property
    def documents(self) -> int: ...
    @property
    def total_length(self) -> int: ...
    @property
    def terms(self) -> int: ...
    def __add__(self, value: TermStatistics, /) -> TermStatistics: ...
    def __radd__(self, value: TermStatistics, /) -> TermStatistics: ...

def term_statistics(index: Index) -> TermStatistics: ...
def leaf_rows(index: Index) -> npt.NDArray[np.uint32]: ...
def route(
    model: Model, vector: _Vector, beam: int
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.float32]]: ...
def plain_question(question: str) -> str: ...
def search(
    index: Index,
    k: int,
    *,
    text: str | None = None,
    vector: _Vector | None = None,
    leaves: Sequence[int] | None = None,
    mode: str = "dense",
    statistics: TermStatistics | None = None,
    bm25: tuple[float, float] | None = None,
    filter: dict[str, Any] | str | None = None,
    codes: bool | None = None,
    ids_only: bool = False,
) -> SearchResult: ...
def candidates(
    index: Index,
    text: str,
    vector: _Vector,
    depth: int,
    *,
    leaves: Sequence[int] | None = None,
    statistics: TermStatistics | None = None,
    bm25: tuple[float, float] | None = None,
    filter: dict[str, Any] | str | None = None,
    codes: bool | None = None,
) -> tuple[list[_Candidate], bool, int]: ...
def fuse(
    candidates: Sequence[_Candidate],
    depth: int,
    k: int,
    *,
    alpha: float | None = None,
    rrf: float | None = None,
) -> list[dict[str, Any]]: ...
def make_tree(
    index: Index,
    path: _Path,
    *,
    leaves: int | None = None,
    passes: int | None = None,
    questions: Sequence[str] | None = None,
    seed: int = 0,
    progress: Callable[[str, int, int | None], bool | None] | None = None,
) -> dict[str, Any]: ...
def ids(index: Index) -> list[str]: ...
def is_held_out(question: str) -> bool: ...
def copy(source: Index, target: Index, ids: Sequence[str] | None = None) -> int: ...
def compare(
    questions: Sequence[tuple[Sequence[str], Sequence[str], Sequence[str]]], *, seed: int = 0
) -> dict[str, Any]: ...
