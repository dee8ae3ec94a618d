#!/usr/bin/env python3
"""Is it the partition or the order in which its leaves are visited that costs documents? Needs numpy and faiss.

    scripts/experiments/oracle.py INDEX QUESTIONS [--seed S] [--lists N] [--most 1000] [--second 0.05 0.15]

INDEX has been tuned; QUESTIONS is an index of the same encoder that holds the questions as documents. Exact
search's ten best are what is to be found. Partitions are the tree's leaves, and as many lists of spherical
k-means, plain and balanced as in `routes.py`. Each is visited in two orders: by its router (the tree's
columns, the centroids), and by an oracle that knows the ten: leaves that hold some of them first, fewest
documents for each of them first, then the router's order. Every question has the same budget of documents;
within a leaf its documents are found evenly.

Also tried on each partition, in the router's order: routers of several prototypes a leaf (2-means and 4-means
of its documents, the best one counts), and a second leaf for the documents whose second logit is nearest to
the first, copies counted.
"""

import argparse
import os

import faiss
import numpy as np

from routes import balanced
from splits import classifier, leaves, stored

SHARES = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05)
TARGETS = (0.90, 0.95, 0.99)
DEPTH = 10


def exact(rows, asked):
    found = []
    for at in range(0, len(asked), 100):
        scores = asked[at:at + 100] @ rows.T
        found.append(np.argpartition(-scores, DEPTH, axis=1)[:, :DEPTH])
    return np.concatenate(found)


def curve(order, sizes, wanted, documents):
    """Recall at each of `SHARES`, on the mean, and the share of documents for each of `TARGETS`; `order` and
    `wanted` (how many of the ten a leaf adds) are `[questions, leaves]`, in the order of visits."""
    costs = np.cumsum(sizes[order], axis=1)
    found = np.cumsum(wanted, axis=1) / DEPTH
    grid = np.unique(np.concatenate([np.geomspace(1, documents, 400), [share * documents for share in SHARES]]))
    total = np.zeros(len(grid))
    for cost, own in zip(costs, found):
        total += np.interp(grid, np.concatenate([[0], cost]), np.concatenate([[0], own]))
    total /= len(order)
    return ([np.interp(share * documents, grid, total) for share in SHARES],
            [np.interp(target, total, grid) / documents for target in TARGETS])


def show(name, measured):
    recalls, needed = measured
    print(f"| {name} | " + " | ".join(f"{100 * recall:.1f}" for recall in recalls) + " | "
          + " | ".join(f"{100 * share:.2f}" for share in needed) + " |", flush=True)


def visits(place, best, scores, oracle, sizes):
    """The order of visits and how many of the ten each adds."""
    held = np.zeros(scores.shape, np.int8)
    np.add.at(held, (np.arange(len(best))[:, None], place[best]), 1)
    order = np.argsort(-scores, axis=1, kind="stable")
    if oracle:
        key = np.where(held > 0, sizes[None] / np.maximum(held, 1), np.inf)
        own = np.take_along_axis(key, order, 1)
        order = np.take_along_axis(order, np.argsort(own, axis=1, kind="stable"), 1)
    return order, np.take_along_axis(held, order, 1)


def prototypes(rows, place, leaf_count, number, seed):
    """Unit means of `number`-means in each leaf, `[leaves, number, dim]`, by rows that lie farthest apart."""
    found = np.zeros((leaf_count, number, rows.shape[1]), np.float32)
    by_leaf = np.split(np.argsort(place, kind="stable"), np.cumsum(np.bincount(place, minlength=leaf_count))[:-1])
    for leaf, own in enumerate(by_leaf):
        if not len(own):
            continue
        own = rows[own]
        centres = [own[(own @ own.mean(0)).argmin()]]
        while len(centres) < min(number, len(own)):
            centres.append(own[(own @ np.stack(centres).T).max(1).argmin()])
        centres = np.stack(centres)
        for _ in range(4):
            side = (own @ centres.T).argmax(1)
            for at in range(len(centres)):
                if (side == at).any():
                    centres[at] = own[side == at].sum(0)
                    centres[at] /= np.linalg.norm(centres[at])
        found[leaf, :len(centres)] = centres
        found[leaf, len(centres):] = centres[0]
    return found


def second_leaf(rows, columns, share):
    """A second leaf for this share of the documents, those with the least difference of logits; else -1."""
    first, second, gap = (np.empty(len(rows), kind) for kind in (np.int64, np.int64, np.float32))
    for at in range(0, len(rows), 4096):
        scores = rows[at:at + 4096] @ columns
        two = np.argpartition(-scores, 1, axis=1)[:, :2]
        values = np.take_along_axis(scores, two, 1)
        swap = values[:, 1] > values[:, 0]
        two[swap], values[swap] = two[swap][:, ::-1], values[swap][:, ::-1]
        own = slice(at, at + len(scores))
        first[own], second[own], gap[own] = two[:, 0], two[:, 1], values[:, 0] - values[:, 1]
    second[gap > np.quantile(gap, share)] = -1
    return first, second


def with_copies(place, second, best, scores, documents):
    copied = np.flatnonzero(second >= 0)
    sizes = np.bincount(place, minlength=scores.shape[1]) + np.bincount(second[copied], minlength=scores.shape[1])
    order = np.argsort(-scores, axis=1, kind="stable")
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.arange(order.shape[1])[None].repeat(len(order), 0), 1)
    at = np.take_along_axis(rank, place[best], 1)
    other = second[best]
    at = np.where(other >= 0, np.minimum(at, np.take_along_axis(rank, np.maximum(other, 0), 1)), at)
    wanted = np.zeros(scores.shape, np.int8)
    np.add.at(wanted, (np.arange(len(best))[:, None], at), 1)
    return curve(order, sizes, wanted, documents)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("index")
    parser.add_argument("questions")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--lists", type=int, help="of k-means; as many as the tree has leaves if absent")
    parser.add_argument("--points", type=int, default=256, help="documents for each list that k-means reads, at most")
    parser.add_argument("--penalties", type=float, nargs="*", default=[0.1])
    parser.add_argument("--second", type=float, nargs="*", default=[])
    parser.add_argument("--prototypes", type=int, nargs="*", default=[])
    parser.add_argument("--most", type=int, default=1000)
    arguments = parser.parse_args()
    rows, _ = stored(arguments.index)
    asked = stored(arguments.questions)[0][:arguments.most]
    best = exact(rows, asked)
    with open(os.path.join(arguments.index, "CURRENT"), "rb") as file:
        number = int.from_bytes(file.read()[12:16], "little")
    tree = classifier(os.path.join(arguments.index, "models", str(number), "model"))
    lists = arguments.lists or tree.shape[1]
    kmeans = faiss.Kmeans(rows.shape[1], lists, niter=10, spherical=True, seed=arguments.seed + 1,
                          max_points_per_centroid=arguments.points)
    kmeans.train(rows)
    centroids = kmeans.centroids
    partitions = {"tree": (leaves(tree, rows), tree), "k-means": (leaves(centroids.T, rows), centroids.T)}
    for penalty in arguments.penalties:
        place, moved = balanced(rows, centroids, penalty, np.random.default_rng(arguments.seed))
        partitions[f"balanced {penalty}"] = (place, moved.T)
    print(f"{len(rows)} documents, {len(asked)} questions, {tree.shape[1]} leaves, {lists} lists, seed {arguments.seed}")
    print("| partition, order | " + " | ".join(f"{100 * share:g}%" for share in SHARES) + " | documents for "
          + " | ".join(f"{target:.2f}" for target in TARGETS) + " |")
    for name, (place, columns) in partitions.items():
        sizes = np.bincount(place, minlength=columns.shape[1])
        scores = asked @ columns
        distinct = np.mean([len(set(place[own])) for own in best])
        print(f"{name}: the ten lie in {distinct:.2f} leaves on the mean, coefficient of variation of the sizes "
              f"{sizes.std() / sizes.mean():.2f}")
        for order in ("oracle", "router"):
            show(f"{name}, {order}", curve(*(lambda o, w: (o, sizes, w))(*visits(place, best, scores, order == "oracle", sizes)), len(rows)))
        for many in arguments.prototypes:
            found = prototypes(rows, place, columns.shape[1], many, arguments.seed)
            own = np.stack([asked @ found[:, at].T for at in range(many)]).max(0)
            order, wanted = visits(place, best, own, False, sizes)
            show(f"{name}, {many} prototypes a leaf", curve(order, sizes, wanted, len(rows)))
        for share in arguments.second:
            first, second = second_leaf(rows, columns, share)
            # A balanced list is not its nearest centroid's.
            second = np.where(first == place, second, -1)
            show(f"{name}, a second leaf for {100 * share:g}%", with_copies(place, second, best, scores, len(rows)))


if __name__ == "__main__":
    main()
