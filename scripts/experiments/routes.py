#!/usr/bin/env python3
"""Terms as routes: documents that a question's words lead to, beside the leaves of a tree or the lists of IVF.
Needs numpy, scipy, faiss and tokenizers.

    scripts/experiments/routes.py INDEX QUESTIONS TOKENIZER DATASET [--lists N] [--seed S] [--most 1000]

INDEX has been tuned; QUESTIONS is an index of the same encoder that holds the questions as documents;
TOKENIZER is the encoder's `tokenizer.json`; the texts are those of DATASET, a folder in BEIR's layout.
Exact search's 10 and 100 best documents are what is to be found. Each engine is a partition (the tree, or
spherical k-means of as many lists, plain or balanced: the size of a list, over the mean, times a
penalty counts against it) with one kind of route, all documents united and each counted once:

    lists T C L   each document is in the lists of its T most telling terms; a question adds those of its L
                  rarest terms that are no longer than C
    best N        the N best documents by BM25
    leaves N      the leaves of the N best documents by BM25 join the beam

Prints the share of documents visited for 0.90, 0.95 and 0.99 of the 10 best, and what is found of the 10 and
the 100 best at 1, 2 and 5% visited, on straight lines between numbers of leaves.
"""

import argparse
import gzip
import json
import os
import unicodedata

import faiss
import numpy as np
import scipy.sparse as sparse
from tokenizers import Tokenizer

from splits import classifier, leaves, stored

K1, B = 1.2, 0.75


def texts(dataset, ids):
    for name, opener in (("corpus.jsonl", open), ("corpus.jsonl.gz", gzip.open)):
        path = os.path.join(dataset, name)
        if os.path.exists(path):
            with opener(path, "rt", encoding="utf-8") as file:
                own = {row["_id"]: f"{row.get('title') or ''} {row['text']}" for row in map(json.loads, file)}
    return [own[name] for name in ids]


def counts(tokenizer, all_texts, width):
    rows, columns = [], []
    for start in range(0, len(all_texts), 4096):
        for at, encoded in enumerate(tokenizer.encode_batch(all_texts[start:start + 4096], add_special_tokens=False)):
            rows.append(np.full(len(encoded.ids), start + at, np.int32))
            columns.append(np.asarray(encoded.ids, np.int32))
    rows, columns = np.concatenate(rows), np.concatenate(columns)
    ones = np.ones(len(rows), np.float32)
    return sparse.coo_matrix((ones, (rows, columns)), (len(all_texts), width)).tocsr()


def without_punctuation(tf, tokenizer):
    """Punctuation of a question is none of its words; see src/model/tokenize/punctuation.rs."""
    signs = set("#%&@*\u00a7\u2030")
    names = [(tokenizer.id_to_token(at) or "a").removeprefix("##") for at in range(tf.shape[1])]
    kept = [not all(unicodedata.category(c)[0] == "P" and c not in signs for c in name) for name in names]
    return (tf @ sparse.diags(np.array(kept, np.float32))).tocsr()


def bm25(tf):
    """A weight for each document and term."""
    n = tf.shape[0]
    df = np.bincount(tf.indices, minlength=tf.shape[1])
    idf = np.log1p((n - df + 0.5) / (df + 0.5)).astype(np.float32)
    length = np.asarray(tf.sum(1)).ravel()
    norm = K1 * (1 - B + B * length / length.mean())
    weights = tf.copy()
    weights.data = tf.data / (tf.data + np.repeat(norm, np.diff(tf.indptr)).astype(np.float32))
    weights.data *= idf[tf.indices]
    return weights, df


def term_lists(weights, most):
    """Of each document its most telling terms, as documents by term."""
    rows, columns = [], []
    for row in range(weights.shape[0]):
        start, end = weights.indptr[row:row + 2]
        own = weights.data[start:end]
        keep = np.argsort(-own, kind="stable")[:most]
        rows.append(np.full(len(keep), row, np.int32))
        columns.append(weights.indices[start:end][keep])
    rows, columns = np.concatenate(rows), np.concatenate(columns)
    return sparse.coo_matrix((np.ones(len(rows), np.int8), (rows, columns)), weights.shape).tocsc()


def interpolated(curve, value, by, of):
    """On straight lines; the curve ascends in both."""
    return float(np.interp(value, curve[:, by], curve[:, of]))


def measure(place, sizes, order, best, added=None, joined=None):
    """`added`: documents for each question; `joined`: leaves for each question."""
    questions, leaf_count = order.shape
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.arange(leaf_count)[None].repeat(questions, 0), 1)
    beams = sorted({int(1.15 ** power) for power in range(0, 80)} | {leaf_count})
    beams = [0] + [beam for beam in beams if beam <= leaf_count]
    cumulated = np.concatenate([np.zeros((questions, 1)), np.cumsum(sizes[order], axis=1)], 1)
    visited = cumulated[:, beams].copy()
    needed = np.take_along_axis(rank, place[best], 1).astype(np.int64)
    for question in range(questions):
        if joined is not None:
            own = joined[question]
            for at, beam in enumerate(beams):
                visited[question, at] += sizes[own[rank[question, own] >= beam]].sum()
            needed[question, np.isin(place[best[question]], own)] = -1
        if added is not None:
            own = added[question]
            far = np.sort(rank[question, place[own]])
            visited[question] += len(far) - np.searchsorted(far, beams)
            needed[question, np.isin(best[question], own)] = -1
    # Documents on average, the 10 best, the 100 best.
    return np.array([(visited[:, at].mean() / sizes.sum(), (needed[:, :10] < beam).mean(), (needed < beam).mean())
                     for at, beam in enumerate(beams)])


def balanced(rows, centroids, penalty, rng, rounds=10):
    """Lists whose size counts against them, and the means of what they then hold."""
    lists, even = len(centroids), len(rows) / len(centroids)
    place = leaves(centroids.T, rows)
    for _ in range(rounds):
        sizes = np.bincount(place, minlength=lists).astype(np.float32)
        for own in np.array_split(rng.permutation(len(rows)), max(1, len(rows) // 1024)):
            np.subtract.at(sizes, place[own], 1)
            place[own] = (rows[own] @ centroids.T - penalty * (sizes / even)).argmax(1)
            np.add.at(sizes, place[own], 1)
        sums = np.zeros_like(centroids)
        np.add.at(sums, place, rows)
        norms = np.linalg.norm(sums, axis=1, keepdims=True)
        centroids = np.where(norms > 0, sums / np.maximum(norms, 1e-9), centroids)
    return place, centroids


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("index", "questions", "tokenizer", "dataset"):
        parser.add_argument(name)
    parser.add_argument("--split", default="test")
    parser.add_argument("--lists", type=int, nargs="*", default=[])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--penalties", type=float, nargs="*", default=[0.1, 0.2])
    parser.add_argument("--plain", action="store_true", help="partitions alone, without routes")
    parser.add_argument("--most", type=int, default=1000)
    arguments = parser.parse_args()
    rows, ids = stored(arguments.index)
    asked, names = stored(arguments.questions)
    for name, opener in ((f"qrels/{arguments.split}.tsv", open), (f"qrels/{arguments.split}.tsv.gz", gzip.open)):
        path = os.path.join(arguments.dataset, name)
        if os.path.exists(path):
            with opener(path, "rt") as file:
                wanted = {line.split("\t")[0] for line in list(file)[1:]}
    kept = [at for at, name in enumerate(names) if name in wanted][:arguments.most]
    asked, names = asked[kept], [names[at] for at in kept]
    for name, opener in (("queries.jsonl", open), ("queries.jsonl.gz", gzip.open)):
        path = os.path.join(arguments.dataset, name)
        if os.path.exists(path):
            with opener(path, "rt", encoding="utf-8") as file:
                own = {row["_id"]: row["text"] for row in map(json.loads, file)}
    questions = [own[name] for name in names]
    tokenizer = Tokenizer.from_file(arguments.tokenizer)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    width = tokenizer.get_vocab_size()
    weights, df = bm25(counts(tokenizer, texts(arguments.dataset, ids), width))
    query_terms = without_punctuation(counts(tokenizer, questions, width), tokenizer)
    print(f"{len(ids)} documents, {len(names)} questions", flush=True)
    best, by_words = [], []
    for at in range(0, len(asked), 100):
        scores = asked[at:at + 100] @ rows.T
        top = np.argpartition(-scores, 100, axis=1)[:, :100]
        best.append(np.take_along_axis(top, np.argsort(-np.take_along_axis(scores, top, 1), axis=1), 1))
        scores = (query_terms[at:at + 100] @ weights.T).toarray()
        top = np.argpartition(-scores, 200, axis=1)[:, :200]
        by_words.append(np.take_along_axis(top, np.argsort(-np.take_along_axis(scores, top, 1), axis=1), 1))
    best, by_words = np.concatenate(best), np.concatenate(by_words)

    def routes(most, cap, count):
        lists = term_lists(weights, most)
        lengths = np.diff(lists.indptr)
        found = []
        for question in range(len(names)):
            own = query_terms.indices[query_terms.indptr[question]:query_terms.indptr[question + 1]]
            own = [term for term in own if 0 < lengths[term] <= cap]
            own = sorted(own, key=lambda term: df[term])[:count]
            parts = [lists.indices[lists.indptr[term]:lists.indptr[term + 1]] for term in own]
            found.append(np.unique(np.concatenate(parts)) if parts else np.empty(0, np.int32))
        return found

    percent = len(ids) // 100
    added = {"": {}}
    if not arguments.plain:
        for cap in (percent // 4, percent):
            added[f"lists 15 {cap} 3"] = {"added": routes(15, cap, 3)}
        for count in (10, 20, 50, 100):
            added[f"best {count}"] = {"added": list(by_words[:, :count])}

    partitions = {}
    number = int.from_bytes(open(os.path.join(arguments.index, "CURRENT"), "rb").read()[12:16], "little")
    tree = classifier(os.path.join(arguments.index, "models", str(number), "model"))
    partitions["tree"] = (leaves(tree, rows), np.argsort(-(asked @ tree), axis=1))
    for lists in [tree.shape[1], *arguments.lists]:
        kmeans = faiss.Kmeans(rows.shape[1], lists, niter=15, spherical=True, seed=arguments.seed + 1, max_points_per_centroid=10**6)
        kmeans.train(rows)
        centroids = kmeans.centroids
        partitions[f"IVF {lists}"] = (leaves(centroids.T, rows), np.argsort(-(asked @ centroids.T), axis=1))
        for penalty in arguments.penalties:
            own, moved = balanced(rows, centroids, penalty, np.random.default_rng(arguments.seed))
            partitions[f"balanced {lists}, {penalty}"] = (own, np.argsort(-(asked @ moved.T), axis=1))
    print("| | visited for 0.90 | 0.95 | 0.99 | 10 best at 1% | 2% | 5% | 100 best at 1% | 2% | 5% |")
    for name, (place, order) in partitions.items():
        sizes = np.bincount(place, minlength=order.shape[1])
        print(f"{name}: coefficient of variation of the sizes {sizes.std() / sizes.mean():.2f}")
        own = dict(added)
        for count in () if arguments.plain else (5, 20):
            own[f"leaves {count}"] = {"joined": [np.unique(place[row[:count]]) for row in by_words]}
        for kind, routed in own.items():
            curve = measure(place, sizes, order, best, **routed)
            cells = [f"{100 * interpolated(curve, target, 1, 0):.2f}" for target in (0.90, 0.95, 0.99)]
            cells += [f"{100 * interpolated(curve, share, 0, of):.1f}" for of in (1, 2) for share in (0.01, 0.02, 0.05)]
            print(f"| {name} {kind} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
