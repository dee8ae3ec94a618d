"""Manifests: what a published set of shards consists of. A new state of the set is a new manifest."""

from __future__ import annotations

import base64
import json
import re
import time
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

from .errors import ManifestError, PublishConflict
from .names import Json
from .storage import Storage

FORMAT = 1
FOLDER = "manifests"
_NAME = re.compile(rf"{FOLDER}/(\d{{9}})\.json")
# Numbers that an error lists.
_LISTED = 20
_NEEDED = ("format", "version", "model", "words", "documents", "shards", "tombstones", "beam")


def name_of(version: int) -> str:
    return f"{FOLDER}/{version:09}.json"


def versions(storage: Storage) -> list[int]:
    """Numbers of the manifests that are there, ascending."""
    found = (_NAME.fullmatch(name) for name, _ in storage.list(FOLDER))
    return sorted(int(match[1]) for match in found if match)


def latest_version(storage: Storage) -> int:
    """Number of the newest manifest; 0 where there is none."""
    return max(versions(storage), default=0)


def read(storage: Storage, version: int | None = None) -> Json:
    """A manifest, the newest unless asked otherwise."""
    number = latest_version(storage) if version is None else version
    if number != 0:
        try:
            return decode(storage.get(name_of(number)), number)
        except FileNotFoundError:
            pass
    there = versions(storage)
    if not there:
        raise ManifestError(f"there is no set at {storage.place}: nothing was published there")
    kept = ", ".join(map(str, there[-_LISTED:]))
    more = f" and {len(there) - _LISTED} older ones" if len(there) > _LISTED else ""
    raise ManifestError(f"there is no manifest {number} at {storage.place}; there are {kept}{more}")


def decode(data: bytes, number: int) -> Json:
    try:
        manifest = json.loads(data)
    except ValueError as error:
        raise ManifestError(f"manifest {number} is damaged: {error}") from None
    if not isinstance(manifest, dict) or any(name not in manifest for name in _NEEDED):
        raise ManifestError(f"manifest {number} is damaged: it lacks what every manifest has")
    if manifest["format"] != FORMAT:
        raise ManifestError(
            f"manifest {number} has format {manifest['format']}, this version of ehi reads {FORMAT}"
        )
    if manifest["version"] != number:
        raise ManifestError(f"manifest {number} is damaged: it says that it is number {manifest['version']}")
    return manifest


def encode(manifest: Json) -> bytes:
    return json.dumps(manifest, indent=1, sort_keys=True).encode()


def publish(storage: Storage, manifest: Json, parent: int) -> int:
    """Creates the manifest after `parent` if absent; its number.

    `PublishConflict` where another publisher was first: what was read may be out of date then.
    """
    version = parent + 1
    manifest = {**manifest, "format": FORMAT, "version": version, "published": round(time.time(), 3)}
    if not storage.create(name_of(version), encode(manifest)):
        raise PublishConflict(version)
    return version


def pack_counts(counts: Any) -> str:
    """Counts as text: little-endian uint32, deflated, in base64."""
    return base64.b64encode(zlib.compress(np.asarray(counts, dtype="<u4").tobytes(), 6)).decode()


def unpack_counts(text: str) -> npt.NDArray[np.uint32]:
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), dtype="<u4")
