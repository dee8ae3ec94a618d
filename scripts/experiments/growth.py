#!/usr/bin/env python3
"""A collection that grows in the order of its subjects: trees made early against trees made anew.

    scripts/experiments/growth.py EHI BASE DATASET WORK [SIZE ...]

EHI is the program, BASE the plain encoder, DATASET a folder whose documents have `metadata.venue`, WORK
an empty folder for the index and the bundles. The documents come sorted by venue. At each size a tree
is tuned, and every tree so far is measured at every later size: documents visited for 0.95 of exact
search's ten best on the questions of `test`, with the 99th percentile over questions at the number of
leaves that reaches it, and the leaf with the most documents. Prints a row for each tree and size.
"""

import gzip
import json
import os
import shutil
import subprocess
import sys

DEPTH, TARGET = 10, 0.95


def main():
    ehi, base, data, work = sys.argv[1:5]
    sizes = [int(size) for size in sys.argv[5:]] or [1_000, 5_000, 15_000, 30_000, 60_000]
    index, bundles = os.path.join(work, "index"), os.path.join(work, "bundles")
    os.makedirs(bundles)
    with gzip.open(os.path.join(data, "corpus.jsonl.gz"), "rt") as file:
        documents = sorted((json.loads(line) for line in file), key=lambda d: (d["metadata"]["venue"], d["_id"]))
    with open(os.path.join(work, "order.txt"), "w") as file:
        file.writelines(document["_id"] + "\n" for document in documents)
    run(ehi, "create", "--index", index, "--model", base)
    print("| documents | tree of | leaves | visited for 0.95 | 99th percentile | largest leaf |")
    print("|---|---|---|---|---|---|")
    trees, stored = [], 0
    for size in sizes:
        part = os.path.join(work, "part.jsonl")
        with open(part, "w") as file:
            file.writelines(json.dumps(document) + "\n" for document in documents[stored:size])
        run(ehi, "insert", "--cache", "", "--index", index, part)
        stored = size
        exact = exact_answers(ehi, index, data, work)
        for tree in trees:
            change(ehi, index, os.path.join(bundles, str(tree)))
            measure(ehi, index, exact, size, tree, work)
        run(ehi, "tune", "--index", index, "--always")
        shutil.copytree(serving(index), os.path.join(bundles, str(size)))
        measure(ehi, index, exact, size, size, work)
        trees.append(size)


def serving(index):
    models = os.path.join(index, "models")
    with open(os.path.join(index, "CURRENT"), "rb") as file:
        number = int.from_bytes(file.read()[12:16], "little")
    return os.path.join(models, str(number), "model")


def change(ehi, index, bundle):
    done = subprocess.run([ehi, "reencode", "--index", index, "--model", bundle], stderr=subprocess.PIPE, text=True,
                          stdout=subprocess.DEVNULL)
    if done.returncode and "already" not in done.stderr:
        raise SystemExit(done.stderr)


def exact_answers(ehi, index, data, work):
    """A dataset whose judgments are exact search's ten best."""
    own, ranked = os.path.join(work, "exact"), os.path.join(work, "exact.run")
    run(ehi, "eval", "--index", index, "--data", data, "--split", "test", "--beams", "all", "--run", ranked)
    shutil.rmtree(own, ignore_errors=True)
    os.makedirs(os.path.join(own, "qrels"))
    for name in os.listdir(data):
        if name.startswith(("corpus.", "queries.")):
            os.symlink(os.path.abspath(os.path.join(data, name)), os.path.join(own, name))
    with open(ranked) as lines, open(os.path.join(own, "qrels", "exact.tsv"), "w") as qrels:
        qrels.write("query-id\tcorpus-id\tscore\n")
        for line in lines:
            query, _, document, rank = line.split()[:4]
            if int(rank) <= DEPTH:
                qrels.write(f"{query}\t{document}\t1\n")
    return own


def measure(ehi, index, exact, documents, tree, work):
    figures, each = os.path.join(work, "figures.json"), os.path.join(work, "each.jsonl")
    run(ehi, "eval", "--index", index, "--data", exact, "--split", "exact", "--json", figures, "--per-query", each)
    with open(figures) as file:
        report = json.load(file)
    points = sorted((point["visited_fraction"], point[f"recall@{DEPTH}"], point["beam"]) for point in report["points"])
    before = (0.0, 0.0, 0)
    for point in points:
        if point[1] >= TARGET:
            break
        before = point
    step = (TARGET - before[1]) / (point[1] - before[1])
    visited = before[0] + step * (point[0] - before[0])
    with open(each) as lines:
        rows = [json.loads(line) for line in lines]
    scanned = sorted(row["visited_fraction"] for row in rows if row.get("beam") == point[2])
    last = scanned[int(0.99 * (len(scanned) - 1))]
    stats = json.loads(run(ehi, "stats", "--index", index, "--json"))
    largest = max(leaf["documents"] for leaf in stats["leaf_sizes"])
    print(f"| {documents} | {tree} | {report['leaves']} | {100 * visited:.2f}% | {100 * last:.2f}% | {largest} |", flush=True)


def run(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


if __name__ == "__main__":
    main()
