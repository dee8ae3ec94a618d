#!/usr/bin/env python3
"""Vectors drawn from a clustered model that is fitted to real embeddings.

    target/peers/bin/python benches/peers/synthetic.py EMBEDDED OUT --documents 1000000 --pairs

The model has 1,000 clusters by k-means, of the real ones' shares, and around each centre a normal distribution with the
covariance that real embeddings have around theirs, scaled to the spread of that cluster. With --pairs what is fitted are the
embeddings of two neighbouring documents side by side, which doubles the width: 384 becomes 768. Documents and queries
are drawn alike, and scaled to unit norm. OUT is a folder as the example `embed` writes it.
"""

import argparse
import json
import pathlib

from vectors import load

CLUSTERS = 1_000
BLOCK = 50_000


def fit(rows):
    """Centres, their shares and spreads, and a factor of the common covariance."""
    import faiss
    import numpy as np

    found = faiss.Kmeans(rows.shape[1], CLUSTERS, niter=10, seed=0, max_points_per_centroid=256)
    found.train(rows)
    own = found.index.search(rows, 1)[1][:, 0]
    shares = np.bincount(own, minlength=CLUSTERS) / len(rows)
    rest = rows - found.centroids[own]
    spreads = np.sqrt(np.bincount(own, (rest**2).sum(1), CLUSTERS) / np.maximum(np.bincount(own, minlength=CLUSTERS), 1))
    common = np.sqrt((rest**2).sum(1).mean())
    factor = np.linalg.cholesky(rest.T @ rest / len(rows) + 1e-9 * np.eye(rows.shape[1]))
    return found.centroids, shares, (spreads / common).astype(np.float32), factor.T.astype(np.float32)


def draw(model, count, random, path):
    import numpy as np

    centres, shares, spreads, factor = model
    with open(path, "wb") as out:
        for start in range(0, count, BLOCK):
            own = random.choice(len(centres), min(BLOCK, count - start), p=shares)
            rows = random.standard_normal((len(own), centres.shape[1]), dtype=np.float32) @ factor
            rows = centres[own] + spreads[own, None] * rows
            rows /= np.linalg.norm(rows, axis=1, keepdims=True)
            rows.astype("<f4").tofile(out)


def main():
    import numpy as np

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("embedded", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--documents", type=int, required=True)
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--pairs", action="store_true")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    rows = np.array(load(arguments.embedded)[0])
    if arguments.pairs:
        rows = np.hstack([rows[:-1], rows[1:]]) / np.float32(2**0.5)
    model = fit(rows)
    random = np.random.default_rng(0)
    draw(model, arguments.queries, random, arguments.out / "queries.f32")
    draw(model, arguments.documents, random, arguments.out / "documents.f32")
    about = {"dim": rows.shape[1], "documents": arguments.documents, "queries": []}
    (arguments.out / "dataset.json").write_text(json.dumps(about))


if __name__ == "__main__":
    main()
