"""Which encoder is best for my questions?

    python examples/compare_encoders.py my-data all-MiniLM-L6-v2 intfloat/e5-small-v2 minishlab/potion-retrieval-32M

`my-data` has the layout of BEIR: corpus.jsonl, queries.jsonl and qrels/test.tsv. Each encoder is a folder, or the name
of a model on the hub. The measures are those of exact search by meaning alone. The time is that of inserting, most of which is encoding. The
bytes are those of one embedding; a long document has several.
"""

import gzip
import json
import pathlib
import sys
import tempfile
import time

import ehi


def compare(data, models, split="test"):
    """A row for each model: its name, nDCG@10, recall@10, seconds to insert, bytes of an embedding."""
    for model in models:
        with tempfile.TemporaryDirectory() as folder:
            with ehi.Index.create(pathlib.Path(folder) / "index", model) as index:
                started = time.perf_counter()
                index.add(documents(data))
                seconds = time.perf_counter() - started
                found = ehi.evaluate(index, data, split=split)["exact"]
                yield model, found["ndcg@10"], found["recall@10"], seconds, 2 * index.model.dim


def documents(data):
    path = next(pathlib.Path(data).glob("corpus.jsonl*"))
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            yield {"id": row["_id"], "title": row.get("title", ""), "text": row["text"]}


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    print(f"{'encoder':40} {'nDCG@10':>8} {'recall@10':>10} {'seconds':>8} {'bytes':>6}")
    for model, ndcg, recall, seconds, size in compare(sys.argv[1], sys.argv[2:]):
        print(f"{model:40} {ndcg:8.3f} {recall:10.3f} {seconds:8.1f} {size:6}")
