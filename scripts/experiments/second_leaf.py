#!/usr/bin/env python3
"""One leaf per document against two, the second chosen in three ways, with a trained tree as it is.

    target/peers/bin/python scripts/experiments/second_leaf.py --embedded RUN1 RUN2 .. --tree BUNDLE1 BUNDLE2 ..

RUNn and BUNDLEn as for compare.py, whose environment this shares. The tree was trained for one leaf per document.
The second leaf is

- next: the next most probable one (appendix C.4),
- orthogonal: of the 16 most probable, the one that minimises SOAR's loss |r'|^2 + weight * (r . r')^2 / |r|^2, where
  r and r' are the document minus the mean document of its first and of its second leaf: a leaf that is near in
  another direction than the first is off,
- nearest: of those 16, the one whose mean document is nearest (SOAR with weight 0).

A document counts once as visited however many of its leaves are probed.
"""

import argparse
import pathlib

import numpy as np
from compare import at, beam_points, bootstrap, load, tree_scores

CANDIDATES = 16


def second(kind, documents, scores, weight):
    """[documents, 1 or 2] leaves."""
    order = np.argsort(-scores, axis=1, kind="stable")
    first = order[:, :1]
    if kind == "one":
        return first
    if kind == "next":
        return order[:, :2]
    weight = 0.0 if kind == "nearest" else weight
    means = np.zeros((scores.shape[1], documents.shape[1]), np.float32)
    np.add.at(means, first[:, 0], documents)
    means /= np.maximum(np.bincount(first[:, 0], minlength=len(means)), 1)[:, None]
    chosen = np.empty_like(first)
    for row, document in enumerate(documents):
        others = order[row, 1 : CANDIDATES + 1]
        off, offs = document - means[first[row, 0]], document - means[others]
        loss = (offs**2).sum(axis=1) + weight * (offs @ off) ** 2 / max(float(off @ off), 1e-9)
        chosen[row] = others[loss.argmin()]
    return np.concatenate([first, chosen], axis=1)


def points(documents, queries, relevant, leaves, query_scores):
    members = [np.flatnonzero((leaves == leaf).any(axis=1)) for leaf in range(query_scores.shape[1])]
    return beam_points(documents, queries, relevant, members, query_scores)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--embedded", type=pathlib.Path, nargs="+", required=True)
    parser.add_argument("--tree", type=pathlib.Path, nargs="+", required=True)
    parser.add_argument("--weight", type=float, default=1.0, help="SOAR's weight of the parallel part")
    parser.add_argument("--fractions", default="0.01,0.02,0.05,0.1,0.2")
    arguments = parser.parse_args()
    fractions = [float(each) for each in arguments.fractions.split(",")]
    runs = []
    for folder, bundle in zip(arguments.embedded, arguments.tree, strict=True):
        documents, queries, relevant = load(folder)
        scores, _ = tree_scores(bundle)
        runs.append((documents, queries, relevant, scores(documents), scores(queries)))
    measured = {
        kind: [
            points(d, q, r, second(kind, d, document_scores, arguments.weight), query_scores)
            for d, q, r, document_scores, query_scores in runs
        ]
        for kind in ("one", "next", "orthogonal", "nearest")
    }
    for fraction in fractions:
        values = {kind: np.mean([at(p, 0.0, fraction) for p in each], axis=0) for kind, each in measured.items()}
        for kind, own in values.items():
            p = bootstrap((own - values["one"])[:, 1]) if kind != "one" else 1.0
            mean = 100 * own.mean(axis=0)
            print(f"{100 * fraction:5.1f}%  {kind:<11} recall@10 {mean[0]:.1f}  recall@100 {mean[1]:.1f}  p against one leaf {p:.4f}", flush=True)


if __name__ == "__main__":
    main()
