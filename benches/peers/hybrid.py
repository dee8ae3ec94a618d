#!/usr/bin/env python3
"""What LanceDB's hybrid search finds, over the embeddings of an index of ours.

    python3 benches/peers/hybrid.py INDEX QUESTIONS DATASET [--split test]

Needs lancedb, pyarrow and numpy. INDEX holds DATASET's corpus, QUESTIONS is an index of the same encoder that holds
the questions as documents (docs/lab/experiments.md, a tree without labels). LanceDB has the same vectors, searched
exactly, and its own full-text index with its defaults (English stems), joined as it does by default (reciprocal
ranks, k = 60). Prints nDCG@10, recall@10 and recall@100 in percent of its vector, full-text and hybrid search.
"""

import argparse
import json
import math
import pathlib
import sys
import tempfile

import lancedb
import numpy as np

from beir import lines

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts/experiments"))
from splits import stored

DEPTH = 100


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("index", "questions", "data"):
        parser.add_argument(name, type=pathlib.Path)
    parser.add_argument("--split", default="test")
    arguments = parser.parse_args()
    rows, ids = stored(arguments.index)
    asked, names = stored(arguments.questions)
    vectors = dict(zip(names, asked))
    documents = {row["_id"]: row for row in map(json.loads, lines(arguments.data, "corpus.jsonl"))}
    questions = {row["_id"]: row["text"] for row in map(json.loads, lines(arguments.data, "queries.jsonl"))}
    judged = {}
    for line in list(lines(arguments.data, f"qrels/{arguments.split}.tsv"))[1:]:
        query, document, grade = line.split()
        if int(grade) > 0:
            judged.setdefault(query, {})[document] = int(grade)
    table = [{"id": name, "vector": row.astype(np.float32), "text": f"{documents[name].get('title') or ''} {documents[name]['text']}"}
             for name, row in zip(ids, rows)]
    database = lancedb.connect(tempfile.mkdtemp())
    table = database.create_table("documents", table)
    table.create_fts_index("text", replace=True)
    found = {"vector": [], "fts": [], "hybrid": []}
    for query, grades in judged.items():
        # Its query language has signs of its own.
        text = " ".join("".join(c if c.isalnum() else " " for c in questions[query]).split())
        vector = vectors[query].astype(np.float32)
        searches = {
            "vector": table.search(vector, vector_column_name="vector").distance_type("cosine"),
            "fts": table.search(text, query_type="fts"),
            "hybrid": table.search(query_type="hybrid", vector_column_name="vector").vector(vector).text(text).distance_type("cosine"),
        }
        for mode, search in searches.items():
            hits = [hit["id"] for hit in search.limit(DEPTH).to_list()]
            found[mode].append(figures(hits, grades))
    print(f"lancedb {lancedb.__version__}, {len(ids)} documents, {len(judged)} questions; nDCG@10 / recall@10 / recall@100")
    for mode, own in found.items():
        print(mode, " / ".join(f"{100 * value:.1f}" for value in np.mean(own, axis=0)))


def figures(order, grades):
    gains = [grades.get(name, 0) for name in order]
    ideal = sorted(grades.values(), reverse=True)[:10]
    dcg = sum(gain / math.log2(at + 2) for at, gain in enumerate(gains[:10]))
    best = sum(gain / math.log2(at + 2) for at, gain in enumerate(ideal))
    return dcg / best, sum(g > 0 for g in gains[:10]) / len(grades), sum(g > 0 for g in gains) / len(grades)


if __name__ == "__main__":
    main()
