"""Options that are kept for later searches are looked at when they are given."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from . import Index

_KNOWN = frozenset(inspect.signature(Index.search).parameters) - {"self", "query"}


def known_options(options: Mapping[str, Any], *taken: str) -> None:
    """A `TypeError` of options that `Index.search` has not, and of those that the caller has a name for."""
    if unknown := [name for name in options if name not in _KNOWN]:
        raise TypeError(f"Index.search has no option {', '.join(unknown)}; it has {', '.join(sorted(_KNOWN))}")
    if twice := [name for name in options if name in taken]:
        raise TypeError(f"given by an argument of its own: {', '.join(twice)}")
