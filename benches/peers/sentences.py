#!/usr/bin/env python3
"""A dataset of sentences from one of abstracts, so that vectors are many and real.

    python3 benches/peers/sentences.py PAPER-ABSTRACTS SENTENCES --count 200000

Both are folders in the BEIR layout. Documents are the first sentences, of 40 to 400 characters, in the order of the corpus;
queries are the abstracts' titles, and every sentence of its abstract answers one. A thousand titles, drawn with a fixed
seed, are the test split, the others the train split.
"""

import argparse
import json
import pathlib
import random
import re

from beir import lines

END = re.compile(r"(?<=[.!?])\s+(?=[A-Z(])")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("abstracts", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=200_000)
    parser.add_argument("--test", type=int, default=1_000)
    arguments = parser.parse_args()
    (arguments.out / "qrels").mkdir(parents=True, exist_ok=True)
    titles = {}
    for split in ("train", "dev", "test"):
        for line in list(lines(arguments.abstracts, f"qrels/{split}.tsv"))[1:]:
            query, document, _ = line.split("\t")
            titles[document] = query
    texts = {row["_id"]: row["text"] for row in map(json.loads, lines(arguments.abstracts, "queries.jsonl"))}
    answers, written = {}, 0
    with open(arguments.out / "corpus.jsonl", "w", encoding="utf-8") as corpus:
        for abstract in map(json.loads, lines(arguments.abstracts, "corpus.jsonl")):
            if written == arguments.count:
                break
            own = [s for s in END.split(" ".join(abstract["text"].split())) if 40 <= len(s) <= 400]
            for number, sentence in enumerate(own[: arguments.count - written]):
                name = f"{abstract['_id']}-{number}"
                corpus.write(json.dumps({"_id": name, "title": "", "text": sentence}) + "\n")
                answers.setdefault(titles[abstract["_id"]], []).append(name)
                written += 1
    with open(arguments.out / "queries.jsonl", "w", encoding="utf-8") as queries:
        for query in answers:
            queries.write(json.dumps({"_id": query, "text": texts[query]}) + "\n")
    held_out = set(random.Random(0).sample(sorted(answers), arguments.test))
    for split in ("train", "test"):
        with open(arguments.out / f"qrels/{split}.tsv", "w", encoding="utf-8") as qrels:
            qrels.write("query-id\tcorpus-id\tscore\n")
            for query, names in answers.items():
                if (query in held_out) == (split == "test"):
                    qrels.writelines(f"{query}\t{name}\t1\n" for name in names)
    print(f"{written} sentences, {len(answers)} titles, {len(held_out)} of them for the test")


if __name__ == "__main__":
    main()
