from collections.abc import Sequence
from os import PathLike
from typing import Any, TypeAlias, final

import numpy.typing as npt

from typing_extensions import Unpack

from . import Index, Model, _Judgments, _SearchOptions

_Path: TypeAlias = str | PathLike[str]
_Vector: TypeAlias = npt.NDArray[Any] | Sequence[float]
_Candidate: TypeAlias = tuple[str, float | None, float | None, bool, bool]
_Moved: TypeAlias = tuple[str, float, dict[str, Any] | None]

__all__ = [
    "Judgments",
    "Records",
    "TermStatistics",
    "candidates",
    "check",
    "compare",
    "copy",
    "fuse",
    "is_held_out",
    "make_tree",
    "plain_question",
    "read",
    "route",
    "term_statistics",
]

@final
class Records:
    @property
    def unseen(self) -> list[str]: ...
    def __iter__(self) -> Records: ...
    def __next__(self) -> dict[str, Any]: ...

def read(
    source: _Path | bytes,
    *,
    id: str | None = None,
    title: str | None = None,
    text: Sequence[str] | None = None,
    metadata: Sequence[str] | None = None,
) -> Records: ...

@final
class Judgments:
    def __new__(cls, judgments: _Judgments) -> Judgments: ...
    @staticmethod
    def from_bytes(bytes: bytes) -> Judgments: ...
    def to_bytes(self) -> bytes: ...
    def all(self) -> list[dict[str, Any]]: ...
    def of(self, question: str) -> list[_Moved]: ...
    def __len__(self) -> int: ...

@final
class TermStatistics:
    @staticmethod
    def from_bytes(bytes: bytes) -> TermStatistics: ...
    def to_bytes(self) -> bytes: ...
    @property
    def documents(self) -> int: ...
    @property
    def terms(self) -> int: ...
    def __add__(self, value: TermStatistics, /) -> TermStatistics: ...
    def __radd__(self, value: TermStatistics, /) -> TermStatistics: ...

def term_statistics(index: Index) -> TermStatistics: ...
def route(model: Model, vector: _Vector, beam: int) -> list[int]: ...
def plain_question(question: str) -> str: ...
def candidates(
    index: Index,
    text: str | None,
    vector: _Vector | None,
    depth: int,
    moved: Sequence[_Moved] = ...,
    **options: Unpack[_SearchOptions],
) -> tuple[list[_Candidate], bool, int]: ...
def check(k: int, **options: Unpack[_SearchOptions]) -> None: ...
def fuse(
    candidates: Sequence[_Candidate],
    depth: int,
    k: int,
    moved: Sequence[_Moved] = ...,
    **options: Unpack[_SearchOptions],
) -> list[dict[str, Any]]: ...
def make_tree(
    index: Index, path: _Path, *, leaves: int | None = None, passes: int | None = None
) -> dict[str, Any]: ...
def is_held_out(question: str) -> bool: ...
def copy(source: Index, target: Index, ids: Sequence[str] | None = None) -> int: ...
def compare(questions: Sequence[tuple[Sequence[str], Sequence[str], Sequence[str]]]) -> dict[str, Any]: ...
