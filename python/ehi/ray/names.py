"""Types that several modules share, and checks of what calls are given."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, TypeAlias

# Manifests, entries of shards, plans and requests: what is written as JSON, or handed between processes.
Json: TypeAlias = dict[str, Any]
# A path, or the URI of an object store.
Uri: TypeAlias = "str | os.PathLike[str]"
# Those of an object store, as `obstore` has them.
Options: TypeAlias = Mapping[str, Any] | None


def job_name(name: Any) -> str:
    """The name of a build or a candidate, which is that of a folder; a `ValueError` if it cannot be one."""
    if not isinstance(name, str) or not name.replace("-", "").replace("_", "").isalnum():
        raise ValueError(f"`name` is {name!r}; use letters, digits, - and _")
    return name


def whole_number(name: str, value: Any, least: int = 1) -> int:
    """The value; a `ValueError` that names it if it is not a whole number from `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"`{name}` is {value!r}; it is a whole number from {least}")
    return value
