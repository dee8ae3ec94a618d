"""Manifests: what a published set of shards consists of. A new state of the set is a new manifest."""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Iterable
from typing import Any

from .basics import Json, ManifestError, PublishConflict, is_number
from .scratch import work_folder
from .storage import Storage, is_inside

FORMAT = 1
FOLDER = "manifests"
_NAME = re.compile(rf"{FOLDER}/(\d{{9}})\.json")
# Attempts to read the newest manifest while others clean it away.
_LOOKS = 20
_HEX32, _HEX64 = re.compile("[0-9a-f]{32}"), re.compile("[0-9a-f]{64}")
_TOMBSTONES = re.compile(r"tombstones/[0-9a-f]{32}\.json\.gz")
# Numbers that an error lists.
_LISTED = 20


def name_of(version: int) -> str:
    return f"{FOLDER}/{version:09}.json"


def versions(storage: Storage) -> list[int]:
    """Numbers of the manifests that are there, ascending.

    A number that `clean` has removed stays taken by an empty object. So a publisher that has read an old
    state cannot create a number that is below the newest, in which nobody would see what it has published:
    whatever calls come in between, creating a number succeeds once and never again.
    """
    found = ((_NAME.fullmatch(name), size) for name, size in storage.list(FOLDER))
    return sorted(int(match[1]) for match, size in found if match and size)


def latest_version(storage: Storage) -> int:
    """Number of the newest manifest; 0 where there is none. It never falls: `clean` keeps that one."""
    return max(versions(storage), default=0)


def remove(storage: Storage, numbers: Iterable[int]) -> None:
    """Empties manifests, each in one step: its number is taken all the while."""
    with work_folder("empty") as folder:
        (folder / "manifest").touch()
        for number in numbers:
            storage.upload(name_of(number), folder / "manifest")


def read(storage: Storage, version: int | None = None) -> Json:
    """A manifest, the newest unless asked otherwise."""
    number = 0
    for _ in range(_LOOKS):
        number = latest_version(storage) if version is None else version
        with contextlib.suppress(FileNotFoundError):
            if number != 0 and (data := storage.get(name_of(number))):
                return decode(data, number)
        if version is not None or number == 0:
            break
        # A newer one was published and this one removed after listing.
    there = versions(storage)
    if not there:
        raise ManifestError(f"there is no set at {storage.place}: nothing was published there")
    kept = ", ".join(map(str, there[-_LISTED:]))
    more = f" and {len(there) - _LISTED} older ones" if len(there) > _LISTED else ""
    raise ManifestError(f"there is no manifest {number} at {storage.place}; there are {kept}{more}")


def decode(data: bytes, number: int) -> Json:
    try:
        manifest: Json = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ManifestError(f"manifest {number} is damaged: {error}") from None
    wrong = flaw(manifest, {"format": _is_count, "version": lambda value: value == number})
    if not wrong and manifest["format"] != FORMAT:
        raise ManifestError(
            f"manifest {number} has format {manifest['format']}, this version of ehi reads {FORMAT}"
        )
    if wrong := wrong or flaw(manifest):
        raise ManifestError(f"manifest {number} is damaged: {wrong}")
    return manifest


def _is_count(value: Any) -> bool:
    """Whether it is a whole number of a size that occurs."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63


# The schema of a value: a type, a pattern for text, or a predicate; `[shape]` is a list, a dictionary the
# fields of an object, and a pair with `None` a value that may be null. A field whose name ends in `?` may be
# absent. A manifest names folders and files to create here, so no name may lead outside.
_FILE = {"name": is_inside, "bytes": _is_count, "sha256": _HEX64}
_SHAPE = {
    "beam": lambda value: _is_count(value) and value > 0,
    "documents": _is_count,
    "words": (None, str),
    "precision": str,
    "alpha": (None, lambda value: is_number(value) and 0 <= value <= 1),
    "model": {
        "hash": _HEX64,
        "attempt": _HEX32,
        "has_tree": bool,
        "files": [{**_FILE, "same?": lambda value: False}],
    },
    "shards": [
        {
            "key": _HEX32,
            "attempt": _HEX32,
            "model": _HEX64,
            "content": _HEX64,
            "rows": _is_count,
            "bytes": _is_count,
            "added": _is_count,
            "terms": (None, {"sha256": _HEX64}),
            "refused": [{"id": str, "reason": str}],
            "files": [{**_FILE, "same?": is_inside}],
        }
    ],
    "tombstones": [{"name": _TOMBSTONES, "sha256": _HEX64, "before": _is_count, "ids": _is_count}],
    "statistics": (None, {"sha256": _HEX64}),
    "columns?": (None, dict),
    "judgments?": (None, {"sha256": _HEX64}),
}


def flaw(value: Any, shape: Any = _SHAPE, at: str = "it") -> str | None:
    """What is wrong with the shape of a manifest; `None` if it can be used."""
    if isinstance(shape, tuple):
        return None if value is None else flaw(value, shape[1], at)
    if isinstance(shape, dict) and isinstance(value, dict):
        for name, own in shape.items():
            if (field := name.removesuffix("?")) not in value:
                if name == field:
                    return f"{at} lacks `{field}`"
            elif wrong := flaw(value[field], own, f"`{field}` of {at}"):
                return wrong
        return None
    if isinstance(shape, list) and isinstance(value, list):
        return next(filter(None, (flaw(own, shape[0], f"an entry of {at}") for own in value)), None)
    if isinstance(shape, re.Pattern):
        is_right = isinstance(value, str) and bool(shape.fullmatch(value))
    elif isinstance(shape, type):
        is_right = isinstance(value, shape)
    else:
        is_right = callable(shape) and shape(value)
    return None if is_right else f"{at} is not what it has to be: {value!r:.200}"


def encode(manifest: Json) -> bytes:
    return json.dumps(manifest, indent=1, sort_keys=True).encode()


def publish(storage: Storage, manifest: Json, parent: int) -> int:
    """Creates the manifest after `parent`, which is or was the newest, if absent; its number. See `versions`
    for what comes of one that is not the newest any more.

    `PublishConflict` where another publisher was first: what was read may be out of date then.
    """
    version = parent + 1
    manifest = {**manifest, "format": FORMAT, "version": version, "published": round(time.time(), 3)}
    wrong = flaw(manifest)
    if wrong:
        raise ManifestError(f"this cannot be published: {wrong}")
    if not storage.create(name_of(version), encode(manifest)):
        raise PublishConflict(version)
    return version
