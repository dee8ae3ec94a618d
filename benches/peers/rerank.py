#!/usr/bin/env python3
"""A question and documents in, scores out: ehi's reranker beside the same model in ONNX Runtime and PyTorch, by turns.

    target/peers/bin/python benches/peers/random_encoder.py minilm-l12-reranker target/minilm-l12-reranker
    target/peers/bin/python benches/peers/rerank.py --model target/minilm-l12-reranker --threads 1

The question is a test query of SciFact, the documents abstracts that make pairs of 180 to 220 tokens with it, so
padding costs the peers little. Each engine scores all of them in one call, the peers in the batch size that is best
for them. The ONNX model is exported from the same weights, the one of 8 bits by ONNX Runtime's dynamic quantisation,
scales per channel.. Medians of the rounds, with the fastest and the slowest.
"""

import argparse
import json
import pathlib
import statistics
import sys
import time

from encode import texts
from turns import ROOT, Turns, bench

BATCHES = (1, 4, 16)
TOKENS = range(180, 221)


class Torch:
    def __init__(self, model, threads):
        import torch
        from transformers import AutoModelForSequenceClassification

        torch.set_num_threads(threads)
        self.torch, self.model = torch, AutoModelForSequenceClassification.from_pretrained(model).eval()

    def run(self, *given):
        ids, mask, types = map(self.torch.from_numpy, given)
        with self.torch.inference_mode():
            return self.model(input_ids=ids, attention_mask=mask, token_type_ids=types).logits[:, 0].numpy()


class Onnx:
    def __init__(self, path, threads):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        self.session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

    def run(self, ids, mask, types):
        return self.session.run(None, {"ids": ids, "mask": mask, "types": types})[0][:, 0]


def export(model, folder):
    import torch
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from transformers import AutoModelForSequenceClassification

    class Logits(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = AutoModelForSequenceClassification.from_pretrained(model, attn_implementation="eager").eval()

        def forward(self, ids, mask, types):
            return self.inner(input_ids=ids, attention_mask=mask, token_type_ids=types).logits

    folder.mkdir(parents=True, exist_ok=True)
    names = ["ids", "mask", "types"]
    given = tuple(torch.ones(2, 8, dtype=torch.long) for _ in names)
    axes = {name: {0: "texts", 1: "tokens"} for name in names} | {"logits": {0: "texts"}}
    torch.onnx.export(
        Logits(), given, str(folder / "f32.onnx"), input_names=names, output_names=["logits"], dynamic_axes=axes,
        opset_version=17, dynamo=False,
    )
    quantize_dynamic(folder / "f32.onnx", folder / "int8.onnx", per_channel=True, weight_type=QuantType.QInt8)


def tokenizer_of(model):
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(512)
    return tokenizer


def score(engine, tokenizer, question, documents, batch):
    import numpy as np

    tokens = tokenizer.encode_batch([(question, document) for document in documents])
    order = sorted(range(len(tokens)), key=lambda i: -len(tokens[i].ids))
    out = [0.0] * len(tokens)
    for start in range(0, len(order), batch):
        group = order[start : start + batch]
        shape = (len(group), len(tokens[group[0]].ids))
        ids, mask, types = (np.zeros(shape, np.int64) for _ in range(3))
        for row, i in enumerate(group):
            length = len(tokens[i].ids)
            ids[row, :length], mask[row, :length], types[row, :length] = tokens[i].ids, 1, tokens[i].type_ids
        for i, value in zip(group, engine.run(ids, mask, types)):
            out[i] = float(value)
    return out


def engine_of(name, arguments):
    return Torch(arguments.model, arguments.threads) if name == "torch" else Onnx(arguments.work / f"{name}.onnx", arguments.threads)


def serve(arguments):
    """A peer's side: as benches/encode.rs."""
    name, path, batch = arguments.serve.split(",")
    engine, tokenizer = engine_of(name, arguments), tokenizer_of(arguments.model)
    question, *documents = open(path).read().splitlines()
    for _ in sys.stdin:
        started = time.perf_counter()
        score(engine, tokenizer, question, documents, int(batch))
        print(json.dumps([time.perf_counter() - started]), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=pathlib.Path, default=ROOT / "target/minilm-l12-reranker")
    parser.add_argument("--documents", type=int, default=16)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--engines", default="ehi,ehi8,f32,int8,torch")
    parser.add_argument("--ehi", help="the encode bench; built if absent")
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "target/rerank")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        return serve(arguments)
    engines = arguments.engines.split(",")
    if {"f32", "int8"} & set(engines) and not (arguments.work / "int8.onnx").exists():
        export(arguments.model, arguments.work)
    arguments.work.mkdir(parents=True, exist_ok=True)
    tokenizer = tokenizer_of(arguments.model)
    chosen = texts(2000, 1)
    question = chosen["query"][0]
    fits = [text for text in chosen["document"] if len(tokenizer.encode(question, text).ids) in TOKENS]
    documents = fits[: arguments.documents]
    path = arguments.work / "pairs.txt"
    path.write_text("\n".join([question, *documents]) + "\n")
    mean = statistics.mean(len(tokenizer.encode(question, text).ids) for text in documents)
    binary = arguments.ehi or bench("encode")
    turns = {}
    for name in engines:
        if name.startswith("ehi"):
            command = [binary, arguments.model, path, "pair", "batch"] + (["int8"] if name == "ehi8" else [])
            turns[name, 0] = Turns(command, arguments.threads, TOKENIZERS_PARALLELISM="false")
            continue
        for batch in BATCHES:
            given = ["--serve", f"{name},{path},{batch}", "--model", arguments.model, "--threads", arguments.threads]
            command = [sys.executable, __file__, *given, "--work", arguments.work]
            turns[name, batch] = Turns(command, arguments.threads, TOKENIZERS_PARALLELISM="false")
    taken = {key: [] for key in turns}
    for _ in range(arguments.rounds + 1):
        for key, turn in turns.items():
            taken[key].append(1000 * sum(turn.ask()) / len(documents))
    best = {}
    for (name, batch), turn in turns.items():
        turn.end()
        # The first one warms up.
        rounds = taken[name, batch][1:]
        if name not in best or statistics.median(rounds) < statistics.median(best[name][1]):
            best[name] = (batch, rounds)
    names = {"f32": "ONNX Runtime f32", "int8": "ONNX Runtime int8", "torch": "PyTorch f32", "ehi": "ehi f32", "ehi8": "ehi int8"}
    base = statistics.median(best["f32"][1]) if "f32" in best else float("nan")
    print(f"{len(documents)} pairs of {mean:.0f} tokens on the mean, {arguments.threads} thread(s)\n")
    print("| Engine | Median ms a pair | Fastest and slowest round | Of ONNX Runtime f32 |\n|---|---|---|---|")
    for name, (batch, rounds) in best.items():
        title = names[name] + (f", batches of {batch}" if batch > 1 else ", one at a time" if batch else "")
        middle = statistics.median(rounds)
        print(f"| {title} | {middle:.2f} | {min(rounds):.2f} to {max(rounds):.2f} | {middle / base:.2f} |")


if __name__ == "__main__":
    main()
