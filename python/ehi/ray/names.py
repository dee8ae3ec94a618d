"""Names of types that several modules share."""

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
