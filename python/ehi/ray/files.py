"""Files of documents: JSON lines, arrays of JSON objects, and Parquet, each read a part at a time."""

from __future__ import annotations

import gzip
import json
import os
import pathlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

from .errors import DatasetError
from .names import Json
from .values import plain

# Endings, without that of gzip.
JSON_ENDINGS = ("jsonl", "ndjson", "json")
PARQUET_ENDING = "parquet"
# Rows of Parquet that are in memory together.
ROWS = 1_024
# Elsewhere a dataset of Ray is made of these.
_MAKERS = {"DataFrame": "from_pandas", "Table": "from_arrow", "ndarray": "from_numpy", "list": "from_items"}


def paths_of(dataset: Any) -> list[str]:
    """Files by their paths, globs and folders, in the order given; those of a glob or folder by name."""
    found: list[str] = []
    for one in _given(dataset):
        path = pathlib.Path(one)
        if any(sign in str(one) for sign in "*?["):
            own = sorted(pathlib.Path(path.anchor or ".").glob(str(path.relative_to(path.anchor))))
        elif path.is_dir():
            own = sorted(
                own for own in path.rglob("*") if own.is_file() and not own.name.startswith((".", "_"))
            )
        else:
            own = [path] if path.exists() else []
        if not own:
            raise DatasetError(f"there is no file {one}")
        found.extend(str(own.absolute()) for own in own)
    kinds = {_ending(each): each for each in found}
    for ending, each in kinds.items():
        if ending not in (PARQUET_ENDING, *JSON_ENDINGS):
            raise DatasetError(f"{each}: Parquet and JSON lines are read, by their endings")
    if PARQUET_ENDING in kinds and len(kinds) > 1:
        other = next(kinds[ending] for ending in kinds if ending != PARQUET_ENDING)
        raise DatasetError(
            f"{kinds[PARQUET_ENDING]} is Parquet, {other} is JSON: not both in one call; "
            "`build` with one and `append` the other"
        )
    return found


def _given(dataset: Any) -> list[Any]:
    if isinstance(dataset, (str, os.PathLike)):
        return [dataset]
    if isinstance(dataset, (list, tuple)):
        if not dataset:
            raise DatasetError("the dataset is empty: there are no paths")
        if all(isinstance(one, (str, os.PathLike)) for one in dataset):
            return list(dataset)
        kind = "list"
    else:
        kind = type(dataset).__name__
    maker = f"; make one with `ray.data.{_MAKERS[kind]}(…)`" if kind in _MAKERS else ""
    raise DatasetError(
        f"a dataset is a `ray.data.Dataset`, or paths of files, not a {type(dataset).__name__}{maker}"
    )


def _ending(path: str) -> str:
    return pathlib.Path(path).name.lower().removesuffix(".gz").rsplit(".", 1)[-1]


def is_parquet(path: str) -> bool:
    return _ending(path) == PARQUET_ENDING


def records(path: str) -> Iterator[tuple[Json, int, str]]:
    """Records of a file of JSON, each with its length and where it is: `file:line: `."""
    try:
        with open(path, "rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
        with gzip.open(path, "rb") if packed else open(path, "rb") as lines:
            begun = False
            for number, line in enumerate(lines, 1):
                # A byte order mark.
                line = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
                if not line.strip():
                    continue
                if not begun and line.lstrip().startswith(b"["):
                    # The whole file.
                    yield from _array(path, line + lines.read())
                    return
                begun = True
                yield _record(path, number, line), len(line), f"{path}:{number}: "
    except (OSError, EOFError) as error:
        raise DatasetError(f"{path}: {error}") from None


def _record(path: str, number: int, line: bytes) -> Json:
    try:
        record = plain(json.loads(line, parse_constant=_no_constant))
    except (ValueError, RecursionError) as error:
        raise DatasetError(f"{path}:{number}: no JSON: {error}") from None
    if not isinstance(record, dict):
        raise DatasetError(f"{path}:{number}: no JSON object")
    return record


def _array(path: str, data: bytes) -> Iterator[tuple[Json, int, str]]:
    try:
        found = plain(json.loads(data, parse_constant=_no_constant))
    except (ValueError, RecursionError) as error:
        raise DatasetError(f"{path}: no JSON: {error}") from None
    each = len(data) // max(len(found), 1)
    for number, record in enumerate(found, 1):
        if not isinstance(record, dict):
            raise DatasetError(f"{path}: record {number} is no JSON object")
        yield record, each, f"{path}: record {number}: "


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


def tables(path: str, used: Callable[[Sequence[str]], Sequence[str]]) -> Iterator[Any]:
    """Some rows of a Parquet file at a time, as batches of Arrow; of its columns those that are `used`."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    try:
        with parquet.ParquetFile(path) as file:
            yield from file.iter_batches(ROWS, columns=list(used(file.schema_arrow.names)))
    except (OSError, pa.ArrowException) as error:
        raise DatasetError(f"{path}: {error}") from None
