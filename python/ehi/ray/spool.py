"""The documents of a dataset, divided among files: one for each block of the dataset and shard."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import Any

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
        yield from self._told(self._of_block(table))

    def paths(self, table: Any) -> Iterator[Json]:
        """Files, a group of records at a time."""
        for path in table.column("path").to_pylist():
            yield from self._told(self._of_parquet(path) if files.is_parquet(path) else self._of_json(path))

    def _told(self, groups: Iterator[tuple[list[Json], Sequence[str]]]) -> Iterator[Json]:
        try:
            for group, names in groups:
                told = {"files": self._written(group), "names": list(names)}
                yield {"group": [json.dumps(told)], "error": [None]}
        except DatasetError as error:
            yield {"group": [None], "error": [str(error)]}

    def _of_block(self, table: Any) -> Iterator[tuple[list[Json], Sequence[str]]]:
        yield list(self._of_table(table, "")), table.column_names

    def _of_json(self, path: str) -> Iterator[tuple[list[Json], Sequence[str]]]:
        group, size = list[Json](), 0
        # In their order.
        names = dict[str, None]()
        for record, length, at in files.records(path):
            names.update(dict.fromkeys(record))
            if isinstance(inner := record.get(documents.METADATA), dict):
                names.update(dict.fromkeys(inner))
            if len(names) > _LISTED:
                wanted = documents.named(self.columns)
                names = {name: None for place, name in enumerate(names) if place < _LISTED or name in wanted}
            group.append(documents.document_of(self.columns, record, at))
            size += length
            if size >= GROUP:
                yield group, list(names)
                group, size = [], 0
        yield group, list(names)

    def _of_parquet(self, path: str) -> Iterator[tuple[list[Json], Sequence[str]]]:
        group, size, found = list[Json](), 0, list[str]()

        def used(names: Sequence[str]) -> Sequence[str]:
            found.extend(names)
            wanted = documents.named(self._resolved(names, f"{path}: "))
            return [name for name in names if name in wanted]

        for table in files.tables(path, used):
            group.extend(self._of_table(table, f"{path}: ", found))
            size += table.nbytes
            if size >= GROUP:
                yield group, found
                group, size = [], 0
        yield group, found

    def _resolved(self, names: Sequence[str], at: str) -> Json:
        try:
            return documents.resolve(self.columns, names)
        except DatasetError as error:
            raise DatasetError(f"{at}{error}") from None

    def _of_table(self, table: Any, at: str, names: Sequence[str] | None = None) -> Iterator[Json]:
        if not table.num_rows:
            return
        columns = self._resolved(table.schema.names if names is None else names, at)
        wanted, lists = documents.named(columns), {}
        for name in table.schema.names:
            if name not in wanted:
                continue
            try:
                lists[name] = values.lists_of(table.column(name))
            except values.ValueKindError as error:
                raise DatasetError(
                    f"{at}the column `{name}` is {error}; name the columns of the metadata"
                ) from None
        for place in range(table.num_rows):
            record = {name: own[place] for name, own in lists.items()}
            yield documents.document_of(columns, record, at)

    def _written(self, group: Sequence[Json]) -> list[Json | None]:
        own: list[list[Json]] = [[] for _ in range(self.shards)]
        for document in group:
            own[documents.partition_of(document["id"], self.shards)].append(document)
        return [self._file(each) if each else None for each in own]

    def _file(self, group: Sequence[Json]) -> Json:
        packed = documents.packed(group)
        digest = hashlib.sha256(packed).hexdigest()
        name = f"{self.folder}/spool/{digest}.jsonl.gz"
        # Named by what is in it: a task that runs again writes nothing new.
        self.storage.create(name, packed)
        return {"name": name, "sha256": digest, "rows": len(group)}
