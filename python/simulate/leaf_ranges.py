"""How many shards a query meets, with documents divided by their ids and by ranges of leaves.

    python python/simulate/leaf_ranges.py models/scifact-minilm examples/data/scifact

The documents of a folder in the layout of BEIR are encoded and routed by the model's tree, and so are its
questions; nothing of that is simulated. Then the documents are divided among shards in three ways, and it is
counted how many shards have a document in the leaves of a question:

- `hash`: by a hash of their ids, as `ehi.ray.build` does;
- `range`: by ranges of leaves of about as many documents each, in the order of the leaves' numbers;
- `near`: by ranges too, of leaves that are put in an order in which those that one question reaches are near
  each other: along the chain of leaves that questions reach together most often. The order is made from one
  half of the questions, and all figures are of the other half.

`random` is what is to be expected of ranges where a question's leaves have nothing to do with each other.
"""

from __future__ import annotations

import argparse
import gzip
import json
import pathlib
import tempfile

import numpy as np

import ehi
from ehi import shards as parts
from ehi.ray.documents import partition_of

BATCH = 512


def lines(folder, name):
    path = folder / f"{name}.jsonl"
    opener = open if path.exists() else gzip.open
    with opener(path if path.exists() else f"{path}.gz", "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def leaves_of_documents(index):
    """Ids of the documents of each leaf."""
    rows = parts.leaf_rows(index)
    vector = np.ones(index.model.dim, dtype=np.float32)
    found = []
    for leaf, count in enumerate(rows.tolist()):
        ids = []
        if count:
            ids = parts.search(index, count, vector=vector, leaves=[leaf], codes=False, ids_only=True).ids
        assert len(ids) == count
        found.append(ids)
    return found


def chain(routed, leaves):
    """An order of leaves: each next one is, of those left, the one most often reached with the last few."""
    together = np.zeros((leaves, leaves), dtype=np.float32)
    for own in routed:
        together[np.ix_(own, own)] += 1
    np.fill_diagonal(together, 0)
    left = np.ones(leaves, dtype=bool)
    order = [int(together.sum(axis=1).argmax())]
    left[order[0]] = False
    while left.any():
        # The last eight, the nearer ones the more.
        near = sum(together[leaf] * 0.5**age for age, leaf in enumerate(reversed(order[-8:])))
        near = np.where(left, near, -1)
        order.append(int(near.argmax()))
        left[order[-1]] = False
    return order


def ranges(order, rows, shards):
    """The shard of each leaf: ranges of an order with about as many documents each."""
    shard_of = np.zeros(len(order), dtype=int)
    total, so_far = rows.sum(), 0
    for leaf in order:
        # By the middle of the leaf, so that a large one falls where most of it is.
        shard_of[leaf] = min(int((so_far + rows[leaf] / 2) * shards / total), shards - 1)
        so_far += rows[leaf]
    return shard_of


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("--shards", type=int, nargs="+", default=[8, 64])
    parser.add_argument("--beams", type=int, nargs="+", default=[1, 4, 16, 32])
    parser.add_argument("--documents", type=int, help="the first so many; all unless given")
    parser.add_argument("--precision", default="int8", choices=["f32", "int8"])
    given = parser.parse_args()

    corpus = [
        {"id": line["_id"], "title": line.get("title", ""), "text": line["text"]}
        for line in lines(given.data, "corpus")[: given.documents]
    ]
    model = ehi.Model(given.model)
    with tempfile.TemporaryDirectory(prefix="ehi-simulate-") as folder:
        create = {"precision": given.precision, "durability": "none", "words": "none"}
        with ehi.Index.create(f"{folder}/index", model, **create) as index:
            for start in range(0, len(corpus), BATCH):
                index.add(corpus[start : start + BATCH])
            rows = parts.leaf_rows(index).astype(int)
            ids = leaves_of_documents(index)
    leaves = len(rows)
    texts = [line["text"] for line in lines(given.data, "queries")]
    vectors = ehi.Encoder(given.model, precision=given.precision).encode_query(texts)
    most = min(max(given.beams), leaves)
    routed = [parts.route(model, vector, most)[0].astype(int) for vector in vectors]
    learned, asked = routed[::2], routed[1::2]
    order = chain([own[: min(16, most)] for own in learned], leaves)

    found = []
    for shards in given.shards:
        # Of each leaf the shards that have a document of it.
        by_hash = [{partition_of(id, shards) for id in own} for own in ids]
        divided = {
            "range": ranges(range(leaves), rows, shards),
            "near": ranges(order, rows, shards),
        }
        for beam in given.beams:
            beam = min(beam, leaves)
            row = {"shards": shards, "beam": beam}
            row["hash"] = float(
                np.mean([len(set().union(*(by_hash[leaf] for leaf in own[:beam]))) for own in asked])
            )
            row["random"] = shards * (1 - (1 - 1 / shards) ** beam)
            for name, shard_of in divided.items():
                met = [{shard_of[leaf] for leaf in own[:beam] if rows[leaf]} for own in asked]
                row[name] = float(np.mean([len(own) for own in met]))
                counts = np.bincount([shard for own in met for shard in own], minlength=shards)
                row[f"{name}_busiest"] = float(counts.max() / len(asked))
            row["rows_scored"] = float(np.mean([rows[own[:beam]].sum() for own in asked]))
            found.append({name: round(value, 3) for name, value in row.items()})
    of = {
        "documents": len(corpus),
        "leaves": leaves,
        "rows_of_a_leaf": {
            "mean": round(float(rows.mean()), 2),
            "deviation": round(float(rows.std()), 2),
            "largest": int(rows.max()),
            "empty": int((rows == 0).sum()),
        },
        "questions": len(asked),
    }
    print(json.dumps({**of, "found": found}, indent=1))


if __name__ == "__main__":
    main()
