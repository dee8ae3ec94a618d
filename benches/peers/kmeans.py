#!/usr/bin/env python3
"""A bundle whose tree is plain k-means of given vectors, so that storage and scan are compared apart from learning.

    target/peers/bin/python benches/peers/kmeans.py --embedded EMBEDDED --like BUNDLE --leaves 2000 --out BUNDLE

A tree of one level without a projection routes by dot products with its columns: with centroids there it is an inverted
file. With --projection the centroids are of the vectors' that many principal directions, which makes routing cheap. Encoder
and the rest are those of the bundle `--like`, which must have the width of the vectors.
"""

import argparse
import json
import pathlib

from bundles import write
from vectors import load


def centroids(documents, leaves, seed, points):
    """Unit rows `[leaves, width]`, by Faiss as it clusters for its own lists."""
    import faiss

    found = faiss.Kmeans(documents.shape[1], leaves, niter=10, spherical=True, seed=seed, max_points_per_centroid=points)
    found.train(documents)
    return found.centroids


def principal(documents, width):
    """The directions `[dim, width]` in which most of the rows lies."""
    import numpy as np

    step = max(1, len(documents) // 100_000)
    sample = np.array(documents[::step])
    return np.ascontiguousarray(np.linalg.eigh(sample.T @ sample)[1][:, ::-1][:, :width], dtype=np.float32)


def projected(documents, basis, block=100_000):
    import numpy as np

    rows = np.vstack([documents[start : start + block] @ basis for start in range(0, len(documents), block)])
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--embedded", type=pathlib.Path, required=True)
    parser.add_argument("--like", type=pathlib.Path, required=True)
    parser.add_argument("--leaves", type=int, required=True)
    parser.add_argument("--projection", type=int, default=0, metavar="WIDTH")
    parser.add_argument("--points", type=int, default=256, help="documents for each leaf that centroids are found from, at most")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    documents, _ = load(arguments.embedded)
    dim = json.loads((arguments.like / "ehi.json").read_text())["dim"]
    assert dim == documents.shape[1], f"{arguments.like} has {dim} dimensions, the vectors {documents.shape[1]}"
    basis = principal(documents, arguments.projection) if arguments.projection else None
    rows = documents if basis is None else projected(documents, basis)
    found = centroids(rows, arguments.leaves, arguments.seed, arguments.points)
    tensors = {"levels.0.classifier": found.T} | ({} if basis is None else {"projection": basis})
    write(arguments.like, arguments.out, tensors, len(found), 1)


if __name__ == "__main__":
    main()
