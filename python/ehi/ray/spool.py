"""The documents of a dataset, divided among files: one for each block of the dataset and shard. Datasets are
those of Ray, or files of any format that `ehi insert` reads.
"""

from __future__ import annotations

import glob
import gzip
import hashlib
import json
import os
import pathlib
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import ray

import ehi

from . import documents
from .basics import Json
from .pool import RayJob, as_raised
from .storage import Storage

# Bytes of documents divided at once.
GROUP = 32 << 20


def spool(
    job: RayJob, dataset: Any, columns: Json, shards: int, folder: str, required: Iterable[str]
) -> list[list[Json]]:
    """Divides the documents; the files of each shard, in the order of the input.

    `dataset` is one of Ray's, or paths of files. `required` are columns that some record must have.
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
    unseen, count = set(required), 0
    with as_raised():
        for row in divided.iter_rows():
            group = json.loads(row["group"])
            for own, file in zip(found, group["files"]):
                if file is not None:
                    own.append(file)
                    count += file["rows"]
            if group["unseen"] is not None:
                unseen.intersection_update(group["unseen"])
            job.tell("read", count, None)
    if count and unseen:
        raise ehi.DataError(f"no record has the column `{min(unseen)}`")
    return found


class _Divider:
    """Divides records among files, on Ray's workers."""

    def __init__(self, storage: Storage, columns: Json, shards: int, folder: str) -> None:
        self.storage, self.columns, self.shards, self.folder = storage, columns, shards, folder

    def block(self, table: Any) -> Iterator[Json]:
        """A block of a dataset."""
        if not table.num_rows:
            return
        missing = documents.named(self.columns).difference(table.column_names)
        # Other blocks may have them.
        for name in missing:
            table = table.append_column(name, pa.nulls(table.num_rows))
        content = pa.BufferOutputStream()
        with pa.ipc.new_stream(content, table.schema) as stream:
            stream.write_table(table)
        yield from self._divided(content.getvalue().to_pybytes(), missing)

    def paths(self, table: Any) -> Iterator[Json]:
        """Files, a group of records at a time."""
        for path in table.column("path").to_pylist():
            yield from self._divided(path)

    def _divided(self, source: str | bytes, missing: Iterable[str] = ()) -> Iterator[Json]:
        reader = documents.Reader(source, self.columns)
        lines: list[list[bytes]] = [[] for _ in range(self.shards)]
        size, is_empty = 0, True
        for document in reader:
            line, is_empty = documents.line_of(document), False
            lines[documents.partition_of(document["id"], self.shards)].append(line)
            size += len(line)
            if size >= GROUP:
                yield self._row(lines, None)
                lines, size = [[] for _ in range(self.shards)], 0
        yield self._row(lines, None if is_empty else [*missing, *reader.unseen()])

    def _row(self, lines: list[list[bytes]], unseen: list[str] | None) -> Json:
        files = [self._file(own) if own else None for own in lines]
        return {"group": [json.dumps({"files": files, "unseen": unseen})]}

    def _file(self, lines: list[bytes]) -> Json:
        # Without a time, so that equal documents are equal bytes.
        packed = gzip.compress(b"".join(lines), 1, mtime=0)
        digest = hashlib.sha256(packed).hexdigest()
        name = f"{self.folder}/spool/{digest}.jsonl.gz"
        # Named by its content, so a repeated task writes nothing new.
        self.storage.create(name, packed)
        return {"name": name, "sha256": digest, "rows": len(lines)}


def paths_of(dataset: Any) -> list[str]:
    """Files by their paths, globs and folders, in the order given; those of a glob or folder by name."""
    given = [dataset] if isinstance(dataset, (str, os.PathLike)) else dataset
    if not isinstance(given, (list, tuple)) or not all(isinstance(one, (str, os.PathLike)) for one in given):
        raise ehi.DataError(
            f"a dataset is a `ray.data.Dataset`, or paths of files, not a {type(dataset).__name__}; make one "
            "with `ray.data.from_pandas(…)`, `from_arrow(…)`, `from_numpy(…)` or `from_items(…)`"
        )
    found: list[str] = []
    for one in given:
        path = pathlib.Path(one)
        if any(sign in str(one) for sign in "*?["):
            own = sorted(map(pathlib.Path, glob.glob(str(one), recursive=True)))
        elif path.is_dir():
            own = sorted(each for each in path.rglob("[!._]*") if each.is_file())
        else:
            own = [path] if path.exists() else []
        if not own:
            raise ehi.DataError(f"there is no file {one}")
        found.extend(str(each.absolute()) for each in own)
    if not found:
        raise ehi.DataError("the dataset is empty: there are no paths")
    return found
