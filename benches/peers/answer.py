#!/usr/bin/env python3
"""A question in text in, hits out: ehi beside fastembed + usearch and sentence-transformers + Faiss, by turns.

    python3 -m venv target/peers
    target/peers/bin/pip install torch transformers onnx onnxscript onnxruntime sentence-transformers fastembed usearch faiss-cpu numpy
    cargo run --release --example embed -- target/base-model DATA test EMBEDDED
    target/peers/bin/python benches/peers/answer.py --data DATA --embedded EMBEDDED --bundle BUNDLE --lists 500

BUNDLE has the base model's encoder, as training with a frozen encoder leaves it; ehi's index is made with it. The peers hold the vectors of EMBEDDED, encode with the same weights (fastembed with ONNX
Runtime, exported here; sentence-transformers with PyTorch), and return ids; ehi returns whole documents. Every one is given the first setting of
its own knob that reaches the recall@10 asked for, against exact search. One process each on the same processors, one question at a time; the medians and
99th percentiles of the rounds' latencies, and of those the median over rounds.
"""

import argparse
import json
import pathlib
import shutil
import statistics
import sys
import time

from beir import lines
from encode import to_onnx
from search import EF, STEPS
from turns import ROOT, Turns, bench
from vectors import load, nearest, recall_of

NAMES = {
    "ehi": "ehi, f32", "ehi8": "ehi, int8", "fastembed": "fastembed + usearch (f16)",
    "transformers": "sentence-transformers + Faiss IVF (f16)", "hnsw": "sentence-transformers + Faiss HNSW",
}


def questions(data, embedded):
    """Texts of the queries in the order of their embeddings."""
    texts = {row["_id"]: " ".join(row["text"].split()) for row in map(json.loads, lines(data, "queries.jsonl"))}
    return [texts[query["id"]] for query in json.loads((embedded / "dataset.json").read_text())["queries"]]


def document_ids(data):
    return [json.loads(line)["_id"] for line in lines(data, "corpus.jsonl")]


def export(model, folder):
    """The model as fastembed wants it."""
    to_onnx(model, folder / "model.onnx", ["input_ids", "attention_mask", "token_type_ids"], "last_hidden_state")
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"):
        shutil.copy(model / name, folder / name)


class Fastembed:
    def __init__(self, documents, arguments):
        import numpy as np
        from fastembed import TextEmbedding
        from fastembed.common.model_description import ModelSource, PoolingType
        from usearch.index import Index

        TextEmbedding.add_custom_model(
            model="local/minilm", pooling=PoolingType.MEAN, normalization=True, sources=ModelSource(hf="local/minilm"),
            dim=documents.shape[1], model_file="model.onnx",
        )
        self.model = TextEmbedding("local/minilm", specific_model_path=str(arguments.work / "onnx"), threads=arguments.threads)
        self.index = Index(ndim=documents.shape[1], metric="ip", dtype="f16", connectivity=16, expansion_add=200)
        self.index.add(np.arange(len(documents)), documents)
        self.steps = EF

    def search(self, question, k, step):
        self.index.expansion_search = step
        return self.index.search(next(iter(self.model.query_embed(question))), k, threads=1).keys


class Transformers:
    def __init__(self, documents, arguments):
        import faiss
        import numpy as np
        import torch
        from sentence_transformers import SentenceTransformer

        torch.set_num_threads(arguments.threads)
        self.model = SentenceTransformer(str(arguments.model), device="cpu")
        documents, dim = np.ascontiguousarray(documents), documents.shape[1]
        faiss.omp_set_num_threads(arguments.threads)
        if arguments.serve == "hnsw":
            self.index, self.steps = faiss.index_factory(dim, "HNSW16", faiss.METRIC_INNER_PRODUCT), EF
            self.index.hnsw.efConstruction = 200
            self.parameters = lambda step: faiss.SearchParametersHNSW(efSearch=step)
        else:
            self.index = faiss.index_factory(dim, f"IVF{arguments.lists},SQfp16", faiss.METRIC_INNER_PRODUCT)
            self.steps = [step for step in STEPS if step <= arguments.lists]
            self.parameters = lambda step: faiss.SearchParametersIVF(nprobe=step)
        self.index.train(documents)
        self.index.add(documents)

    def search(self, question, k, step):
        vector = self.model.encode([question], normalize_embeddings=True, show_progress_bar=False)
        return self.index.search(vector, k, params=self.parameters(step))[1][0]


PEERS = {"fastembed": Fastembed, "transformers": Transformers, "hnsw": Transformers}


def serve(arguments):
    """A peer's side, as benches/answer.rs."""
    documents, _ = load(arguments.embedded)
    engine = PEERS[arguments.serve](documents, arguments)
    print(json.dumps({"steps": engine.steps}), flush=True)
    texts = arguments.questions.read_text().splitlines()
    for line in sys.stdin:
        seconds, found = [], []
        for text in texts:
            started = time.perf_counter()
            found.append(engine.search(text, arguments.k, int(line)))
            seconds.append(time.perf_counter() - started)
        print(json.dumps({"seconds": seconds, "found": [list(map(int, row)) for row in found]}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--embedded", type=pathlib.Path, required=True)
    parser.add_argument("--bundle", type=pathlib.Path)
    parser.add_argument("--model", type=pathlib.Path, default=ROOT / "target/base-model")
    parser.add_argument("--lists", type=int, default=256, help="of Faiss")
    parser.add_argument("--recall", type=float, default=0.95)
    parser.add_argument("--asked", type=int, default=300, help="questions")
    parser.add_argument("-k", type=int, default=10)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--engines", default="ehi,ehi8,fastembed,transformers,hnsw")
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "target/peer-answer")
    parser.add_argument("--ehi", help="the answer bench; built if absent")
    parser.add_argument("--questions", type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        return serve(arguments)
    arguments.work.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(arguments.work / "ehi", ignore_errors=True)
    if not (arguments.work / "onnx/model.onnx").exists():
        export(arguments.model, arguments.work / "onnx")
    documents, queries = load(arguments.embedded)
    exact = nearest(documents, queries[: arguments.asked], arguments.k)
    path = arguments.work / "questions.txt"
    path.write_text("\n".join(questions(arguments.data, arguments.embedded)[: arguments.asked]) + "\n")
    row_of = {name: row for row, name in enumerate(document_ids(arguments.data))}
    parallel = {"TOKENIZERS_PARALLELISM": "false"}
    turns, chosen, taken, stages = {}, {}, {}, {}
    for name in arguments.engines.split(","):
        if name.startswith("ehi"):
            binary = arguments.ehi or bench("answer")
            own = [arguments.bundle, arguments.embedded, arguments.data]
            command = [binary, arguments.work / "ehi", path, arguments.k, "int8" if name == "ehi8" else "f32", *own]
        else:
            own = ["--serve", name, "--data", arguments.data, "--embedded", arguments.embedded, "--work", arguments.work, "--questions", path]
            own += ["--lists", arguments.lists, "--model", arguments.model, "--threads", arguments.threads, "-k", arguments.k]
            command = [sys.executable, __file__, *own]
        turns[name] = Turns(command, arguments.threads, **parallel)
        for step in turns[name].read().get("steps", STEPS):
            found = turns[name].ask(step)["found"]
            rows = [[row_of[hit] if isinstance(hit, str) else hit for hit in hits] for hits in found]
            recall = recall_of(rows, exact)
            chosen[name], taken[name] = (step, recall), []
            if recall >= arguments.recall:
                break
        print(name, chosen[name], flush=True, file=sys.stderr)
    for _ in range(arguments.rounds):
        for name, turn in turns.items():
            answer = turn.ask(chosen[name][0])
            taken[name].append(answer["seconds"])
            stages[name] = answer.get("stages_ms")
    print(f"{len(documents)} documents, {len(exact)} questions, {arguments.threads} thread(s), {arguments.rounds} rounds\n")
    print("| Engine | Setting | Recall@10 | Median, ms | 99th percentile, ms | Slowest and fastest round | Of the best peer |\n|---|---|---|---|---|---|---|")
    figures = {}
    for name, turn in turns.items():
        turn.end()
        medians = [1000 * statistics.median(seconds) for seconds in taken[name]]
        tails = [1000 * sorted(seconds)[int(0.99 * (len(seconds) - 1))] for seconds in taken[name]]
        figures[name] = (statistics.median(medians), statistics.median(tails), min(medians), max(medians))
    best = min((figures[name][0] for name in figures if not name.startswith("ehi")), default=float("nan"))
    for name, (median, tail, low, high) in figures.items():
        step, recall = chosen[name]
        print(f"| {NAMES[name]} | {step} | {recall:.3f} | {median:.2f} | {tail:.2f} | {low:.2f} to {high:.2f} | {median / best:.2f} |")
    print(json.dumps(stages))


if __name__ == "__main__":
    main()
