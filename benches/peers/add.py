"""Stores vectors with ids in a new index by the Python package, and in a new table of LanceDB.

    pip install ehi lancedb pyarrow            # or a wheel of `maturin build --release`
    python benches/peers/add.py --rows 500,10000

Medians of seven turns, the engines by turns, with 384 dimensions. ehi is timed until the index is closed, when
it is on disk for certain; LanceDB until `create_table` returns.
"""

import argparse
import pathlib
import statistics
import tempfile
import time

import ehi
import lancedb
import numpy as np
import pyarrow as pa

DIM = 384


def of_ehi(folder, ids, vectors):
    begun = time.perf_counter()
    index = ehi.Index.create(folder / "index", dim=DIM)
    created = time.perf_counter()
    index.add_vectors(ids, vectors)
    added = time.perf_counter()
    index.close()
    closed = time.perf_counter()
    return {"create": created - begun, "add": added - created, "close": closed - added, "all": closed - begun}


def of_lancedb(folder, ids, vectors):
    begun = time.perf_counter()
    rows = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), DIM)
    lancedb.connect(folder).create_table("t", pa.table({"id": ids, "vector": rows}))
    return {"all": time.perf_counter() - begun}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default="500,10000")
    parser.add_argument("--turns", type=int, default=7)
    arguments = parser.parse_args()
    for count in map(int, arguments.rows.split(",")):
        vectors = np.random.default_rng(0).standard_normal((count, DIM), dtype=np.float32)
        ids = [f"document-{number}" for number in range(count)]
        taken = {of_ehi: [], of_lancedb: []}
        for turn in range(arguments.turns + 1):
            for engine, times in taken.items():
                with tempfile.TemporaryDirectory() as folder:
                    own = engine(pathlib.Path(folder), ids, vectors)
                # The first turn loads files and starts threads.
                times += [own] if turn else []
        for engine, times in taken.items():
            stages = {
                stage: (statistics.median(own[stage] for own in times), max(own[stage] for own in times))
                for stage in times[0]
            }
            told = ", ".join(f"{stage} {1e3 * median:.1f} (at most {most * 1e3:.1f})" for stage, (median, most) in stages.items())
            print(f"{count} rows, {engine.__name__[3:]}: {told} ms")


if __name__ == "__main__":
    main()
