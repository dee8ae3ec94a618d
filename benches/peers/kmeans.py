#!/usr/bin/env python3
"""A bundle whose tree is plain k-means of given vectors, so that storage and scan are compared apart from learning.

    target/peers/bin/python benches/peers/kmeans.py --embedded EMBEDDED --like BUNDLE --leaves 2000 --out BUNDLE

A tree of one level without a projection routes by dot products with its columns: with centroids there it is an inverted
file. Encoder and the rest are those of the bundle `--like`, which must have the width of the vectors.
"""

import argparse
import hashlib
import json
import pathlib
import shutil

from vectors import load


def centroids(documents, leaves, seed):
    """Unit rows `[leaves, dim]`, by Faiss as it clusters for its own lists."""
    import faiss

    found = faiss.Kmeans(documents.shape[1], leaves, niter=10, spherical=True, seed=seed, max_points_per_centroid=256)
    found.train(documents)
    return found.centroids


def write(like, out, rows):
    import numpy as np

    shutil.copytree(like, out, ignore=shutil.ignore_patterns("training.json"))
    leaves, dim = rows.shape
    head = {"levels.0.classifier": {"dtype": "F32", "shape": [dim, leaves], "data_offsets": [0, 4 * dim * leaves]}}
    head = json.dumps(head).encode()
    head += b" " * (-len(head) % 8)
    weights = len(head).to_bytes(8, "little") + head + np.ascontiguousarray(rows.T, dtype="<f4").tobytes()
    (out / "indexer.safetensors").write_bytes(weights)
    about = json.loads((out / "ehi.json").read_text())
    assert about["dim"] == dim, f"{like} has {about['dim']} dimensions, the vectors {dim}"
    about |= {"format_version": 2, "branching_factor": leaves, "height": 1, "leaves_per_document": 1}
    about["files"]["indexer.safetensors"] = hashlib.sha256(weights).hexdigest()
    (out / "ehi.json").write_text(json.dumps(about, indent=2))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--embedded", type=pathlib.Path, required=True)
    parser.add_argument("--like", type=pathlib.Path, required=True)
    parser.add_argument("--leaves", type=int, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    documents, _ = load(arguments.embedded)
    write(arguments.like, arguments.out, centroids(documents, arguments.leaves, arguments.seed))


if __name__ == "__main__":
    main()
