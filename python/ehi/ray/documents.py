"""Records of a dataset as documents, by the rules of `ehi insert`, and the files that hold them for the worker of
their shard. Values of columns become JSON: dates, times and decimals become text, NaN becomes null.
"""

from __future__ import annotations

import datetime
import decimal
import gzip
import hashlib
import io
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from .basics import DatasetError, Json
from .storage import Storage, read_checked

IDS = ("_id", "id")
TITLE, TEXT, METADATA = "title", "text", "metadata"
# Changes with the conversion of records, so that a build begun with another rule is not resumed.
RULES = 2
_BETWEEN = "\n\n"

Read = Callable[[Any], Any]


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
    chosen: Json = {"id": id, "text": None if texts is None else list(texts), "title": title}
    chosen["metadata"] = fields
    if chosen["text"] == []:
        raise ValueError("`text` is empty; it names a column, or several")
    names = named(chosen)
    for place, name in enumerate(names):
        if not isinstance(name, str):
            raise TypeError(f"{name!r} is not the name of a column")
        if name in names[:place]:
            raise ValueError(f"the column `{name}` is named twice")
    return chosen


def named(columns: Json) -> list[str]:
    """All names that were given."""
    fields = columns["metadata"] or []
    alone = [columns[role] for role in ("id", "title") if columns[role] is not None]
    return [*alone, *(columns["text"] or []), *([fields] if isinstance(fields, str) else fields)]


def optional(columns: Json) -> list[str]:
    """The names that were given for what no record need have: if none at all has it, the name is wrong."""
    texts = columns["text"] or []
    return named({**columns, "id": None, "text": texts if len(texts) > 1 else None})


def resolve(columns: Json, names: Sequence[str]) -> Json:
    """The same with names for what was not named, where all records have the same columns.

    Names that are not given are looked for in upper and lower case.
    """

    def like(wanted: str) -> str | None:
        return next((name for name in names if name.lower() == wanted), None)

    def needed(wanted: str, found: str | None, role: str) -> str:
        if found is None or found not in names:
            raise DatasetError(
                f"there is no column {wanted} for the {role}; there are {listed(names)}: "
                f"`{role}=` names another one"
            )
        return found

    chosen = dict(columns)
    if chosen["id"] is None:
        found = next((name for name in map(like, IDS) if name is not None), None)
        chosen["id"] = needed("`_id` or `id`", found, "id")
    else:
        needed(f"`{chosen['id']}`", chosen["id"], "id")
    if chosen["title"] is None:
        chosen["title"] = like(TITLE)
    if chosen["text"] is None:
        chosen["text"] = [needed(f"`{TEXT}`", like(TEXT), "text")]
    elif not any(name in names for name in chosen["text"]):
        needed(f"`{'`, `'.join(chosen['text'])}`", None, "text")
    if chosen["metadata"] is None:
        taken = {chosen["id"], chosen["title"], *chosen["text"]}
        chosen["metadata"] = [name for name in names if name not in taken]
    return chosen


def listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "none"


def document_of(columns: Json, record: Json, at: str = "") -> Json:
    """The document of a record, of whose values none is NaN. `at` says where it is from, as `file:line: `."""
    record = {name: value for name, value in record.items() if value is not None}
    names = list(record)
    of_beir = IDS[0] in record and not any(columns[name] for name in ("id", "text", "title"))
    of_beir = of_beir and columns["metadata"] is None
    if (chosen := named(columns)) and METADATA not in chosen:
        # Named fields may be members of an object `metadata`.
        record = _beside(record, at)
    name = columns["id"] or (IDS[0] if IDS[0] in record or IDS[1] not in record else IDS[1])
    id = _id(name, record.pop(name, None), names, at)
    at = f"{at}the document `{id}`: "
    title = record.pop(columns["title"] or TITLE, None)
    fields = columns["text"] or [TEXT]
    texts = [_text(field, record.pop(field), at) for field in fields if field in record]
    if not texts:
        raise DatasetError(f"{at}there is no text in {listed(fields)}; there are {listed(names)}")
    document: Json = {"id": id, "text": _BETWEEN.join(text for text in texts if text)}
    if title is not None:
        document["title"] = _text(columns["title"] or TITLE, title, at)
    if isinstance(columns["metadata"], str):
        metadata = _whole(columns["metadata"], record.get(columns["metadata"]), at)
    elif of_beir and list(record) == [METADATA]:
        metadata = _whole(METADATA, record[METADATA], at)
    else:
        chosen = columns["metadata"]
        rest = record if chosen is None else {name: record[name] for name in chosen if name in record}
        metadata = _beside(rest, at)
    if metadata:
        document["metadata"] = metadata
    return document


def _beside(record: Json, at: str) -> Json:
    inner = record.get(METADATA)
    if not isinstance(inner, dict):
        return record
    outer = {name: value for name, value in record.items() if name != METADATA}
    for name in inner:
        if name in outer:
            raise DatasetError(f"{at}`{name}` is a field, and one of `{METADATA}` too")
    return outer | inner


def _whole(name: str, value: Any, at: str) -> Json | None:
    """Metadata that is one column: an object, or its JSON as text."""
    if isinstance(value, str):
        try:
            value = plain(json.loads(value))
        except ValueError:
            pass
    if value is not None and not isinstance(value, dict):
        raise DatasetError(
            f"{at}the metadata in `{name}` is {_kind(value)}, not an object; "
            f"`metadata=[{name!r}]` makes a field of that column"
        )
    return value


def _id(name: str, value: Any, names: Sequence[str], at: str) -> str:
    if value is None:
        raise DatasetError(f"{at}there is no id in `{name}`; there are {listed(names)}")
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise DatasetError(f"{at}the id in `{name}` is {_kind(value)}; ids are texts or whole numbers")
    return _unicode(name, str(value), at)


def _text(name: str, value: Any, at: str) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise DatasetError(f"{at}`{name}` is {_kind(value)}; it is a text or a number")
    return _unicode(name, value if isinstance(value, str) else json.dumps(value), at)


def _unicode(name: str, text: str, at: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise DatasetError(f"{at}`{name}` has half of a pair of surrogates, which is not text") from None
    return text


def _kind(value: Any) -> str:
    kinds = {dict: "an object", list: "a list", bool: "a boolean", str: "a text", type(None): "null"}
    return kinds.get(type(value), f"the number {value}")


def hash_of(id: str, purpose: bytes = b"") -> int:
    """A hash of an id, of 64 bits; those of one purpose have nothing to do with those of another."""
    data = id.encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(data, digest_size=8, person=purpose).digest(), "big")


def partition_of(id: str, shards: int) -> int:
    """The shard that an id belongs to: equal ids meet in one shard, whatever the order of the input."""
    return hash_of(id) % shards


def packed(documents: Iterable[Json]) -> bytes:
    """Documents as the bytes of a spool file."""
    out = io.BytesIO()
    # Without a time, so that equal documents are equal bytes.
    with gzip.GzipFile(fileobj=out, mode="wb", compresslevel=1, mtime=0) as file:
        for document in documents:
            line = json.dumps(document, ensure_ascii=False, sort_keys=True)
            file.write(_unicode("metadata", line, f"the document `{document['id']}`: ").encode() + b"\n")
    return out.getvalue()


def unpacked(data: bytes) -> Iterator[Json]:
    """The documents of a spool file, one at a time."""
    with gzip.open(io.BytesIO(data), "rt", encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def spooled(storage: Storage, files: Iterable[Json]) -> Iterator[Json]:
    """The documents of spool files, in their order."""
    for file in files:
        yield from unpacked(read_checked(storage, file["name"], file["sha256"]))


class ValueKindError(Exception):
    """A value, or a column, of a kind that is not read."""


def lists_of(column: Any) -> list[Any]:
    """The values of a column of Arrow's. `ValueKindError` where its type is none that JSON has."""
    read = _reader(column.type)
    try:
        return [read(value) for value in column.to_pylist()]
    except (ArithmeticError, ValueError) as error:
        # A time beyond the calendar.
        raise ValueKindError(str(error)) from None


def _reader(kind: Any) -> Read:
    # Imported here, because searching does not need it.
    from pyarrow import types

    if types.is_float16(kind) or types.is_float32(kind):
        narrow = np.float16 if types.is_float16(kind) else np.float32
        # The shortest form of the f32, not of the nearest double.
        return lambda value: None if value is None else _number(float(str(narrow(value))))
    if types.is_dictionary(kind):
        return _reader(kind.value_type)
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        item = _reader(kind.value_type)
        return lambda value: None if value is None else [item(each) for each in value]
    if types.is_struct(kind):
        fields = {kind.field(place).name: _reader(kind.field(place).type) for place in range(kind.num_fields)}
        return lambda value: None if value is None else _members(fields, value)
    if types.is_map(kind) or types.is_union(kind) or "binary" in str(kind):
        raise ValueKindError(f"of the type {kind}, which is not read")
    return plain


def _members(fields: Mapping[str, Read], value: Any) -> dict[str, Any]:
    """Without nulls: all rows of a column have all members, whatever was written."""
    found = {name: read(value[name]) for name, read in fields.items()}
    return {name: each for name, each in found.items() if each is not None}


def plain(value: Any) -> Any:
    """A value of Python, numpy or pandas as JSON has it."""
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, (np.generic, np.ndarray)):
        return plain(value.tolist())
    if isinstance(value, int):
        # Beyond 64 bits it is rounded.
        return value if -(2**63) <= value < 2**64 else float(value)
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, decimal.Decimal):
        return format(value, "f")
    if isinstance(value, dict):
        if not all(isinstance(name, str) for name in value):
            raise ValueKindError("an object with names that are not texts")
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    if isinstance(value, datetime.timedelta):
        return _duration(value)
    if isinstance(value, (datetime.datetime, datetime.time)):
        return _time(value)
    if isinstance(value, datetime.date):
        return value.isoformat()
    raise ValueKindError(f"of the type {type(value).__name__}, which is not read")


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _time(value: datetime.datetime | datetime.time) -> str | None:
    if value != value:
        # `NaT` of pandas.
        return None
    zone = ""
    if value.tzinfo is not None:
        zone = "Z"
        if isinstance(value, datetime.datetime):
            value = value.astimezone(datetime.timezone.utc)
        value = value.replace(tzinfo=None)
    digits = "seconds"
    if getattr(value, "nanosecond", 0):
        digits = "nanoseconds"
    elif value.microsecond:
        digits = "microseconds" if value.microsecond % 1000 else "milliseconds"
    return value.isoformat(timespec=digits) + zone


def _duration(value: datetime.timedelta) -> str:
    """As ISO 8601 has it, in seconds."""
    sign = "-" if value < datetime.timedelta(0) else ""
    micros = abs(value) // datetime.timedelta(microseconds=1)
    seconds, fraction = divmod(micros, 1_000_000)
    digits = f".{fraction:06}".rstrip("0") if fraction else ""
    return f"{sign}PT{seconds}{digits}S"
