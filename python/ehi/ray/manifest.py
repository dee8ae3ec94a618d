"""Manifests: what a published set of shards consists of. A new state of the set is a new manifest."""

from __future__ import annotations

import base64
import json
import re
import time
import zlib
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from .errors import ManifestError, PublishConflict
from .names import Json
from .scratch import Scratch
from .storage import Storage

FORMAT = 1
FOLDER = "manifests"
_NAME = re.compile(rf"{FOLDER}/(\d{{9}})\.json")
# Leaves of a tree, at most: so long may the counts of a shard be that somebody else has written.
MOST_LEAVES = 1 << 26
# How often the newest one is looked for that is cleaned away before it is read.
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
    with Scratch("empty") as folder:
        (folder / "manifest").touch()
        for number in numbers:
            storage.upload(name_of(number), folder / "manifest")


def read(storage: Storage, version: int | None = None) -> Json:
    """A manifest, the newest unless asked otherwise."""
    for _ in range(_LOOKS):
        number = latest_version(storage) if version is None else version
        data = b""
        if number != 0:
            try:
                data = storage.get(name_of(number))
            except FileNotFoundError:
                pass
        if data:
            return decode(data, number)
        if version is not None or number == 0:
            break
        # A newer one was published and this one cleaned away, after the list.
    there = versions(storage)
    if not there:
        raise ManifestError(f"there is no set at {storage.place}: nothing was published there")
    kept = ", ".join(map(str, there[-_LISTED:]))
    more = f" and {len(there) - _LISTED} older ones" if len(there) > _LISTED else ""
    raise ManifestError(f"there is no manifest {number} at {storage.place}; there are {kept}{more}")


def decode(data: bytes, number: int) -> Json:
    try:
        manifest = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ManifestError(f"manifest {number} is damaged: {error}") from None
    if not isinstance(manifest, dict) or not {"format", "version"} <= manifest.keys():
        raise ManifestError(f"manifest {number} is damaged: it lacks what every manifest has")
    if manifest["format"] != FORMAT:
        raise ManifestError(
            f"manifest {number} has format {manifest['format']}, this version of ehi reads {FORMAT}"
        )
    if manifest["version"] != number:
        raise ManifestError(f"manifest {number} is damaged: it says that it is number {manifest['version']}")
    wrong = flaw(manifest)
    if wrong:
        raise ManifestError(f"manifest {number} is damaged: {wrong}")
    return manifest


def flaw(manifest: Json) -> str | None:
    """What is wrong with the shape of a manifest; `None` of one that can be used.

    A manifest names folders and files that are made here: no name in it leads out of them.
    """
    try:
        if not _has(_int, manifest, "beam", "documents"):
            return "beam or documents are no whole numbers"
        if manifest["beam"] < 1 or not all(
            _is(str, manifest[name], optional) for name, optional in (("words", True), ("precision", False))
        ):
            return "beam, words or precision are none"
        if manifest["alpha"] is not None and not (_number(manifest["alpha"]) and 0 <= manifest["alpha"] <= 1):
            return "alpha is no number from 0 to 1"
        _check_model(manifest["model"])
        for entry in _list(manifest["shards"], "shards"):
            _check_shard(entry)
        for entry in _list(manifest["tombstones"], "tombstones"):
            _expect(_TOMBSTONES.fullmatch(entry["name"]) and _hex(entry["sha256"]), "a tombstone file")
            _expect(_has(_int, entry, "before", "ids"), "a tombstone file")
        if manifest["statistics"] is not None:
            _expect(_hex(manifest["statistics"]["sha256"]), "the statistics of words")
        for own in _list(manifest.get("appends", []), "appends"):
            _expect(_is(str, own["name"]) and _int(own["version"]), "an append")
        _expect(_is(dict, manifest.get("columns"), True), "what is said of columns")
        if "candidate" in manifest:
            _expect(all(_is(str, manifest["candidate"][name]) for name in ("name", "of")), "the candidate")
    except KeyError as error:
        return f"it lacks {error}"
    except (TypeError, ValueError, AttributeError, IndexError, zlib.error) as error:
        return str(error)
    return None


def _check_model(model: Json) -> None:
    _expect(_hex(model["hash"]) and _hex(model["attempt"], _HEX32), "the name of the model")
    _expect(_is(bool, model["has_tree"]), "what is said of a tree")
    _check_files(model["files"], "the model")
    _expect(not any("same" in file for file in model["files"]), "a file of the model")


def _check_shard(entry: Json) -> None:
    key = entry["key"]
    _expect(_hex(key, _HEX32) and _hex(entry["attempt"], _HEX32), "the name of a shard")
    _expect(_hex(entry["model"]) and _hex(entry["content"]), f"shard {key}")
    _expect(_has(_int, entry, "rows", "bytes", "added"), f"the numbers of shard {key}")
    _expect(_is(str, entry["leaf_rows"]), f"the rows of the leaves of shard {key}")
    unpack_counts(entry["leaf_rows"])
    _expect(entry["terms"] is None or _hex(entry["terms"]["sha256"]), f"the words of shard {key}")
    for own in _list(entry["refused"], "refused documents"):
        _expect(_is(str, own["id"]) and _is(str, own["reason"]), f"a refused document of shard {key}")
    _check_files(entry["files"], f"shard {key}")


def _check_files(files: Any, whose: str) -> None:
    for file in _list(files, "files"):
        names = [file["name"], *([file["same"]] if "same" in file else [])]
        if not all(_is(str, name) and _is_inside(name) for name in names):
            raise ValueError(f"a file of {whose} has a name that leads elsewhere, or is none: {names!r:.200}")
        _expect(_hex(file["sha256"]) and _int(file["bytes"]), f"a file of {whose}")


def _is_inside(name: str) -> bool:
    """Whether a name is one of a file below a folder."""
    parts = name.split("/")
    return not any(part in ("", ".", "..") or "\0" in part or "\\" in part for part in parts)


def _expect(holds: Any, what: str) -> None:
    if not holds:
        raise ValueError(f"{what} is not as it should be")


def _is(kind: type, value: Any, optional: bool = False) -> bool:
    return isinstance(value, kind) or (optional and value is None)


def _int(value: Any) -> bool:
    """Whether it is a whole number, and one of a size that occurs."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _has(check: Callable[[Any], bool], of: Json, *names: str) -> bool:
    return all(check(of[name]) for name in names)


def _hex(value: Any, pattern: re.Pattern[str] = _HEX64) -> bool:
    return isinstance(value, str) and pattern.fullmatch(value) is not None


def _list(value: Any, what: str) -> list[Json]:
    """A list of objects, if it is one."""
    if not isinstance(value, list) or not all(isinstance(own, dict) for own in value):
        raise ValueError(f"its {what} are no list of objects")
    return value


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


def pack_counts(counts: Any) -> str:
    """Counts as text: little-endian uint32, deflated, in base64."""
    return base64.b64encode(zlib.compress(np.asarray(counts, dtype="<u4").tobytes(), 6)).decode()


def unpack_counts(text: str) -> npt.NDArray[np.uint32]:
    stream = zlib.decompressobj()
    inflated = stream.decompress(base64.b64decode(text, validate=True), MOST_LEAVES * 4)
    if not stream.eof:
        raise ValueError(f"counts are cut off, or are more than {MOST_LEAVES}")
    return np.frombuffer(inflated, dtype="<u4")
