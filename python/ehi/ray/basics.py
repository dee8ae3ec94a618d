"""What all modules share: errors of sets of shards, types, and checks of what calls are given."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np

from ehi import Error

# Manifests, entries of shards, plans and requests: data written as JSON or passed between processes.
Json: TypeAlias = dict[str, Any]
# A path, or the URI of an object store.
Uri: TypeAlias = "str | os.PathLike[str]"
# Options of an object store, as in `obstore`.
Options: TypeAlias = Mapping[str, Any] | None


class ShardsError(Error):
    """A set of shards that cannot be built, published or searched."""


class ManifestError(ShardsError):
    """A place without a manifest, or a manifest that cannot be used."""


class PublishConflict(ShardsError):
    """Another publisher was first; its manifest is number `version`."""

    def __init__(self, version: int) -> None:
        super().__init__(f"manifest {version} was published by another publisher")
        self.version = version

    def __reduce__(self) -> tuple[Any, ...]:
        return (PublishConflict, (self.version,))


class ShardError(ShardsError):
    """A shard that cannot be used; `shard` is its key."""

    def __init__(self, shard: str, reason: str) -> None:
        super().__init__(f"shard {shard}: {reason}")
        self.shard = shard
        self.reason = reason

    def __reduce__(self) -> tuple[Any, ...]:
        return (ShardError, (self.shard, self.reason))


class StorageError(ShardsError):
    """A place where shards lie that cannot be read or written."""


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


def digest_of(value: Any) -> str:
    """A hash that stands for a value, which is written as JSON."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def is_number(value: Any) -> bool:
    """Whether it is a number that is finite and not too large to be any other."""
    is_real = isinstance(value, (int, float, np.floating)) and not isinstance(value, bool)
    return is_real and bool(-1e18 < value < 1e18)
