#!/usr/bin/env python3
"""A bundle in sentence-transformers: its embeddings compared with those of ehi.

    python3 -m venv target/torch && target/torch/bin/pip install torch sentence-transformers
    cargo run --release --example embed -- BUNDLE examples/data/scifact test EMBEDDED
    target/torch/bin/python scripts/experiments/sentence_transformers.py BUNDLE examples/data/scifact EMBEDDED

Prints the smallest cosine similarity of the two embeddings of a text, over the first documents of the corpus.
"""

import argparse
import gzip
import json
import pathlib
import sys

# This file has the package's name.
sys.path.pop(0)

import numpy as np
from sentence_transformers import SentenceTransformer

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("bundle")
parser.add_argument("data", type=pathlib.Path)
parser.add_argument("embedded", type=pathlib.Path)
parser.add_argument("--documents", type=int, default=200)
arguments = parser.parse_args()

plain = arguments.data / "corpus.jsonl"
path = plain if plain.exists() else arguments.data / "corpus.jsonl.gz"
with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8", newline="\n") as file:
    rows = [json.loads(next(file)) for _ in range(arguments.documents)]
texts = [f"{row['title']} {row['text']}".strip() for row in rows]
dim = json.loads((arguments.embedded / "dataset.json").read_text())["dim"]
own = np.fromfile(arguments.embedded / "documents.f32", dtype="<f4").reshape(-1, dim)[: len(texts)]
model = SentenceTransformer(arguments.bundle, model_kwargs={"dtype": "float32"})
other = model.encode(texts, batch_size=16).astype(np.float32)
similar = (own * other).sum(axis=1)
print(f"{len(texts)} documents: cosine at least {similar.min():.6f}, median {np.median(similar):.6f}")
sys.exit(int(similar.min() < 0.999))
