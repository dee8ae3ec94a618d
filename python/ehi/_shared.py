"""What the modules for other people's tools share."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from os import PathLike
from typing import Any, TypeAlias

from . import Index, Model

Path: TypeAlias = str | PathLike[str]

_KNOWN = frozenset(inspect.signature(Index.search).parameters) - {"self", "query"}


def known_options(options: Mapping[str, Any], *taken: str) -> None:
    """Raises a `TypeError` for options that `Index.search` does not have, and for those that the caller has
    an argument for: they are kept for later searches, and so are checked when they are given.
    """
    if unknown := [name for name in options if name not in _KNOWN]:
        raise TypeError(
            f"Index.search has no option {', '.join(unknown)}; it has {', '.join(sorted(_KNOWN))}"
        )
    if twice := [name for name in options if name in taken]:
        raise TypeError(f"given by an argument of its own: {', '.join(twice)}")


def opened(index: Index | Path, model: Model | Path | None, **options: Any) -> Index:
    """An index that is open, or the one at a path; with a model it is made where there is none."""
    if isinstance(index, Index):
        if model is not None or options:
            raise TypeError("an open index has its model and options")
        return index
    if model is None:
        return Index.open(index, **options)
    return Index.create(index, model, exist_ok=True, **options)


def check(summary: Mapping[str, Any]) -> None:
    """`ValueError` where documents were refused."""
    if refused := summary["refused"]:
        first = refused[0]
        raise ValueError(
            f"{len(refused)} documents were refused, the first of them {first['id']}: {first['error']}"
        )


def fields_of(title: str, metadata: Any) -> dict[str, Any]:
    """Metadata for tools that have no place for a title, nor for metadata that is not a dictionary; documents
    that others have stored may have both.
    """
    fields = metadata if isinstance(metadata, dict) else {} if metadata is None else {"metadata": metadata}
    return {"title": title, **fields} if title else dict(fields)
