#!/usr/bin/env python3
"""Bulk input of the same vectors into ehi and its peers, one after another in one run, twice over.

    python3 -m venv target/peers && target/peers/bin/pip install numpy usearch lancedb pyarrow
    target/peers/bin/python benches/peers/bulk.py --documents 100000

Each engine runs in a process of its own, with one thread unless --threads says otherwise. Input is a file of f32,
clustered vectors of 768 dimensions at unit norm. ehi stores f16 and is searchable when it returns; usearch (f16) and
hannoy build graphs (M = 16, ef of construction 100); LanceDB stores f32 and is timed without an index and with
IVF-PQ. Medians of the rounds, as a table.
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

from turns import ROOT, bench, size

DIM = 768


def vectors(path, count):
    import numpy as np

    random = np.random.default_rng(0)
    centres = random.standard_normal((2000, DIM), dtype=np.float32)
    with open(path, "wb") as out:
        for start in range(0, count, 10_000):
            rows = min(10_000, count - start)
            block = centres[random.integers(0, len(centres), rows)]
            block = block + 0.7 * random.standard_normal((rows, DIM), dtype=np.float32)
            block /= np.linalg.norm(block, axis=1, keepdims=True)
            block.astype("<f4").tofile(out)


def read(path, count):
    import numpy as np

    return np.memmap(path, dtype="<f4", mode="r", shape=(count, DIM))


def usearch(path, out, count, threads):
    import numpy as np
    from usearch.index import Index

    data = read(path, count)
    started = time.perf_counter()
    index = Index(ndim=DIM, metric="cos", dtype="f16", connectivity=16, expansion_add=100)
    for start in range(0, count, 10_000):
        rows = np.ascontiguousarray(data[start : start + 10_000])
        index.add(np.arange(start, start + len(rows)), rows, threads=threads)
    index.save(str(out / "index.usearch"))
    return {"insert_seconds": time.perf_counter() - started}


def lancedb(path, out, count, threads):
    import lancedb as lance
    import pyarrow as pa

    data = read(path, count)
    started = time.perf_counter()
    schema = pa.schema([("id", pa.int64()), ("vector", pa.list_(pa.float32(), DIM))])
    table = lance.connect(str(out)).create_table("t", schema=schema)
    for start in range(0, count, 10_000):
        rows = data[start : start + 10_000]
        flat = pa.array(rows.reshape(-1), type=pa.float32())
        columns = [pa.array(range(start, start + len(rows)), type=pa.int64())]
        columns.append(pa.FixedSizeListArray.from_arrays(flat, DIM))
        table.add(pa.Table.from_arrays(columns, schema=schema))
    stored = time.perf_counter() - started
    table.create_index(metric="cosine", num_partitions=max(16, count // 1000), num_sub_vectors=96)
    return {"store_seconds": stored, "insert_seconds": time.perf_counter() - started}


def run(engine, arguments, path, out):
    count, threads = arguments.documents, arguments.threads
    environment = os.environ | {name: str(threads) for name in ("RAYON_NUM_THREADS", "OMP_NUM_THREADS", "LANCE_CPU_THREADS")}
    command = {
        "ehi": [arguments.ehi, path, DIM, out, count],
        "hannoy": [arguments.hannoy, path, DIM, out, count],
    }.get(engine, [sys.executable, __file__, "--only", engine, "--documents", count, "--threads", threads, "--work", arguments.work])
    shutil.rmtree(out, ignore_errors=True)
    if engine != "ehi":
        out.mkdir(parents=True)
    taskset = ["taskset", "-c", f"0-{threads - 1}"] if shutil.which("taskset") else []
    done = subprocess.run(taskset + list(map(str, command)), env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{engine}: {done.stderr[-2000:]}")
    report = json.loads(done.stdout.strip().splitlines()[-1])
    report["bytes"] = size(out)
    shutil.rmtree(out, ignore_errors=True)
    return report


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "target/bulk")
    parser.add_argument("--engines", default="ehi,usearch,hannoy,lancedb")
    parser.add_argument("--ehi", help="the bulk bench; built if absent")
    parser.add_argument("--hannoy", help="the program in benches/peers/hannoy; built if absent")
    parser.add_argument("--only", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    path = arguments.work / f"vectors-{arguments.documents}.f32"
    if arguments.only:
        engine = {"usearch": usearch, "lancedb": lancedb}[arguments.only]
        report = engine(path, arguments.work / arguments.only, arguments.documents, arguments.threads)
        print(json.dumps(report))
        return
    engines = arguments.engines.split(",")
    if "ehi" in engines and not arguments.ehi:
        arguments.ehi = bench("bulk")
    if "hannoy" in engines and not arguments.hannoy:
        folder = ROOT / "benches/peers/hannoy"
        subprocess.run(["cargo", "build", "--release", "--target-dir", arguments.work / "hannoy-target"], cwd=folder, check=True)
        arguments.hannoy = arguments.work / "hannoy-target/release/bulk-hannoy"
    if not path.exists():
        vectors(path, arguments.documents)
    reports = {engine: [] for engine in engines}
    for _ in range(arguments.rounds):
        for engine in engines:
            reports[engine].append(run(engine, arguments, path, arguments.work / engine))
            print(engine, json.dumps(reports[engine][-1]), flush=True)
    print("\n| Engine | Vectors per second | Stored alone, per second | MB on disk |\n|---|---|---|---|")
    for engine, rounds in reports.items():
        middle = lambda name: statistics.median(r[name] for r in rounds)
        stored = f"{arguments.documents / middle('store_seconds'):,.0f}" if "store_seconds" in rounds[0] else ""
        rate = arguments.documents / middle("insert_seconds")
        print(f"| {engine} | {rate:,.0f} | {stored} | {middle('bytes') / 1e6:,.0f} |")


if __name__ == "__main__":
    main()
