#!/usr/bin/env python3
"""Seconds per training step in PyTorch on the CPU, to compare with those of `ehi train --log FILE`.

    python3 -m venv target/torch && target/torch/bin/pip install torch transformers
    target/torch/bin/python scripts/experiments/torch_step.py target/base-model examples/data/scifact

The same step as the default recipe's: 64 training pairs, queries cut at 64 tokens and documents at 160, the
output of the frozen layers at hand, forward and backward pass of the last layer, contrastive loss, AdamW. It leaves
out the terms of the tree, which are small. Texts are sorted by length and run in groups, as `ehi` does; the
group size is PyTorch's best of those given.
"""

import argparse
import gzip
import json
import pathlib
import random
import statistics
import time

import torch
import torch.nn.functional as F
from transformers import AutoTokenizer, BertModel


def lines(folder, name):
    plain = folder / name
    path = plain if plain.exists() else folder / f"{name}.gz"
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8", newline="\n") as file:
        return [json.loads(line) for line in file]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("base", type=pathlib.Path)
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--groups", default="8,16,32,64")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    random.seed(0)
    tokenizer = AutoTokenizer.from_pretrained(arguments.base)
    model = BertModel.from_pretrained(arguments.base, attn_implementation="sdpa").eval()
    layer, width = model.encoder.layer[-1], model.config.hidden_size
    documents = {d["_id"]: f"{d.get('title', '')} {d['text']}".strip() for d in lines(arguments.data, "corpus.jsonl")}
    queries = {q["_id"]: q["text"] for q in lines(arguments.data, "queries.jsonl")}
    qrels = (arguments.data / "qrels" / "train.tsv").read_text().split("\n")[1:]
    pairs = [line.split("\t")[:2] for line in qrels if line]
    length = lambda text, most: len(tokenizer(text, truncation=True, max_length=most)["input_ids"])
    lengths = [(length(queries[q], 64), length(documents[d], 160)) for q, d in pairs]

    def embed(own, group):
        order = sorted(range(len(own)), key=lambda i: own[i])
        out = [None] * len(own)
        for start in range(0, len(order), group):
            part = order[start : start + group]
            longest = max(own[i] for i in part)
            # The values do not affect the time.
            x = torch.randn(len(part), longest, width)
            mask = torch.tensor([[1.0] * own[i] + [0.0] * (longest - own[i]) for i in part])
            y = layer(x, (1 - mask)[:, None, None, :] * -1e9)
            y = y[0] if isinstance(y, tuple) else y
            rows = (y * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
            for i, row in zip(part, F.normalize(rows, dim=-1)):
                out[i] = row
        return torch.stack(out)

    for group in map(int, arguments.groups.split(",")):
        optimiser = torch.optim.AdamW(layer.parameters(), lr=1e-4, weight_decay=0.01)
        seconds = []
        for _ in range(arguments.steps):
            batch = random.sample(lengths, 64)
            start = time.perf_counter()
            q, d = embed([own[0] for own in batch], group), embed([own[1] for own in batch], group)
            loss = F.cross_entropy(q @ d.T / 0.05, torch.arange(64))
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            seconds.append(time.perf_counter() - start)
        print(json.dumps({"group": group, "median_seconds": round(statistics.median(seconds[2:]), 3), "steps": len(seconds)}), flush=True)


if __name__ == "__main__":
    main()
