"""Rows of a dataset as documents, and the files in which they wait for the worker of their shard."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
from collections.abc import Callable, Iterable, Iterator, Sequence

from .errors import DatasetError
from .names import Json

IDS = ("id", "_id")
TITLE = "title"
_MISSING = object()


def choose(
    names: Iterable[str],
    id: str | None = None,
    text: str = "text",
    title: str | None = None,
    metadata: str | Sequence[str] | None = None,
) -> Json:
    """The columns that are read, checked against those that a dataset has.

    Without `id` the column is `id` or `_id`; without `title` a column `title` is taken if there is one.
    `metadata` is the name of a column of dictionaries, or a list of columns, each of which becomes a field.
    """
    names = list(names)
    if id is None:
        id = next((name for name in IDS if name in names), None)
        if id is None:
            raise DatasetError(f"the dataset has no column `id` or `_id`; it has {_listed(names)}")
    if title is None and TITLE in names:
        title = TITLE
    fields = [metadata] if isinstance(metadata, str) else list(metadata or [])
    for name in [id, text, *([title] if title else []), *fields]:
        if name not in names:
            raise DatasetError(f"the dataset has no column `{name}`; it has {_listed(names)}")
    return {"id": id, "text": text, "title": title, "metadata": metadata}


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "none"


def partition_of(id: str, shards: int) -> int:
    """The shard that an id belongs to: equal ids meet in one shard, whatever the order of the input."""
    return int.from_bytes(hashlib.blake2b(id.encode(), digest_size=8).digest(), "big") % shards


def rows_of(columns: Json, table: Json) -> Iterator[Json]:
    """Documents from columns, as lists, of one length."""
    count = len(table[columns["id"]])
    metadata = columns["metadata"]
    for place in range(count):
        id, text = table[columns["id"]][place], table[columns["text"]][place]
        if id is None or isinstance(id, (bytes, float, bool)):
            raise DatasetError(f"an id is {id!r}; ids are texts or whole numbers")
        if not isinstance(text, str):
            raise DatasetError(f"the text of `{id}` is {text!r}")
        document: Json = {"id": str(id), "text": text}
        title = table[columns["title"]][place] if columns["title"] else None
        if title is not None:
            document["title"] = str(title)
        if isinstance(metadata, str):
            own = table[metadata][place]
            if isinstance(own, str):
                own = json.loads(own)
            if own is not None:
                document["metadata"] = own
        elif metadata:
            document["metadata"] = {name: table[name][place] for name in metadata}
        yield document


def packed(documents: Iterable[Json]) -> bytes:
    """Documents as the bytes of a spool file."""
    out = io.BytesIO()
    # Without a time, so that equal documents are equal bytes.
    with gzip.GzipFile(fileobj=out, mode="wb", compresslevel=1, mtime=0) as file:
        for document in documents:
            try:
                line = json.dumps(document, ensure_ascii=False, sort_keys=True)
            except (TypeError, ValueError) as error:
                raise DatasetError(f"the metadata of `{document['id']}` is no JSON: {error}") from None
            file.write(line.encode("utf-8", "surrogatepass") + b"\n")
    return out.getvalue()


def unpacked(data: bytes) -> Iterator[Json]:
    """The documents of a spool file, one at a time."""
    with gzip.open(io.BytesIO(data), "rt", encoding="utf-8", errors="surrogatepass") as file:
        for line in file:
            yield json.loads(line)


def last_of_each(read: Callable[[], Iterable[Json]]) -> Iterator[Json]:
    """Of documents with one id the last; `read` gives them all, as often as it is called.

    Memory is for ids alone.
    """
    last = {}
    for place, document in enumerate(read()):
        last[document["id"]] = place
    for place, document in enumerate(read()):
        if last[document["id"]] == place:
            yield document
