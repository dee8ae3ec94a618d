#!/usr/bin/env python3
"""BM25 over the encoder's tokens beside BM25 over stemmed words, alone and joined with embeddings.
Needs numpy, scipy, tokenizers and PyStemmer.

    scripts/experiments/stemmed.py INDEX QUESTIONS TOKENIZER DATASET [--dev train] [--split test]

Arguments are those of `routes.py`. The weight of embeddings is the best of 21 on the questions of `--dev`,
chosen apart for tokens and for stemmed words. Prints nDCG@10, recall@10 and recall@100 in percent on
`--split`, and the p-value (paired t-test) of the difference between stemmed words and tokens in nDCG@10.
"""

import argparse
import gzip
import json
import math
import os
import re

import numpy as np
import scipy.sparse as sparse
import scipy.stats
import Stemmer
from tokenizers import Tokenizer

from routes import bm25, counts, texts, without_punctuation
from splits import stored

DEPTH = 100


def lines(folder, name):
    path = os.path.join(folder, name)
    opened = open(path, encoding="utf-8") if os.path.exists(path) else gzip.open(path + ".gz", "rt", encoding="utf-8")
    with opened as file:
        yield from file


def judged(dataset, split, place):
    found = {}
    for line in list(lines(dataset, f"qrels/{split}.tsv"))[1:]:
        query, document, grade = line.split()
        if document in place and int(grade) > 0:
            found.setdefault(query, {})[place[document]] = int(grade)
    return found


def stemmed(all_texts, vocabulary, grow):
    stemmer = Stemmer.Stemmer("english")
    rows, columns = [], []
    for row, text in enumerate(all_texts):
        for word in stemmer.stemWords(re.findall(r"[^\W_]+", text.lower())):
            if grow:
                column = vocabulary.setdefault(word, len(vocabulary))
            else:
                column = vocabulary.get(word)
            if column is not None:
                rows.append(row)
                columns.append(column)
    ones = np.ones(len(rows), np.float32)
    return sparse.coo_matrix((ones, (rows, columns)), (len(all_texts), len(vocabulary))).tocsr()


def figures(order, grades):
    gains = [grades.get(row, 0) for row in order]
    ideal = sorted(grades.values(), reverse=True)[:10]
    dcg = sum(gain / math.log2(at + 2) for at, gain in enumerate(gains[:10]))
    best = sum(gain / math.log2(at + 2) for at, gain in enumerate(ideal))
    return dcg / best, sum(g > 0 for g in gains[:10]) / len(grades), sum(g > 0 for g in gains[:100]) / len(grades)


def best(scores):
    top = np.argpartition(-scores, DEPTH)[:DEPTH]
    return top[np.argsort(-scores[top], kind="stable")]


def joined(dense, words, alpha):
    own = np.union1d(best(dense), best(words))
    low, high = dense[own].min(), dense[own].max()
    score = alpha * (dense[own] - low) / (high - low) + (1 - alpha) * words[own] / max(words[own].max(), 1e-9)
    return own[np.argsort(-score, kind="stable")[:DEPTH]]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("index", "questions", "tokenizer", "dataset"):
        parser.add_argument(name)
    parser.add_argument("--dev", default="dev")
    parser.add_argument("--split", default="test")
    parser.add_argument("--most", type=int, default=1000)
    arguments = parser.parse_args()
    rows, ids = stored(arguments.index)
    asked, names = stored(arguments.questions)
    asked = dict(zip(names, asked))
    place = {name: at for at, name in enumerate(ids)}
    questions = {row["_id"]: row["text"] for row in map(json.loads, lines(arguments.dataset, "queries.jsonl"))}
    tokenizer = Tokenizer.from_file(arguments.tokenizer)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    own_texts = texts(arguments.dataset, ids)
    width = tokenizer.get_vocab_size()
    vocabulary = {}
    tokens, _ = bm25(counts(tokenizer, own_texts, width))
    words, _ = bm25(stemmed(own_texts, vocabulary, True))
    weights = [at / 20 for at in range(21)]
    chosen = {}
    for split in (arguments.dev, arguments.split):
        grades = judged(arguments.dataset, split, place)
        names = sorted(name for name in grades if name in asked)[:arguments.most]
        own = [questions[name] for name in names]
        own_tokens = without_punctuation(counts(tokenizer, own, width), tokenizer)
        by_kind = {"tokens": own_tokens @ tokens.T, "stemmed": stemmed(own, vocabulary, False) @ words.T}
        values = {}
        for at, name in enumerate(names):
            dense = rows @ asked[name]
            values.setdefault("dense", []).append(figures(best(dense), grades[name]))
            for kind, scores in by_kind.items():
                scores = scores[[at]].toarray().ravel()
                values.setdefault(kind, []).append(figures(best(scores), grades[name]))
                for alpha in weights if split == arguments.dev else [chosen[kind]]:
                    own_figures = figures(joined(dense, scores, alpha), grades[name])
                    values.setdefault((kind, alpha), []).append(own_figures)
        if split == arguments.dev:
            for kind in by_kind:
                chosen[kind] = max(weights, key=lambda alpha: np.mean([v[0] for v in values[kind, alpha]]))
    print(f"{len(ids)} documents, {len(names)} questions of {arguments.split}; nDCG@10, recall@10, recall@100")
    for name, own in values.items():
        print(name, " / ".join(f"{100 * x:.1f}" for x in np.mean(own, axis=0)))
    for first, second in (("stemmed", "tokens"), (("stemmed", chosen["stemmed"]), ("tokens", chosen["tokens"]))):
        own, other = (np.array(values[name])[:, 0] for name in (first, second))
        print(f"{first} against {second}: {100 * (own - other).mean():+.2f}, p {scipy.stats.ttest_rel(own, other).pvalue:.3f}")


if __name__ == "__main__":
    main()
