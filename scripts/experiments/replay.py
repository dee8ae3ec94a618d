#!/usr/bin/env python3
"""Learning from use: training questions as a stream of judgments, with a learning after each part.

    scripts/experiments/replay.py EHI BASE DATASET [--parts 10] [--seed 0] [--shuffled] [--every 1]
                                  [--settings FILE]

EHI is the program, BASE the plain encoder that the index begins with. The questions of `train` come in
an order that the seed gives, each with its judgments; after each part the index learns, and exact
search is measured on `test`. With `--shuffled` each question gets the judgments of another one.
`--every N` learns after every Nth part only. Prints a row for each learning: questions so far, the
decision, nDCG@10 and recall@10 on the questions set aside (before and after) and on `test`, minutes.
"""

import argparse
import gzip
import json
import os
import random
import subprocess
import tempfile
import time


def lines(folder, name):
    path = os.path.join(folder, name)
    opened = open(path) if os.path.exists(path) else gzip.open(path + ".gz", "rt")
    with opened as file:
        yield from file


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("ehi")
    parser.add_argument("base")
    parser.add_argument("data")
    parser.add_argument("--parts", type=int, default=10)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--shuffled", action="store_true")
    parser.add_argument("--settings")
    args = parser.parse_args()
    texts = {}
    for line in lines(args.data, "queries.jsonl"):
        query = json.loads(line)
        texts[query["_id"]] = query["text"]
    judged = {}
    for row in list(lines(args.data, "qrels/train.tsv"))[1:]:
        query, document, grade = row.split()
        judged.setdefault(query, []).append((document, int(grade)))
    order = sorted(judged)
    random.Random(args.seed).shuffle(order)
    source = list(order)
    if args.shuffled:
        random.Random(args.seed + 1).shuffle(source)
    with tempfile.TemporaryDirectory() as folder:
        index = os.path.join(folder, "index")
        run(args.ehi, "create", "--index", index, "--model", args.base)
        run(args.ehi, "insert", "--cache", "", "--index", index, args.data)
        print("| questions | decision | set aside: nDCG@10 | recall@10 | test: nDCG@10 | recall@10 | minutes |")
        print("|---|---|---|---|---|---|---|")
        print(f"| 0 | | | | {measured(args, index, folder)} | |", flush=True)
        for part in range(args.parts):
            start, end = (len(order) * at // args.parts for at in (part, part + 1))
            stream = os.path.join(folder, "judgments.jsonl")
            with open(stream, "w") as file:
                for query, answers in zip(order[start:end], source[start:end]):
                    for document, grade in judged[answers]:
                        file.write(json.dumps({"question": texts[query], "id": document, "grade": grade}) + "\n")
            run(args.ehi, "judge", "--index", index, "--file", stream)
            if (part + 1) % args.every:
                continue
            began = time.time()
            settings = ["--config", args.settings] if args.settings else []
            learned = json.loads(run(args.ehi, "learn", "--index", index, "--seed", str(args.seed), "--json", *settings))
            minutes = (time.time() - began) / 60
            aside = " | ".join(change(learned[name]) for name in ("ndcg_at_10", "recall_at_10"))
            print(f"| {end} | {learned['decision']} | {aside} | {measured(args, index, folder)} | {minutes:.1f} |", flush=True)


def change(difference):
    if difference is None:
        return "-"
    p = max(difference["bootstrap_p"], difference["t_test_p"])
    return f"{100 * difference['against']:.1f} to {100 * difference['value']:.1f} (p {p:.3f})"


def measured(args, index, folder):
    figures = os.path.join(folder, "figures.json")
    run(args.ehi, "eval", "--index", index, "--data", args.data, "--split", "test", "--beams", "1", "--json", figures)
    with open(figures) as file:
        exact = json.load(file)["exact"]
    return f"{100 * exact['ndcg@10']:.1f} | {100 * exact['recall@10']:.1f}"


def run(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


if __name__ == "__main__":
    main()
