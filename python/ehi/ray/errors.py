"""What goes wrong with sets of shards."""

from __future__ import annotations

from typing import Any

from ehi import Error


class ShardsError(Error):
    """A set of shards that cannot be built, published or searched."""


class DatasetError(ShardsError):
    """A dataset that is empty, or lacks a column."""


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
