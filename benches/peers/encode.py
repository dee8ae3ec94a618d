#!/usr/bin/env python3
"""Text in, embedding out: ehi's encoder beside the same model in ONNX Runtime and PyTorch, by turns in one run.

    python3 -m venv target/peers
    target/peers/bin/pip install torch transformers onnx onnxscript onnxruntime
    target/peers/bin/python benches/peers/encode.py --model target/base-model

Every engine runs in a process of its own on the same processors, tokenises with the same library and gets the same
texts: SciFact's test queries one at a time and all at once, and its first abstracts all at once. "All at once" is
left to ehi; the peers get batches of similar length, in the batch size that is best for them. With `--tokens 16,128`
the texts are abstracts cut at so many tokens in place of these, one at a time. The ONNX model is exported
here from the same weights, the one of 8 bits by ONNX Runtime's own dynamic quantisation, scales per channel.
Medians of the rounds; the spread is the fastest and the slowest round.
"""

import argparse
import json
import pathlib
import statistics
import sys
import time

from beir import lines
from turns import ROOT, Turns, bench

DATA = ROOT / "examples/data/scifact"
BATCHES = {"query": (8, 32), "document": (1, 4, 16)}


def texts(documents, queries):
    corpus = []
    for line in lines(DATA, "corpus.jsonl"):
        row = json.loads(line)
        corpus.append(" ".join(f"{row['title']} {row['text']}".split()))
        if len(corpus) == documents:
            break
    judged = {line.split("\t")[0] for line in list(lines(DATA, "qrels/test.tsv"))[1:]}
    rows = map(json.loads, lines(DATA, "queries.jsonl"))
    asked = [" ".join(row["text"].split()) for row in rows if row["_id"] in judged][:queries]
    return {"document": corpus, "query": asked}


def of_tokens(model, count, texts):
    """Texts of about so many tokens, special ones included: the starts of longer ones."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    out = []
    for text in texts:
        offsets = tokenizer.encode(text, add_special_tokens=False).offsets
        if len(offsets) >= count - 2:
            out.append(text[: offsets[count - 3][1]])
    return out


class Torch:
    def __init__(self, model, threads):
        import torch
        from transformers import AutoModel

        torch.set_num_threads(threads)
        self.torch, self.model = torch, AutoModel.from_pretrained(model).eval()

    def run(self, ids, mask):
        with self.torch.inference_mode():
            hidden = self.model(self.torch.from_numpy(ids), self.torch.from_numpy(mask)).last_hidden_state
        return hidden.numpy()


class Onnx:
    def __init__(self, path, threads):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        self.session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

    def run(self, ids, mask):
        return self.session.run(None, {"ids": ids, "mask": mask})[0]


def to_onnx(model, path, inputs, output):
    """The last hidden state of a model, of token ids, mask and, where there is a third input, token types."""
    import torch
    from transformers import AutoModel

    class Hidden(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = AutoModel.from_pretrained(model, attn_implementation="eager").eval()

        def forward(self, *given):
            return self.inner(*given).last_hidden_state

    path.parent.mkdir(parents=True, exist_ok=True)
    given = tuple(torch.ones(2, 8, dtype=torch.long) for _ in inputs)
    axes = {name: {0: "texts", 1: "tokens"} for name in (*inputs, output)}
    torch.onnx.export(
        Hidden(), given, str(path), input_names=inputs, output_names=[output], dynamic_axes=axes, opset_version=17, dynamo=False,
    )


def export(model, folder):
    """The model as ONNX, in f32 and in 8 bits."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    to_onnx(model, folder / "f32.onnx", ["ids", "mask"], "hidden")
    quantize_dynamic(folder / "f32.onnx", folder / "int8.onnx", per_channel=True, weight_type=QuantType.QInt8)


def embed(engine, tokenizer, texts, batch):
    import numpy as np

    tokens = [row.ids for row in tokenizer.encode_batch(texts)]
    order = sorted(range(len(tokens)), key=lambda i: -len(tokens[i]))
    out = [None] * len(tokens)
    for start in range(0, len(order), batch):
        group = order[start : start + batch]
        width = len(tokens[group[0]])
        ids, mask = np.zeros((len(group), width), np.int64), np.zeros((len(group), width), np.int64)
        for row, i in enumerate(group):
            ids[row, : len(tokens[i])], mask[row, : len(tokens[i])] = tokens[i], 1
        hidden = engine.run(ids, mask)
        pooled = (hidden * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)
        pooled /= np.linalg.norm(pooled, axis=1, keepdims=True)
        for row, i in enumerate(group):
            out[i] = pooled[row]
    return out


def serve(arguments):
    """A peer's side: as benches/encode.rs."""
    from tokenizers import Tokenizer

    engine, texts, role, way, batch = arguments.serve.split(",")
    tokenizer = Tokenizer.from_file(str(arguments.model / "tokenizer.json"))
    limit = json.load(open(arguments.model / "sentence_bert_config.json"))["max_seq_length"]
    tokenizer.no_padding()
    tokenizer.enable_truncation(limit)
    if engine == "torch":
        engine = Torch(arguments.model, arguments.threads)
    else:
        engine = Onnx(arguments.work / f"{engine}.onnx", arguments.threads)
    texts = open(texts).read().splitlines()
    calls = [[text] for text in texts] if way == "single" else [texts]
    for line in sys.stdin:
        seconds = []
        for call in calls:
            started = time.perf_counter()
            embed(engine, tokenizer, call, int(batch))
            seconds.append(time.perf_counter() - started)
        print(json.dumps(seconds), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=pathlib.Path, default=ROOT / "target/base-model")
    parser.add_argument("--documents", type=int, default=64)
    parser.add_argument("--queries", type=int, default=64)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--tokens", help="lengths in place of queries and abstracts, as in 16,128")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--engines", default="ehi,ehi8,f32,int8,torch")
    parser.add_argument("--ehi", help="the encode bench; built if absent")
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "target/encode")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        return serve(arguments)
    if {"f32", "int8"} & set(arguments.engines.split(",")) and not (arguments.work / "int8.onnx").exists():
        export(arguments.model, arguments.work)
    arguments.work.mkdir(parents=True, exist_ok=True)
    binary = arguments.ehi or bench("encode")
    parallel = {"TOKENIZERS_PARALLELISM": "false" if arguments.threads == 1 else "true"}
    names = {"f32": "ONNX Runtime f32", "int8": "ONNX Runtime int8", "torch": "PyTorch f32", "ehi": "ehi f32", "ehi8": "ehi int8"}
    print("| Texts | Engine | Median ms a text | Fastest and slowest round | Of ONNX Runtime f32 |\n|---|---|---|---|---|")
    chosen = texts(arguments.documents, arguments.queries)
    parts = [("query", "single", "Queries one at a time"), ("query", "batch", "Queries at once"), ("document", "batch", "Abstracts at once")]
    if arguments.tokens:
        counts = [int(count) for count in arguments.tokens.split(",")]
        made = {f"document-{count}": of_tokens(arguments.model, count, texts(4 * arguments.documents, 1)["document"]) for count in counts}
        chosen = {name: own[: arguments.documents] for name, own in made.items()}
        parts = [(f"document-{count}", "single", f"{count} tokens") for count in counts]
    for role, way, title in parts:
        path = arguments.work / f"{role}.txt"
        path.write_text("\n".join(chosen[role]) + "\n")
        turns = {}
        for engine in arguments.engines.split(","):
            if engine.startswith("ehi"):
                command = [binary, arguments.model, path, role.partition("-")[0], way] + (["int8"] if engine == "ehi8" else [])
                turns[engine, 0] = Turns(command, arguments.threads, **parallel)
                continue
            for batch in BATCHES[role.partition("-")[0]] if way == "batch" else (1,):
                given = ["--serve", f"{engine},{path},{role},{way},{batch}", "--model", arguments.model, "--threads", arguments.threads, "--work", arguments.work]
                turns[engine, batch] = Turns([sys.executable, __file__, *given], arguments.threads, **parallel)
        taken = {key: [] for key in turns}
        for _ in range(arguments.rounds + 1):
            for key, turn in turns.items():
                taken[key].append(turn.ask())
        best = {}
        for (engine, batch), turn in turns.items():
            turn.end()
            # The first one warms up.
            own = taken[engine, batch][1:]
            rounds = [1000 * (statistics.median(seconds) if way == "single" else sum(seconds) / len(chosen[role])) for seconds in own]
            if engine not in best or statistics.median(rounds) < statistics.median(best[engine][1]):
                best[engine] = (batch, rounds)
        base = statistics.median(best["f32"][1]) if "f32" in best else float("nan")
        for engine, (batch, rounds) in best.items():
            name = names[engine] + (f", batches of {batch}" if way == "batch" and batch else "")
            middle = statistics.median(rounds)
            print(f"| {title} | {name} | {middle:.2f} | {min(rounds):.2f} to {max(rounds):.2f} | {middle / base:.2f} |", flush=True)


if __name__ == "__main__":
    main()
