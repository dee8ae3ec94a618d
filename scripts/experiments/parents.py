#!/usr/bin/env python3
"""Fewer products for routing to many leaves: what ways to look at some of them alone lose. Needs numpy and faiss.

    scripts/experiments/parents.py INDEX QUESTIONS [--lists 2048 10000] [--most 300] [--seed S]

INDEX holds the documents, QUESTIONS the questions as documents of the same encoder. Leaves are spherical
k-means. A way gives each leaf an estimate or its group one, and the best by it are looked at:

    flat N        groups by k-means of the columns, N on the mean, by the product with their mean
    two N         the same, each leaf in its two nearest groups
    halved N      groups of exactly N: columns halved along 2-means
    directions N  each leaf by its first N principal directions
    bits          each leaf by the signs of its centred, turned column (RaBitQ)

Prints the share of groups or leaves looked at, the work (products over the leaves; a bit is an eighth), and
the points of recall of exact search's ten best that are lost at beams that visit 1, 2 and 5% of the documents.
"""

import argparse

import faiss
import numpy as np

from splits import leaves, stored

SHARES = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3)


def best_of(scores, share):
    number = max(1, round(share * scores.shape[1]))
    return scores >= -np.partition(-scores, number - 1, axis=1)[:, number - 1:number]


def halved(columns, size, rounds=4):
    """The group of each column."""
    pending, group, count = [np.arange(len(columns))], np.empty(len(columns), np.int64), 0
    while pending:
        own = pending.pop()
        groups = -(-len(own) // size)
        if groups == 1:
            group[own] = count
            count += 1
            continue
        left, rows = groups // 2 * size, columns[own]
        first = rows[((rows - rows.mean(0)) ** 2).sum(1).argmax()]
        direction = rows[((rows - first) ** 2).sum(1).argmax()] - first
        for _ in range(rounds):
            order = np.argsort(rows @ direction, kind="stable")
            direction = rows[order[left:]].mean(0) - rows[order[:left]].mean(0)
        order = np.argsort(rows @ direction, kind="stable")
        pending += [own[order[left:]], own[order[:left]]]
    return group


def means(columns, group):
    sums = np.zeros((group.max() + 1, columns.shape[1]), np.float32)
    np.add.at(sums, group, columns)
    return sums / np.maximum(np.bincount(group), 1)[:, None]


def ways(columns, asked, rng):
    """Name, work beside the leaves looked at, scores, and the groups of each leaf (none: scores are leaves')."""
    for size in (8, 16, 24, 48):
        kmeans = faiss.Kmeans(columns.shape[1], max(1, len(columns) // size), niter=6, seed=1,
                              min_points_per_centroid=1, max_points_per_centroid=64)
        kmeans.train(columns)
        near = kmeans.index.search(columns, 2)[1]
        scores = asked @ means(columns, near[:, 0]).T
        yield f"flat {size}", 1 / size, scores, near[:, :1]
        if size <= 16:
            yield f"two {size}", 1 / size, np.pad(scores, ((0, 0), (0, near.max() + 1 - scores.shape[1])), constant_values=-np.inf), near
        group = halved(columns, size)
        yield f"halved {size}", 1 / size, asked @ means(columns, group).T, group[:, None]
    centred = columns - columns.mean(0)
    turned = np.linalg.eigh(centred.T @ centred)[1][:, ::-1]
    for width in (32, 64, 96):
        yield f"directions {width}", width / columns.shape[1], asked @ turned[:, :width] @ (centred @ turned[:, :width]).T, None
    rotation = np.linalg.qr(rng.standard_normal((columns.shape[1],) * 2))[0].astype(np.float32)
    factors = (centred ** 2).sum(1) / np.abs(centred @ rotation).sum(1)
    yield "bits", 1 / 8, (asked @ rotation) @ np.sign(centred @ rotation).T * factors, None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("index")
    parser.add_argument("questions")
    parser.add_argument("--lists", type=int, nargs="*", default=[2048, 10000])
    parser.add_argument("--most", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    rows, _ = stored(arguments.index)
    asked = stored(arguments.questions)[0][:arguments.most]
    best = np.concatenate([np.argpartition(-(asked[at:at + 100] @ rows.T), 10, axis=1)[:, :10]
                           for at in range(0, len(asked), 100)])
    for lists in arguments.lists:
        kmeans = faiss.Kmeans(rows.shape[1], lists, niter=5, spherical=True, seed=arguments.seed + 1,
                              max_points_per_centroid=max(6, 120_000 // lists))
        kmeans.train(rows)
        columns = kmeans.centroids
        place = leaves(columns.T, rows)
        logits = asked @ columns.T
        rank = np.argsort(np.argsort(-logits, axis=1, kind="stable"), axis=1)
        visited = (np.cumsum(np.bincount(place, minlength=lists)[np.argsort(-logits, axis=1)], axis=1) / len(rows)).mean(0)
        beams = [int(np.searchsorted(visited, share)) + 1 for share in (0.01, 0.02, 0.05)]
        exact = [(np.take_along_axis(rank, place[best], 1) < beam).mean() for beam in beams]
        print(f"{len(rows)} documents, {lists} leaves, beams {beams}, recall " + " ".join(f"{100 * own:.2f}" for own in exact))
        print("| way | looked at | work | lost at 1% | 2% | 5% |")
        for name, beside, scores, groups in ways(columns, asked, np.random.default_rng(arguments.seed)):
            for share in SHARES:
                chosen = best_of(scores, share)
                reach = chosen if groups is None else chosen[:, groups].any(2)
                near = np.argsort(np.argsort(np.where(reach, -logits, np.inf), axis=1, kind="stable"), axis=1)
                near = np.where(reach, near, lists)
                found = [(np.take_along_axis(near, place[best], 1) < beam).mean() for beam in beams]
                lost = " | ".join(f"{100 * (a - b):.2f}" for a, b in zip(exact, found))
                print(f"| {name} | {share} | {beside + reach.mean():.2f} | {lost} |", flush=True)


if __name__ == "__main__":
    main()
