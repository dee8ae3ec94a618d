"""A part of SciFact as files, as dictionaries, and as a task of MTEB."""

import csv
import gzip
import json
import pathlib


def read(folder, split="test"):
    """Corpus, queries and judgments of a folder in BEIR's layout."""
    folder = pathlib.Path(folder)
    opener = gzip.open if (folder / "corpus.jsonl.gz").exists() else open
    with opener(folder / ("corpus.jsonl.gz" if opener is gzip.open else "corpus.jsonl"), "rt") as file:
        corpus = {
            line["_id"]: {"title": line.get("title", ""), "text": line["text"]}
            for line in map(json.loads, file)
        }
    with open(folder / "queries.jsonl") as file:
        texts = {line["_id"]: line["text"] for line in map(json.loads, file)}
    qrels = {}
    with open(folder / "qrels" / f"{split}.tsv") as file:
        for query, document, grade in list(csv.reader(file, delimiter="\t"))[1:]:
            qrels.setdefault(query, {})[document] = int(grade)
    return corpus, {query: texts[query] for query in qrels}, qrels


def part(folder, queries, others):
    """The first `queries` questions with their documents, and `others` more."""
    corpus, texts, qrels = read(folder)
    chosen = dict(list(qrels.items())[:queries])
    needed = {document for judged in chosen.values() for document in judged}
    rest = [document for document in corpus if document not in needed][:others]
    # Beginnings will do: encoding is what takes time.
    short = {own: {**corpus[own], "text": corpus[own]["text"][:240]} for own in [*needed, *rest]}
    return short, {own: texts[own] for own in chosen}, chosen


def write(folder, corpus, queries, qrels):
    (folder / "qrels").mkdir(parents=True)
    with open(folder / "corpus.jsonl", "w") as file:
        file.writelines(json.dumps({"_id": own, **document}) + "\n" for own, document in corpus.items())
    with open(folder / "queries.jsonl", "w") as file:
        file.writelines(json.dumps({"_id": own, "text": text}) + "\n" for own, text in queries.items())
    with open(folder / "qrels" / "test.tsv", "w") as file:
        file.write("query-id\tcorpus-id\tscore\n")
        for query, judged in qrels.items():
            file.writelines(f"{query}\t{document}\t{grade}\n" for document, grade in judged.items())


def task(name, corpus, queries, qrels, top_ranked=None):
    """MTEB's own task of that name with this data, which is not fetched then."""
    import mteb
    from datasets import Dataset

    task = mteb.get_task(name)
    task.dataset = {
        "default": {
            "test": {
                "corpus": Dataset.from_list([{"id": own, **document} for own, document in corpus.items()]),
                "queries": Dataset.from_list([{"id": own, "text": text} for own, text in queries.items()]),
                "relevant_docs": qrels,
                "top_ranked": top_ranked,
            }
        }
    }
    task.data_loaded = True
    return task


def ndcg_at_10(result):
    """Of a result of `mteb.evaluate`."""
    (scores,) = result.task_results[0].scores["test"]
    return scores["ndcg_at_10"]
