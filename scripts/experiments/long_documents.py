"""Long documents made of paper abstracts: ten abstracts that have nothing in common, one behind another.

python3 scripts/experiments/long_documents.py PAPER_ABSTRACTS OUT [DOCUMENTS] [QUESTIONS]

Writes a BEIR folder whose questions are titles of papers, each answered by the document with its abstract.
"""

import gzip
import json
import os
import random
import sys

TOGETHER = 10


def lines(path):
    path = path if os.path.exists(path) else path + ".gz"
    opened = gzip.open if path.endswith(".gz") else open
    with opened(path, "rt", encoding="utf-8", newline="\n") as file:
        yield from file


def main(source, out, documents, questions):
    rng = random.Random(7)
    corpus = [json.loads(line) for line in lines(f"{source}/corpus.jsonl")]
    rng.shuffle(corpus)
    corpus = corpus[: documents * TOGETHER]
    document = {paper["_id"]: f"d{place // TOGETHER}" for place, paper in enumerate(corpus)}
    texts = {query["_id"]: query["text"] for query in map(json.loads, lines(f"{source}/queries.jsonl"))}
    judged = []
    for split in ("train", "dev", "test"):
        rows = list(lines(f"{source}/qrels/{split}.tsv"))[1:]
        judged += [row.rstrip("\n").split("\t")[:2] for row in rows]
    judged = [(query, document[paper]) for query, paper in judged if paper in document]
    rng.shuffle(judged)
    judged = judged[:questions]

    os.makedirs(f"{out}/qrels", exist_ok=True)
    with open(f"{out}/corpus.jsonl", "w", encoding="utf-8") as file:
        for start in range(0, len(corpus), TOGETHER):
            text = "\n\n".join(paper["text"] for paper in corpus[start : start + TOGETHER])
            file.write(json.dumps({"_id": f"d{start // TOGETHER}", "title": "", "text": text}) + "\n")
    with open(f"{out}/queries.jsonl", "w", encoding="utf-8") as file:
        for query, _ in judged:
            file.write(json.dumps({"_id": query, "text": texts[query]}) + "\n")
    with open(f"{out}/qrels/test.tsv", "w", encoding="utf-8") as file:
        file.write("query-id\tcorpus-id\tscore\n")
        file.writelines(f"{query}\t{answer}\t1\n" for query, answer in judged)


if __name__ == "__main__":
    numbers = [int(number) for number in sys.argv[3:5]]
    main(sys.argv[1], sys.argv[2], *(numbers + [100, 500][len(numbers) :]))
