#!/usr/bin/env python3
"""What a search costs as documents grow more, at the same recall.

    target/peers/bin/python benches/peers/growth.py --embedded EMBEDDED --like BUNDLE --sizes 10000=400,100000=1200,1000000=4000

For each size, vectors are drawn by `synthetic.py` from a model of those in EMBEDDED, a tree of plain k-means with so many
leaves is made by `kmeans.py` and an index filled and compacted. The beam is the smallest whose recall@10, against exact search, reaches
the one asked for. One thread, medians of the rounds; memory is the anonymous part of the searching process, which opens the
index anew, and the model's share of it.
"""

import argparse
import json
import pathlib
import shutil
import statistics
import subprocess
import sys

from turns import ROOT, Turns, bench, size
from vectors import load, nearest, recall_of


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--embedded", type=pathlib.Path, required=True)
    parser.add_argument("--like", type=pathlib.Path, required=True, help="a bundle of the vectors' width")
    parser.add_argument("--sizes", default="10000=400,100000=1200,1000000=4000", help="DOCUMENTS=LEAVES, separated by commas")
    parser.add_argument("--recall", type=float, default=0.95)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--points", type=int, default=256, help="documents for each leaf that centroids are found from, at most")
    parser.add_argument("-k", type=int, default=10)
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "target/growth")
    parser.add_argument("--ehi", help="the vectors bench; built if absent")
    parser.add_argument("--keep", action="store_true", help="vectors and indexes of an earlier run, and these")
    arguments = parser.parse_args()
    binary = arguments.ehi or bench("vectors")
    arguments.work.mkdir(parents=True, exist_ok=True)
    print("| Documents | Leaves | Build, s | Beam | Visited | Recall@10 | Median µs a query | Slowest and fastest round | Anonymous memory, MB | On disk, MB |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for given in arguments.sizes.split(","):
        documents, leaves = map(int, given.split("="))
        own = arguments.work / str(documents)
        vectors, bundle, index = own / "vectors", own / f"bundle-{leaves}", own / f"index-{leaves}"
        if not arguments.keep:
            shutil.rmtree(own, ignore_errors=True)
        folder = pathlib.Path(__file__).parent
        if not vectors.exists():
            subprocess.run([sys.executable, folder / "synthetic.py", arguments.embedded, vectors, "--documents", str(documents)], check=True)
        if not bundle.exists():
            command = ["--embedded", vectors, "--like", arguments.like, "--leaves", str(leaves), "--points", str(arguments.points), "--out", bundle]
            subprocess.run([sys.executable, folder / "kmeans.py", *command], check=True, stdout=sys.stderr)
        exact = nearest(*load(vectors), arguments.k)
        command = [binary, bundle, vectors, arguments.k, index]
        building = Turns(command, 1)
        built = building.read()["build_seconds"]
        building.end()
        turns = Turns(command, 1)
        turns.read()
        low, high, found = 0, leaves, None
        while high - low > 1:
            middle = min(2 * low or 1, (low + high) // 2)
            asked = turns.ask(middle)
            recall = recall_of(asked["found"], exact)
            if recall >= arguments.recall:
                high, found = middle, (recall, asked["visited"])
            else:
                low = middle
        seconds = [turns.ask(high)["seconds"] / len(exact) for _ in range(arguments.rounds)]
        memory = turns.memory("RssAnon")
        turns.end()
        recall, visited = found or (1.0, 1.0)
        middle, spread = statistics.median(seconds), f"{1e6 * min(seconds):,.0f} to {1e6 * max(seconds):,.0f}"
        print(
            f"| {documents:,} | {leaves:,} | {built:.1f} | {high} | {100 * visited:.2f}% | {recall:.3f} | {1e6 * middle:,.0f} | "
            f"{spread} | {memory:.0f} | {size(index) / 1e6:,.0f} |", flush=True,
        )
        if not arguments.keep:
            shutil.rmtree(own)


if __name__ == "__main__":
    main()
