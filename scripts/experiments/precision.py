#!/usr/bin/env python3
"""What encoding in eight bits does to retrieval: exact search over embeddings of both precisions, query by query.

    cargo run --release --example embed -- MODEL DATA test F32
    cargo run --release --example embed -- MODEL DATA test INT8 int8
    python3 scripts/experiments/precision.py F32 INT8

Relevance is binary. p-values are of a two-sided paired bootstrap over queries, 10,000 resamples, against f32 for both.
"""

import json
import pathlib
import sys

import numpy as np

DEPTH = 100


def load(folder):
    folder = pathlib.Path(folder)
    about = json.loads((folder / "dataset.json").read_text())
    rows = lambda name: np.fromfile(folder / name, dtype="<f4").reshape(-1, about["dim"])
    return rows("documents.f32"), rows("queries.f32"), [set(query["relevant"]) for query in about["queries"]]


def figures(documents, queries, relevant):
    """[queries, 3]: nDCG@10, recall@10, recall@100."""
    # An index keeps f16 rows.
    scores = queries @ documents.astype(np.float16).astype(np.float32).T
    found = np.argsort(-scores, axis=1, kind="stable")[:, :DEPTH]
    gains = 1 / np.log2(np.arange(2, 12))
    out = []
    for own, row in zip(relevant, found):
        hits = np.array([document in own for document in row])
        ideal = gains[: min(len(own), 10)].sum()
        out.append([(hits[:10] * gains).sum() / ideal, hits[:10].sum() / len(own), hits.sum() / len(own)])
    return np.array(out)


def p_values(a, b):
    random = np.random.default_rng(0)
    difference = a - b
    drawn = difference[random.integers(0, len(difference), (10_000, len(difference)))].mean(1)
    return np.minimum(1, 2 * np.minimum((drawn <= 0).mean(0), (drawn >= 0).mean(0)))


def main():
    exact, close = load(sys.argv[1]), load(sys.argv[2])
    relevant = exact[2]
    assert relevant == close[2], "these are two datasets"
    base = figures(exact[0], exact[1], relevant)
    for name, one, other in [("documents", exact[0], close[0]), ("queries", exact[1], close[1])]:
        cosines = (one * other).sum(1)
        print(f"{name}: cosine of both precisions {cosines.mean():.4f} on the mean, {cosines.min():.4f} at least")
    print("\n| Documents | Queries | nDCG@10 | Recall@10 | Recall@100 | p |\n|---|---|---|---|---|---|")
    for names, own in [
        (("f32", "f32"), base),
        (("f32", "int8"), figures(exact[0], close[1], relevant)),
        (("int8", "f32"), figures(close[0], exact[1], relevant)),
        (("int8", "int8"), figures(close[0], close[1], relevant)),
    ]:
        means = " | ".join(f"{100 * value:.2f}" for value in own.mean(0))
        p = ", ".join(f"{value:.2f}" for value in p_values(own, base)) if own is not base else ""
        print(f"| {names[0]} | {names[1]} | {means} | {p} |")


if __name__ == "__main__":
    main()
