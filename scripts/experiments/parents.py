#!/usr/bin/env python3
"""Routing in two levels over flat leaves: what groupings of a level's columns lose. Needs numpy and faiss.

    scripts/experiments/parents.py INDEX QUESTIONS [--bundle BUNDLE] [--lists N ...] [--sizes 16 48] [--shares 0.1]

INDEX holds the documents, QUESTIONS the questions as documents of the same encoder. The columns are those of
BUNDLE's tree, or centroids of spherical k-means times 20. They are grouped by flat k-means (so many to a parent on the
mean), by halving along 2-means until groups have that size, or at random. Of each question the parents with
the greatest score are chosen; only their leaves are ordered. Prints recall of exact search's ten best at
beams that visit 1, 2 and 5% of the documents, over all leaves and over those of the chosen parents; how far
the estimated logarithm of the softmax's denominator is off, and the entropy.
"""

import argparse

import faiss
import numpy as np

from splits import leaves, stored, tensors

SCALE = 20


def flat(columns, size, rng):
    parents = max(1, len(columns) // size)
    kmeans = faiss.Kmeans(columns.shape[1], parents, niter=5, seed=int(rng.integers(1 << 30)), min_points_per_centroid=1)
    kmeans.train(columns)
    place = kmeans.index.search(columns, 1)[1][:, 0]
    return [own for parent in range(parents) if len(own := np.flatnonzero(place == parent))]


def halved(columns, size, rng, rounds=4):
    """Groups of exactly `size`, but for the last."""
    pending, groups = [np.arange(len(columns))], []
    while pending:
        own = pending.pop()
        count = -(-len(own) // size)
        if count == 1:
            groups.append(own)
            continue
        left, rows = count // 2 * size, columns[own]
        first = rows[((rows - rows.mean(0)) ** 2).sum(1).argmax()]
        direction = rows[((rows - first) ** 2).sum(1).argmax()] - first
        for _ in range(rounds):
            order = np.argsort(rows @ direction, kind="stable")
            direction = rows[order[left:]].mean(0) - rows[order[:left]].mean(0)
        order = np.argsort(rows @ direction, kind="stable")
        pending += [own[order[left:]], own[order[:left]]]
    return groups


def drawn(columns, size, rng):
    return np.array_split(rng.permutation(len(columns)), max(1, len(columns) // size))


def log_sum(values, axis):
    top = values.max(axis, keepdims=True)
    return (top + np.log(np.exp(values - top).sum(axis, keepdims=True))).squeeze(axis)


def measure(name, columns, inputs, place, best, sizes_of, shares, sizes, rng):
    logits = inputs @ columns.T
    order = np.argsort(-logits, axis=1)
    total = sizes_of.sum()
    visited = (np.cumsum(sizes_of[order], axis=1) / total).mean(0)
    beams = [int(np.searchsorted(visited, at)) + 1 for at in (0.01, 0.02, 0.05)]
    denominator = log_sum(logits, 1)
    p = np.exp(logits - denominator[:, None])
    entropy = -(p * np.log(np.maximum(p, 1e-30))).sum(1)
    found = [np.mean([np.isin(place[best[q]], order[q, :beam]).mean() for q in range(len(inputs))]) for beam in beams]
    print(f"{name}: {len(columns)} leaves, beams {beams}, recall " + " ".join(f"{100 * f:.2f}" for f in found)
          + f", entropy {entropy.mean():.2f}, mass of the second beam {np.mean([p[q, order[q, :beams[1]]].sum() for q in range(len(inputs))]):.3f}", flush=True)
    for grouping in (flat, halved, drawn):
        for size in sizes:
            groups = grouping(columns, size, rng)
            means = np.stack([columns[own].mean(0) for own in groups])
            counts = np.array([len(own) for own in groups])
            group_of = np.empty(len(columns), np.int64)
            for at, own in enumerate(groups):
                group_of[own] = at
            spread = np.array([((columns[own] - mean) ** 2).sum(1).mean() for own, mean in zip(groups, means)])
            mean_logit = inputs @ means.T
            variance = spread[None] * (inputs ** 2).sum(1, keepdims=True) / columns.shape[1]
            for score_name, score in (("mean", mean_logit), ("mean + sd", mean_logit + np.sqrt(variance)), ("mean + var/2", mean_logit + variance / 2)):
                if grouping is drawn and score_name != "mean":
                    continue
                ranks = np.argsort(np.argsort(-score, axis=1), axis=1)
                for share in shares:
                    chosen = ranks < max(1, round(share * len(groups)))
                    reach = chosen[:, group_of]
                    here = np.where(reach, logits, -np.inf)
                    near = np.argsort(-here, axis=1)
                    lost = []
                    for beam, exact in zip(beams, found):
                        own = np.mean([np.isin(place[best[q]], near[q, :beam]).mean() for q in range(len(inputs))])
                        lost.append(100 * (exact - own))
                    cells = [denominator - log_sum(np.concatenate([here, np.where(chosen, -np.inf, mean_logit + np.log(counts) + add)], 1), 1)
                             for add in (-1e9, 0, variance / 2)]
                    off = " / ".join(f"{cell.mean():.3f} ± {cell.std():.3f}" for cell in cells)
                    print(f"| {grouping.__name__} {size} | {score_name} | {share:.2f} | {len(groups)} | {reach.sum(1).mean():.0f} | "
                          + " | ".join(f"{x:.2f}" for x in lost) + f" | {off} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("index")
    parser.add_argument("questions")
    parser.add_argument("--bundle")
    parser.add_argument("--lists", type=int, nargs="*", default=[])
    parser.add_argument("--sizes", type=int, nargs="*", default=[16, 48])
    parser.add_argument("--shares", type=float, nargs="*", default=[0.1])
    parser.add_argument("--most", type=int, default=500)
    arguments = parser.parse_args()
    rows, _ = stored(arguments.index)
    questions = stored(arguments.questions)[0][:arguments.most]
    best = np.concatenate([np.argpartition(-(questions[at:at + 100] @ rows.T), 10, axis=1)[:, :10]
                           for at in range(0, len(questions), 100)])
    rng = np.random.default_rng(0)
    print("| grouping | score of a parent | share chosen | parents | leaves scored | points lost at 1% | 2% | 5% | "
          "log denominator off: none / mean / spread |")
    if arguments.bundle:
        own = tensors(arguments.bundle)
        inputs, routed = (own["projection"] if "projection" in own else np.eye(rows.shape[1], dtype=np.float32)), own["levels.0.classifier"]
        scale = own["scale"]
        place = leaves(inputs @ routed, rows)
        measure("tree", scale * routed.T, questions @ inputs, place, best, np.bincount(place, minlength=routed.shape[1]),
                arguments.shares, arguments.sizes, rng)
    for lists in arguments.lists:
        kmeans = faiss.Kmeans(rows.shape[1], lists, niter=8, spherical=True, seed=1, max_points_per_centroid=64)
        kmeans.train(rows)
        place = leaves(kmeans.centroids.T, rows)
        measure("k-means", SCALE * kmeans.centroids, questions, place, best, np.bincount(place, minlength=lists),
                arguments.shares, arguments.sizes, rng)


if __name__ == "__main__":
    main()
