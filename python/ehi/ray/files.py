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
    if isinstance(dataset, (list, tuple)) and all(isinstance(one, (str, os.PathLike)) for one in dataset):
        if not dataset:
            raise DatasetError("the dataset is empty: there are no paths")
        return list(dataset)
    raise DatasetError(
        f"a dataset is a `ray.data.Dataset`, or paths of files, not a {type(dataset).__name__}; make one with "
        "`ray.data.from_pandas(…)`, `from_arrow(…)`, `from_numpy(…)` or `from_items(…)`"
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
                    data = line + lines.read()
                    found = _parsed(data, path)
                    for place, record in enumerate(found, 1):
                        at = f"{path}: record {place}"
                        yield _object(record, at), len(data) // len(found), f"{at}: "
                    return
                begun = True
                at = f"{path}:{number}"
                yield _object(_parsed(line, at), at), len(line), f"{at}: "
    except (OSError, EOFError) as error:
        raise DatasetError(f"{path}: {error}") from None


def _parsed(data: bytes, at: str) -> Any:
    try:
        return plain(json.loads(data, parse_constant=_no_constant))
    except (ValueError, RecursionError) as error:
        raise DatasetError(f"{at}: malformed JSON: {error}") from None


def _object(record: Any, at: str) -> Json:
    if not isinstance(record, dict):
        raise DatasetError(f"{at}: not a JSON object")
    return record


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number of JSON")


def tables(path: str, used: Callable[[Sequence[str]], Sequence[str]]) -> Iterator[tuple[list[str], Any]]:
    """The names of all columns of a Parquet file with some of its rows at a time, as batches of Arrow of the columns
    that are `used`.
    """
    import pyarrow as pa
    import pyarrow.parquet as parquet

    try:
        with parquet.ParquetFile(path) as file:
            names = file.schema_arrow.names
            wanted = used(names)
            for batch in file.iter_batches(ROWS, columns=[name for name in names if name in wanted]):
                yield names, batch
    except (OSError, pa.ArrowException) as error:
        raise DatasetError(f"{path}: {error}") from None
