"""Checks of what calls are given."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


# Those of a search, beside `k`.
OF_SEARCH = ("beam", "exact", "mode", "alpha", "rrf", "filter", "bm25", "codes", "seconds")


def known(options: Iterable[str]) -> None:
    """A `TypeError` of what is no option of a search."""
    unknown = sorted(set(options) - set(OF_SEARCH))
    if unknown:
        raise TypeError(f"`{unknown[0]}` is not an option; known are k, {', '.join(OF_SEARCH)}")


def job_name(name: Any) -> str:
    """The name of a build or a candidate, which is that of a folder, if it is one; a `ValueError` else."""
    if not isinstance(name, str) or not name.replace("-", "").replace("_", "").isalnum():
        raise ValueError(f"`name` is {name!r}; it is of letters, digits, - and _")
    return name


def whole_number(name: str, value: Any, least: int = 1) -> int:
    """The value, if it is a whole number from `least`; a `ValueError` that names it else."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"`{name}` is {value!r}; it is a whole number from {least}")
    return value
