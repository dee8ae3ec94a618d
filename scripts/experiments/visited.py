#!/usr/bin/env python3
"""How many documents a search visits for a share of what exact search finds, on real questions.

    scripts/experiments/visited.py EHI INDEX DATASET SPLIT [LISTS,LISTS ...]

EHI is the program. What exact search finds for each question of the split, its ten best documents,
takes the place of the judgments; the tree and IVF (k-means, four seeds) are then measured against
it; an index without a tree at its one setting. Prints the share of documents visited, in percent,
for 0.90, 0.95 and 0.99, on straight lines between the numbers of leaves or lists that were
measured.
"""

import json
import os
import subprocess
import sys
import tempfile

DEPTH = 10
TARGETS = (0.90, 0.95, 0.99)


def main():
    ehi, index, data, split = sys.argv[1:5]
    lists = sys.argv[5:6]
    with tempfile.TemporaryDirectory() as folder:
        run = os.path.join(folder, "exact.run")
        subprocess.run([ehi, "eval", "--index", index, "--data", data, "--split", split, "--beams", "all",
                        "--run", run], check=True, stdout=subprocess.DEVNULL)
        own = os.path.join(folder, "data")
        os.makedirs(os.path.join(own, "qrels"))
        for name in os.listdir(data):
            if name.startswith(("corpus.", "queries.")):
                os.symlink(os.path.abspath(os.path.join(data, name)), os.path.join(own, name))
        with open(run) as ranked, open(os.path.join(own, "qrels", "exact.tsv"), "w") as qrels:
            qrels.write("query-id\tcorpus-id\tscore\n")
            for line in ranked:
                query, _, document, rank = line.split()[:4]
                if int(rank) <= DEPTH:
                    qrels.write(f"{query}\t{document}\t1\n")
        figures = os.path.join(folder, "figures.json")
        chosen = ["--lists", *lists] if lists else []
        subprocess.run([ehi, "eval", "--index", index, "--data", own, "--split", "exact", "--json", figures,
                        "--baseline", "ivf", *chosen], check=True, stdout=subprocess.DEVNULL)
        with open(figures) as file:
            report = json.load(file)
    print("| | " + " | ".join(f"{target:.2f}" for target in TARGETS) + " |")
    rows = {"tree": [reached(point) for point in report["points"]]}
    if report["leaves"] == 1:
        # Its searches read codes first, and so did the run.
        rows.pop("tree")
        print(f"no tree: {report['exact'][f'recall@{DEPTH}']:.4f} of exact search's {DEPTH} best")
    for point in report["ivf"]:
        rows.setdefault(f"IVF, {point['lists']} lists", []).append(reached(point))
    for name, points in rows.items():
        points.sort()
        print(f"| {name} | " + " | ".join(visited(points, target) for target in TARGETS) + " |")


def reached(point):
    return point["visited_fraction"], point[f"recall@{DEPTH}"]


def visited(points, target):
    before = (0.0, 0.0)
    for fraction, recall in points:
        if recall >= target:
            step = (target - before[1]) / (recall - before[1])
            return f"{100 * (before[0] + step * (fraction - before[0])):.2f}"
        before = (fraction, recall)
    return "-"


if __name__ == "__main__":
    main()
