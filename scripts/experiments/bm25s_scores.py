#!/usr/bin/env python3
"""Scores by words compared with those of bm25s, over the same token ids.

    scripts/experiments/bm25s_scores.py EHI INDEX MODEL DATASET SPLIT

Needs bm25s, numpy and tokenizers. EHI is the program, INDEX holds the corpus of DATASET, MODEL is the folder
with the index's tokenizer. Every document of every question of the split is compared; prints the largest
difference of two scores, and how many pairs were compared. bm25s: method `lucene`, k1 = 1.2, b = 0.75.
"""

import gzip
import json
import os
import subprocess
import sys
import unicodedata

import bm25s
import numpy as np
from tokenizers import Tokenizer


def lines(folder, name):
    for path in (os.path.join(folder, name), os.path.join(folder, name + ".gz")):
        if os.path.exists(path):
            with (gzip.open if path.endswith(".gz") else open)(path, "rt", encoding="utf-8", newline="\n") as file:
                yield from file
            return
    raise SystemExit(f"no {name} in {folder}")


def main():
    ehi, index, model, data, split = sys.argv[1:6]
    tokenizer = Tokenizer.from_file(os.path.join(model, "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    special = {id for id, token in tokenizer.get_added_tokens_decoder().items() if token.special}

    def terms(text):
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        return [id for id in ids if id not in special]

    def is_punctuation(id):
        """See src/model/tokenize/punctuation.rs."""
        token = tokenizer.id_to_token(id).removeprefix("##")
        return all(unicodedata.category(c)[0] == "P" and c not in "#%&@*\u00a7\u2030" for c in token)

    documents = [json.loads(line) for line in lines(data, "corpus.jsonl")]
    places = {document["_id"]: place for place, document in enumerate(documents)}
    corpus = [terms(document.get("title") or "") + terms(document["text"]) for document in documents]
    ids = sorted({id for own in corpus for id in own})
    vocabulary = {id: place for place, id in enumerate(ids)}
    retriever = bm25s.BM25(method="lucene", k1=1.2, b=0.75)
    packed = [[vocabulary[id] for id in own] for own in corpus]
    retriever.index((packed, {str(id): place for id, place in vocabulary.items()}), show_progress=False)
    texts = {query["_id"]: query["text"] for query in map(json.loads, lines(data, "queries.jsonl"))}
    with open(os.path.join(data, "qrels", split + ".tsv")) as file:
        next(file)
        queries = sorted({line.split("\t")[0] for line in file})
    largest, pairs, found = 0.0, 0, 0
    for query in queries:
        own = [vocabulary[id] for id in terms(texts[query]) if id in vocabulary and not is_punctuation(id)]
        expected = retriever.get_scores_from_ids(own) if own else np.zeros(len(documents))
        run = subprocess.run(
            [ehi, "search", "--index", index, "--mode", "lexical", "--k", str(len(documents)), "--json",
             # bm25s has no search operators.
             " ".join(texts[query].replace('"', " ").replace("+", " + ").replace(" -", " - ").split())],
            check=True, capture_output=True)
        scores = np.zeros(len(documents))
        for hit in json.loads(run.stdout)["hits"]:
            scores[places[hit["id"]]] = hit["score"]
            found += 1
        largest = max(largest, float(np.abs(scores - expected).max()))
        pairs += len(documents)
    print(f"{len(queries)} questions, {pairs} pairs, {found} of them with a common term: "
          f"largest difference {largest:.2e}")


main()
