"""Documents of a dataset, by the rules of `ehi insert`, and the files that hold them for the worker of their
shard.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence

import ehi
from ehi import shards as parts

from .basics import Json
from .storage import Storage, read_checked

METADATA = "metadata"
# Changes with the reading of records, so that a build begun with another rule is not resumed.
RULES = 3


def given(
    id: str | None = None,
    text: str | Sequence[str] | None = None,
    title: str | None = None,
    metadata: str | Sequence[str] | None = None,
) -> Json:
    """The columns that a caller names, checked; `None` for those that are found by themselves.

    `metadata` as a text is a column of objects, which are the metadata; as a list, columns, each a field.
    """
    texts = [text] if isinstance(text, str) else text
    fields = metadata if metadata is None or isinstance(metadata, str) else list(metadata)
    columns: Json = {"id": id, "text": None if texts is None else list(texts), "title": title}
    columns["metadata"] = fields
    # Raises an error if an option names a column twice.
    Reader(b"", columns)
    return columns


def named(columns: Json) -> set[str]:
    """All names that were given."""
    values = (value for value in columns.values() if value is not None)
    return {name for value in values for name in ([value] if isinstance(value, str) else value)}


class Reader:
    """The documents of a file, or of a block of a Ray dataset as a stream of Arrow. In a block a missing field
    is null, so a null counts as missing.
    """

    def __init__(self, source: str | bytes, columns: Json) -> None:
        self._is_block = isinstance(source, bytes)
        self._members = columns["metadata"] if isinstance(columns["metadata"], str) else None
        fields = columns["metadata"] if self._members is None else [self._members]
        self._records = parts.read(source, **{**columns, "metadata": fields})

    def unseen(self) -> list[str]:
        """At the end, names of optional columns that no record had."""
        return self._records.unseen

    def __iter__(self) -> Iterator[Json]:
        for document in self._records:
            if self._members is not None:
                _take_members(document, self._members)
            if self._is_block:
                fields = document.pop("metadata", {})
                _set_metadata(document, {name: own for name, own in fields.items() if own is not None})
            yield document


def _take_members(document: Json, name: str) -> None:
    """Makes one column, an object or its JSON as text, the metadata of a document."""
    fields = document.pop("metadata", {})
    # The members of an object `metadata` are fields already.
    value = fields if name == METADATA and not isinstance(fields.get(name), str) else fields.get(name)
    try:
        if isinstance(value, str):
            value = json.loads(value, parse_constant=lambda _: None)
            # Half of a pair of surrogates is not text.
            json.dumps(value, ensure_ascii=False).encode()
        if not isinstance(value or {}, dict):
            raise ValueError("it is not an object")
    except (ValueError, RecursionError) as error:
        raise ehi.DataError(
            f"the document `{document['id']}`: the metadata in `{name}` cannot be used: {error}; "
            f"`metadata=[{name!r}]` makes a field of that column"
        ) from None
    _set_metadata(document, value)


def _set_metadata(document: Json, fields: Json | None) -> None:
    if fields:
        document["metadata"] = fields


def hash_of(id: str, purpose: bytes = b"") -> int:
    """A hash of an id, of 64 bits; those of one purpose have nothing to do with those of another."""
    return int.from_bytes(hashlib.blake2b(id.encode(), digest_size=8, person=purpose).digest(), "big")


def partition_of(id: str, shards: int) -> int:
    """The shard that an id belongs to: equal ids meet in one shard, whatever the order of the input."""
    return hash_of(id) % shards


def line_of(document: Json) -> bytes:
    """A document as a line of a spool file."""
    return json.dumps(document, ensure_ascii=False, sort_keys=True).encode() + b"\n"


def spooled(storage: Storage, files: Iterable[Json]) -> Iterator[Json]:
    """The documents of spool files, in their order."""
    for file in files:
        for line in gzip.decompress(read_checked(storage, file["name"], file["sha256"])).splitlines():
            yield json.loads(line)
