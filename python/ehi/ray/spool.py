"""The documents of a dataset, divided among files: one for each block of the dataset and shard."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import ray

from . import documents, files, values
from .errors import DatasetError
from .names import Json
from .pool import RayJob, as_raised
from .storage import Storage

# Bytes of a file's records that are divided together.
GROUP = 32 << 20
# Columns that an error lists.
_LISTED = 50

# Some documents, the bytes that they were read from, and the names of columns.
Portion: TypeAlias = "tuple[Iterable[Json], int, Sequence[str]]"


def spool(
    job: RayJob, dataset: Any, columns: Json, shards: int, folder: str, required: Sequence[str]
) -> list[list[Json]]:
    """Divides the documents; the files of each shard, in the order of the input.

    `dataset` is one of Ray's, or paths of files. `required` are columns that some record must have. Which columns
    there are is looked at in each block, or file, by itself.
    """
    divider = _Divider(job.storage, columns, shards, folder)
    in_order()
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


def in_order() -> None:
    """Has datasets that are made next keep their order, and say nothing of their progress."""
    context = ray.data.DataContext.get_current()
    context.execution_options.preserve_order = True
    context.enable_progress_bars = False


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
            yield from self._told(self._of_parquet(path) if files.is_parquet(path) else self._of_json(path))

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
        for record, length, at in files.records(path):
            inner = record.get(documents.METADATA)
            names = [*record, *inner] if isinstance(inner, dict) else list(record)
            yield [documents.document_of(self.columns, record, at)], length, names

    def _of_parquet(self, path: str) -> Iterator[Portion]:
        at = f"{path}: "
        for names, table in files.tables(path, lambda names: documents.named(self._resolved(names, at))):
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
                lists[name] = values.lists_of(table.column(name))
            except values.ValueKindError as error:
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
        # Named by what is in it: a task that runs again writes nothing new.
        self.storage.create(name, packed)
        return {"name": name, "sha256": digest, "rows": len(group)}
