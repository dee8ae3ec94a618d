"""Vectors in a folder as the example `embed` writes them."""

import json


def load(folder):
    """Documents and queries, `[n, dim]` f32 of unit norm; the documents are mapped."""
    import numpy as np

    dim = json.loads((folder / "dataset.json").read_text())["dim"]
    documents = np.memmap(folder / "documents.f32", dtype="<f4", mode="r").reshape(-1, dim)
    return documents, np.fromfile(folder / "queries.f32", dtype="<f4").reshape(-1, dim)


def nearest(documents, queries, k, block=100_000):
    """Rows of the k nearest documents of each query, best first, by exact search over what f16 keeps of them."""
    import numpy as np

    scores = np.empty((len(queries), 0), np.float32)
    rows = np.empty((len(queries), 0), np.int64)
    for start in range(0, len(documents), block):
        kept = documents[start : start + block].astype(np.float16).astype(np.float32)
        own = queries @ kept.T
        scores = np.hstack([scores, own])
        rows = np.hstack([rows, np.broadcast_to(np.arange(start, start + len(kept)), own.shape)])
        best = np.argpartition(-scores, min(k, scores.shape[1]) - 1, axis=1)[:, :k]
        scores, rows = np.take_along_axis(scores, best, 1), np.take_along_axis(rows, best, 1)
        best = np.argsort(-scores, axis=1, kind="stable")
        scores, rows = np.take_along_axis(scores, best, 1), np.take_along_axis(rows, best, 1)
    return rows


def recall_of(found, exact):
    """The share of the nearest rows, `[queries, k]`, that is among those found for each query."""
    return sum(len(set(own) & set(row.tolist())) for own, row in zip(found, exact)) / exact.size
