#!/usr/bin/env python3
"""Faiss IVF-Flat and ScaNN on embeddings written by the example `embed`, as JSON lines.

    python3 -m venv target/peers && target/peers/bin/pip install numpy faiss-cpu scann
    target/peers/bin/python scripts/experiments/peers.py EMBEDDED > peers.jsonl

Each line is one engine at one number of lists: recall@10 and recall@100 against the fraction of
documents visited and against work (documents scored plus one dot product per centroid, over
documents), averaged over seeds.

ScaNN does not say how many documents it scored, so its visited fraction is that of the leaves
searched: exact where its leaves are even, an estimate where they are not.
"""

import argparse
import json
import pathlib
import sys

import faiss
import numpy as np

FRACTIONS = [0.02, 0.05, 0.1, 0.2, 0.4]
DEPTH = 100


def load(folder):
    about = json.loads((folder / "dataset.json").read_text())
    documents = np.fromfile(folder / "documents.f32", dtype="<f4").reshape(-1, about["dim"])
    queries = np.fromfile(folder / "queries.f32", dtype="<f4").reshape(-1, about["dim"])
    relevant = [set(query["relevant"]) for query in about["queries"]]
    return documents, queries, relevant


def recalls(found, relevant):
    """[queries, 2]: recall@10 and recall@100."""
    return np.array(
        [
            [len(own.intersection(row[:k].tolist())) / max(len(own), 1) for k in (10, DEPTH)]
            for row, own in zip(found, relevant)
        ]
    )


def probes(lists):
    steps = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256]
    return [step for step in steps if step < lists] + [lists]


def faiss_points(documents, queries, relevant, lists, seed):
    dim = documents.shape[1]
    quantizer = faiss.IndexFlatIP(dim)
    index = faiss.IndexIVFFlat(quantizer, dim, lists, faiss.METRIC_INNER_PRODUCT)
    index.cp.seed = seed
    index.cp.spherical = True
    index.cp.niter = 25
    index.cp.min_points_per_centroid = 1
    index.train(documents)
    index.add(documents)
    sizes = np.array([index.invlists.list_size(i) for i in range(lists)])
    _, order = quantizer.search(queries, lists)
    for nprobe in probes(lists):
        index.nprobe = nprobe
        visited = sizes[order[:, :nprobe]].sum(axis=1).mean() / len(documents)
        _, found = index.search(queries, DEPTH)
        yield visited, recalls(found, relevant)


def scann_points(documents, queries, relevant, lists, seed):
    import scann

    del seed  # ScaNN's builder takes none: its own randomness makes the difference.
    builder = scann.scann_ops_pybind.builder(documents, DEPTH, "dot_product")
    searcher = builder.tree(
        num_leaves=lists, num_leaves_to_search=1, training_sample_size=len(documents)
    ).score_brute_force().build()
    for nprobe in probes(lists):
        found, _ = searcher.search_batched(queries, leaves_to_search=nprobe)
        yield nprobe / lists, recalls(np.where(np.isnan(found.astype(float)), -1, found), relevant)


def at(points, extra, fraction):
    """Per-query values at a fraction of the cost, by linear interpolation from (0, 0)."""
    costs = np.array([0.0] + [visited + extra for visited, _ in points])
    values = [np.zeros_like(points[0][1])] + [values for _, values in points]
    right = np.searchsorted(costs, fraction)
    if right >= len(costs):
        return None
    left = max(right - 1, 0)
    width = costs[right] - costs[left]
    share = (fraction - costs[left]) / width if width > 0 else 1.0
    return values[left] + share * (values[right] - values[left])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("embedded", type=pathlib.Path)
    parser.add_argument("--lists", default="20,40,72,100,150,259,518")
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--engines", default="faiss,scann")
    arguments = parser.parse_args()
    documents, queries, relevant = load(arguments.embedded)
    engines = {"faiss": faiss_points, "scann": scann_points}
    for engine in arguments.engines.split(","):
        for lists in map(int, arguments.lists.split(",")):
            runs = [
                list(engines[engine](documents, queries, relevant, lists, seed))
                for seed in range(arguments.seeds)
            ]
            line = {"engine": engine, "lists": lists, "seeds": arguments.seeds}
            for cost, extra in [("visited", 0.0), ("work", lists / len(documents))]:
                for fraction in FRACTIONS:
                    found = [at(run, extra, fraction) for run in runs]
                    if any(values is None for values in found):
                        continue
                    mean = np.mean(found, axis=0)
                    line[f"{cost}@{fraction}"] = {
                        "recall@10": mean[:, 0].mean(),
                        "recall@100": mean[:, 1].mean(),
                        "recall@100 by seed": [values[:, 1].mean() for values in found],
                    }
            print(json.dumps(line))
            sys.stdout.flush()


if __name__ == "__main__":
    main()
