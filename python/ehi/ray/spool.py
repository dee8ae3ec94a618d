"""The documents of a dataset, divided among files: one for each block of the dataset and shard. Datasets are
those of Ray, or files: JSON lines, arrays of JSON objects, and Parquet, each read a part at a time.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import pathlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NoReturn, TypeAlias

import pyarrow as pa
import pyarrow.parquet as parquet
import ray

from . import documents
from .basics import DatasetError, Json
from .pool import RayJob, as_raised
from .storage import Storage

# Endings, without that of gzip.
JSON_ENDINGS = ("jsonl", "ndjson", "json")
PARQUET_ENDING = "parquet"
# Parquet rows held in memory at once.
ROWS = 1_024
# Bytes of a file's records divided at once.
GROUP = 32 << 20
# Columns that an error lists.
_LISTED = 50

# Some documents, the bytes that they were read from, and the names of columns.
Portion: TypeAlias = "tuple[Iterable[Json], int, Sequence[str]]"


def spool(
    job: RayJob, dataset: Any, columns: Json, shards: int, folder: str, required: Sequence[str]
) -> list[list[Json]]:
    """Divides the documents; the files of each shard, in the order of the input.

    `dataset` is one of Ray's, or paths of files. `required` are columns that some record must have. Which
    columns there are is looked at in each block, or file, by itself.
    """
    divider = _Divider(job.storage, columns, shards, folder)
    context = ray.data.DataContext.get_current()
    context.execution_options.preserve_order = True
    context.enable_progress_bars = False
    if isinstance(dataset, ray.data.Dataset):
        dataset.context.execution_options.preserve_order = True
        data, divide, size = dataset, divider.block, None
    else:
        data = ray.data.from_items([{"path": path} for path in dataset], override_num_blocks=len(dataset))
        divide, size = divider.paths, 1
    divided = data.map_batches(divide, batch_size=size, batch_format="pyarrow", num_cpus=job.num_cpus)
    found: list[list[Json]] = [[] for _ in range(shards)]
    names, count = dict[str, None](), 0
    with as_raised():
        for row in divided.iter_rows():
            if row["error"] is not None:
                raise DatasetError(row["error"])
            group = json.loads(row["group"])
            for own, file in zip(found, group["files"]):
                if file is not None:
                    own.append(file)
                    count += file["rows"]
            names.update(dict.fromkeys(group["names"]))
            job.tell("Read", count, None)
    unseen = [name for name in required if name not in names]
    if count and unseen:
        raise DatasetError(
            f"there is no column `{unseen[0]}`; there are {documents.listed(list(names)[:_LISTED])}"
        )
    return found


class _Divider:
    """Divides records among files, on Ray's workers."""

    def __init__(self, storage: Storage, columns: Json, shards: int, folder: str) -> None:
        self.storage, self.columns, self.shards, self.folder = storage, columns, shards, folder

    def block(self, table: Any) -> Iterator[Json]:
        """A block of a dataset."""
        yield from self._told([(self._of_table(table, "", table.schema.names), 0, table.column_names)])

    def paths(self, table: Any) -> Iterator[Json]:
        """Files, a group of records at a time."""
        for path in table.column("path").to_pylist():
            yield from self._told(self._of_parquet(path) if is_parquet(path) else self._of_json(path))

    def _told(self, portions: Iterable[Portion]) -> Iterator[Json]:
        group, size = list[Json](), 0
        # In their order.
        names = dict[str, None]()
        try:
            for own, length, found in portions:
                group += own
                size += length
                names.update(dict.fromkeys(found))
                if len(names) > _LISTED:
                    wanted = documents.named(self.columns)
                    names = {
                        name: None for place, name in enumerate(names) if place < _LISTED or name in wanted
                    }
                if size >= GROUP:
                    yield self._row(group, names)
                    group, size = [], 0
            yield self._row(group, names)
        except DatasetError as error:
            yield {"group": [None], "error": [str(error)]}

    def _of_json(self, path: str) -> Iterator[Portion]:
        for record, length, at in records(path):
            inner = record.get(documents.METADATA)
            names = [*record, *inner] if isinstance(inner, dict) else list(record)
            yield [documents.document_of(self.columns, record, at)], length, names

    def _of_parquet(self, path: str) -> Iterator[Portion]:
        at = f"{path}: "
        for names, table in tables(path, lambda names: documents.named(self._resolved(names, at))):
            yield self._of_table(table, at, names), table.nbytes, names

    def _resolved(self, names: Sequence[str], at: str) -> Json:
        try:
            return documents.resolve(self.columns, names)
        except DatasetError as error:
            raise DatasetError(f"{at}{error}") from None

    def _of_table(self, table: Any, at: str, names: Sequence[str]) -> Iterator[Json]:
        if not table.num_rows:
            return
        columns, lists = self._resolved(names, at), {}
        for name in set(table.schema.names).intersection(documents.named(columns)):
            try:
                lists[name] = documents.lists_of(table.column(name))
            except documents.ValueKindError as error:
                raise DatasetError(
                    f"{at}the column `{name}` is {error}; name the columns of the metadata"
                ) from None
        for place in range(table.num_rows):
            record = {name: lists[name][place] for name in table.schema.names if name in lists}
            yield documents.document_of(columns, record, at)

    def _row(self, group: Sequence[Json], names: Iterable[str]) -> Json:
        own: list[list[Json]] = [[] for _ in range(self.shards)]
        for document in group:
            own[documents.partition_of(document["id"], self.shards)].append(document)
        told = {"files": [self._file(each) if each else None for each in own], "names": list(names)}
        return {"group": [json.dumps(told)], "error": [None]}

    def _file(self, group: Sequence[Json]) -> Json:
        packed = documents.packed(group)
        digest = hashlib.sha256(packed).hexdigest()
        name = f"{self.folder}/spool/{digest}.jsonl.gz"
        # Named by its content, so a repeated task writes nothing new.
        self.storage.create(name, packed)
        return {"name": name, "sha256": digest, "rows": len(group)}


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
        return documents.plain(json.loads(data, parse_constant=_no_constant))
    except (ValueError, RecursionError) as error:
        raise DatasetError(f"{at}: malformed JSON: {error}") from None


def _object(record: Any, at: str) -> Json:
    if not isinstance(record, dict):
        raise DatasetError(f"{at}: not a JSON object")
    return record


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number of JSON")


def tables(path: str, used: Callable[[Sequence[str]], Sequence[str]]) -> Iterator[tuple[list[str], Any]]:
    """The names of all columns of a Parquet file with some of its rows at a time, as batches of Arrow of the
    columns that are `used`.
    """
    try:
        with parquet.ParquetFile(path) as file:
            names = file.schema_arrow.names
            wanted = used(names)
            for batch in file.iter_batches(ROWS, columns=[name for name in names if name in wanted]):
                yield names, batch
    except (OSError, pa.ArrowException) as error:
        raise DatasetError(f"{path}: {error}") from None
