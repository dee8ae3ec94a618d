#!/usr/bin/env python3
"""What finding the most probable of many leaves costs and loses, builds of ehi by turns.

    target/peers/bin/python benches/peers/routing.py --embedded EMBEDDED --like BUNDLE --ehi BEFORE AFTER --trees 512,1024,2048,4096,10000,10000x128

Trees are plain k-means of the vectors, `10000x128` behind a projection to their 128 principal directions. BEFORE and AFTER
are `vectors` benches of two builds, which read the same index. One thread; the mean time of routing in a round, medians of
the rounds by turns, and recall of exact search's ten best, at beams that visit the given shares of the documents.
"""

import argparse
import pathlib
import shutil
import statistics

from bundles import write
from kmeans import centroids, principal, projected
from turns import ROOT, Turns
from vectors import load, nearest, recall_of

K = 10


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--embedded", type=pathlib.Path, required=True)
    parser.add_argument("--like", type=pathlib.Path, required=True, help="a bundle of the vectors' width")
    parser.add_argument("--ehi", nargs="+", required=True)
    parser.add_argument("--trees", default="512,1024,2048,4096,10000,10000x128")
    parser.add_argument("--shares", default="0.01,0.02,0.05")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "target/routing")
    arguments = parser.parse_args()
    documents, queries = load(arguments.embedded)
    queries = queries[:300]
    best = nearest(documents, queries, K)
    embedded = arguments.work / "embedded"
    embedded.mkdir(parents=True, exist_ok=True)
    queries.tofile(embedded / "queries.f32")
    for name in ("documents.f32", "dataset.json"):
        if not (embedded / name).exists():
            (embedded / name).symlink_to((arguments.embedded / name).resolve())
    print("| Leaves | Numbers a leaf | Visited | Beam | " + " | ".join(f"Build {at}, µs | Recall" for at in range(len(arguments.ehi))) + " | Ratio |")
    for given in arguments.trees.split(","):
        leaves, _, width = given.partition("x")
        leaves, width = int(leaves), int(width or documents.shape[1])
        basis = principal(documents, width) if width < documents.shape[1] else None
        rows = documents if basis is None else projected(documents, basis)
        found = centroids(rows, leaves, 0, max(8, 100_000 // leaves))
        bundle, index = arguments.work / f"bundle-{given}", arguments.work / f"index-{given}"
        for made in (bundle, index):
            shutil.rmtree(made, ignore_errors=True)
        write(arguments.like, bundle, {"levels.0.classifier": found.T} | ({} if basis is None else {"projection": basis}), leaves, 1)
        turns = []
        for binary in arguments.ehi:
            turns.append(Turns([binary, bundle, embedded, K, index], 1))
            turns[-1].read()
        for share in map(float, arguments.shares.split(",")):
            beam = max(1, round(share * leaves))
            for _ in range(4):
                visited = turns[0].ask(beam)["visited"]
                beam = max(1, round(beam * share / visited))
            taken = [[] for _ in turns]
            for _ in range(arguments.rounds):
                for own, turn in zip(taken, turns):
                    own.append(turn.ask(beam))
            cells, medians = [], []
            for own in taken:
                medians.append(statistics.median(one["stages_us"]["route"] for one in own))
                recall = recall_of(own[0]["found"], best)
                cells += [f"{medians[-1]:.1f}", f"{100 * recall:.2f}"]
            print(f"| {leaves:,} | {width} | {100 * visited:.2f}% | {beam} | " + " | ".join(cells) + f" | {medians[-1] / medians[0]:.2f} |", flush=True)
        for turn in turns:
            turn.end()
        for made in (bundle, index):
            shutil.rmtree(made)


if __name__ == "__main__":
    main()
