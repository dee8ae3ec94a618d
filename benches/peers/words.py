#!/usr/bin/env python3
"""A search by words: ehi beside tantivy, over the same token ids, by turns, one thread each.

    python3 benches/peers/words.py INDEX DATASET TOKENIZER [--split test] [--rounds 5]

INDEX holds the corpus of DATASET, a folder in BEIR's layout; TOKENIZER is its encoder's `tokenizer.json`.
Needs `tokenizers`. tantivy gets the ids as words, one segment, no positions and nothing stored. Prints the
medians and 99th percentiles over questions, in microseconds, of 10 and 100 hits: the search alone, without
taking the question apart and without documents; medians over rounds.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile
import unicodedata

from beir import lines
from tokenizers import Tokenizer

ROOT = pathlib.Path(__file__).resolve().parents[2]
MOST = 500


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("index", type=pathlib.Path)
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("tokenizer")
    parser.add_argument("--split", default="test")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    tokenizer = Tokenizer.from_file(arguments.tokenizer)
    tokenizer.no_truncation()
    tokenizer.no_padding()

    def is_punctuation(token):
        return all(unicodedata.category(c)[0] == "P" and c not in "#%&@*" for c in token.removeprefix("##"))

    wanted = {line.split("\t")[0] for line in lines(arguments.data, f"qrels/{arguments.split}.tsv")}
    queries = [row for row in map(json.loads, lines(arguments.data, "queries.jsonl")) if row["_id"] in wanted][:MOST]
    work = pathlib.Path(tempfile.mkdtemp())
    with open(work / "documents", "w") as out:
        for row in map(json.loads, lines(arguments.data, "corpus.jsonl")):
            text = f"{row.get('title') or ''} {row['text']}"
            out.write(" ".join(map(str, tokenizer.encode(text, add_special_tokens=False).ids)) + "\n")
    with open(work / "queries", "w") as out, open(work / "texts", "w") as texts:
        for row in queries:
            encoded = tokenizer.encode(row["text"], add_special_tokens=False)
            own = [id for id, token in zip(encoded.ids, encoded.tokens) if not is_punctuation(token)]
            out.write(" ".join(map(str, own)) + "\n")
            texts.write(json.dumps({"_id": row["_id"], "text": " ".join(row["text"].split())}) + "\n")
    folder, target = ROOT / "benches/peers/tantivy", ROOT / "target/tantivy"
    environment = {**os.environ, "CARGO_TARGET_DIR": str(target)}
    subprocess.run(["cargo", "build", "--release", "--quiet", "--manifest-path", folder / "Cargo.toml"], check=True,
                   env=environment)
    subprocess.run(["cargo", "build", "--release", "--quiet", "--bench", "words"], check=True, cwd=ROOT)
    peer = subprocess.Popen([target / "release/words-tantivy", work / "documents", work / "queries", work / "index"],
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    print("tantivy:", json.loads(peer.stdout.readline()))
    own = {}
    for _ in range(arguments.rounds):
        for k in (10, 100):
            peer.stdin.write(f"{k}\n")
            peer.stdin.flush()
            add(own, ("tantivy", k), json.loads(peer.stdout.readline()))
        run = subprocess.run(["cargo", "bench", "--quiet", "--bench", "words", "--", arguments.index, work / "texts",
                              "--lexical"], check=True, cwd=ROOT, capture_output=True, text=True)
        for line in run.stdout.splitlines():
            row = json.loads(line)
            add(own, ("ehi", row["k"]), row["micros"])
    peer.stdin.close()
    print(f"{len(queries)} questions, {arguments.rounds} rounds")
    for (name, k), rounds in sorted(own.items()):
        median, p99 = (statistics.median(figures) for figures in zip(*rounds))
        print(f"{name:<8} {k:>4} hits  median {median:>7.0f}  p99 {p99:>7.0f}")


def add(own, key, micros):
    micros = sorted(micros)
    own.setdefault(key, []).append((statistics.median(micros), micros[len(micros) * 99 // 100]))


if __name__ == "__main__":
    main()
