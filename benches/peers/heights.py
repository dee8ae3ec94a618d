#!/usr/bin/env python3
"""What routing a query costs as a tree of the same leaves gets higher.

    target/peers/bin/python benches/peers/heights.py --embedded EMBEDDED --like BUNDLE --trees 64x1,8x2,4x3,10000x1,100x2

The trees have weights at random, on which the cost does not depend, and are tried as the paper has them, with U and no
projection, and in our reduced form: without U, behind a projection to 64. Documents are the first of EMBEDDED: enough for an index, too few for the scan
to push the tree out of the caches. One thread; the mean time of the beam search in a round, medians of the rounds by turns.
"""

import argparse
import json
import pathlib
import shutil
import statistics

from bundles import write
from turns import ROOT, Turns, bench
from vectors import load

BEAM = 10
PROJECTION = 64


def tensors(dim, branching_factor, height, reduced, random):
    width = PROJECTION if reduced else dim
    drawn = {"projection": random.standard_normal((dim, width))} if reduced else {}
    for level in range(height):
        own = width + level * branching_factor
        if not reduced:
            drawn[f"levels.{level}.transform"] = random.standard_normal((own, own)) / own**0.5
        drawn[f"levels.{level}.classifier"] = random.standard_normal((own, branching_factor))
    return {name: tensor.astype("float32") for name, tensor in drawn.items()}


def main():
    import numpy as np

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--embedded", type=pathlib.Path, required=True)
    parser.add_argument("--like", type=pathlib.Path, required=True, help="a bundle of the vectors' width")
    parser.add_argument("--trees", default="64x1,8x2,4x3,10000x1,100x2", help="branching factor x height, separated by commas")
    parser.add_argument("--documents", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "target/heights")
    parser.add_argument("--ehi", help="the vectors bench; built if absent")
    arguments = parser.parse_args()
    binary = arguments.ehi or bench("vectors")
    shutil.rmtree(arguments.work, ignore_errors=True)
    few = arguments.work / "embedded"
    few.mkdir(parents=True)
    documents, queries = load(arguments.embedded)
    documents[: arguments.documents].tofile(few / "documents.f32")
    queries[:300].tofile(few / "queries.f32")
    shutil.copy(arguments.embedded / "dataset.json", few)
    random = np.random.default_rng(0)

    trees = {}
    for given in arguments.trees.split(","):
        branching_factor, height = map(int, given.split("x"))
        for reduced in (False, True):
            name = f"{given}-{'reduced' if reduced else 'paper'}"
            drawn = tensors(documents.shape[1], branching_factor, height, reduced, random)
            write(arguments.like, arguments.work / name, drawn, branching_factor, height)
            turns = Turns([binary, arguments.work / name, few, 10, arguments.work / f"{name}-index"], 1)
            turns.read()
            values = sum(tensor.size for tensor in drawn.values())
            trees[name] = (branching_factor, height, reduced, values, turns, [])
    for _ in range(arguments.rounds):
        for *_, turns, taken in trees.values():
            taken.append(turns.ask(BEAM)["stages_us"]["route"])
    print("| Tree | Leaves | Form | Weights, MB | Median µs a query | Fastest and slowest round |\n|---|---|---|---|---|---|")
    for branching_factor, height, reduced, values, turns, taken in trees.values():
        turns.end()
        form = f"no U, projection to {PROJECTION}" if reduced else "as the paper"
        print(
            f"| B = {branching_factor}, H = {height} | {branching_factor**height:,} | {form} | {4 * values / 1e6:.1f} | "
            f"{statistics.median(taken):.1f} | {min(taken):.1f} to {max(taken):.1f} |"
        )
    shutil.rmtree(arguments.work)


if __name__ == "__main__":
    main()
