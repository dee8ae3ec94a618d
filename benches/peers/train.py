#!/usr/bin/env python3
"""Time of a training step by PyTorch, for comparison with `ehi train --device cuda`.

    python3 benches/peers/train.py --base target/base-model --data ../shared/data/nq-mini --batch 256 --precision bf16

The step is that of `ehi train` with every layer and the embedding tables trainable: questions cut at 64 tokens and
documents at 160, padded to the longest of the batch, unit embeddings, a contrastive loss over the batch, hinges over the
path probabilities of a tree of 64 leaves behind a projection to 64 dimensions, a balance term, and one AdamW step of all.
Prints one JSON line: milliseconds of a step (median and quartiles), pairs a second, peak bytes on the device, first and
last loss.
"""

import argparse
import gzip
import json
import random
import statistics
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from transformers import AutoModel, AutoTokenizer


def lines(folder, name):
    path = next(p for p in (folder / name, folder / (name + ".gz")) if p.exists())
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8", newline="\n") as file:
        return [line.rstrip("\n") for line in file]


def pairs(folder):
    documents = {d["_id"]: f"{d.get('title', '')} {d['text']}".strip() for d in map(json.loads, lines(folder, "corpus.jsonl"))}
    queries = {q["_id"]: q["text"] for q in map(json.loads, lines(folder, "queries.jsonl"))}
    rows = [row.split("\t") for row in lines(folder, "qrels/train.tsv")[1:]]
    return [(queries[q], documents[d]) for q, d, score in rows if float(score) > 0]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--base", required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--precision", choices=("f32", "tf32", "bf16"), default="f32")
    parser.add_argument("--attention", choices=("sdpa", "eager"), default="sdpa")
    parser.add_argument("--device", default="cuda")
    args = parser.parse_args()

    torch.manual_seed(0)
    random.seed(0)
    torch.backends.cuda.matmul.allow_tf32 = args.precision == "tf32"
    tokenizer = AutoTokenizer.from_pretrained(args.base)
    encoder = AutoModel.from_pretrained(args.base, attn_implementation=args.attention, dtype=torch.float32)
    encoder.to(args.device).train()
    for module in encoder.modules():  # as in ehi, no dropout
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    if hasattr(encoder.config, "attention_probs_dropout_prob"):
        encoder.config.attention_probs_dropout_prob = 0.0
    width, leaves = encoder.config.hidden_size, 64
    project = torch.nn.Linear(width, 64, bias=False, device=args.device)
    classify = torch.nn.Linear(64, leaves, device=args.device)
    tree = [*project.parameters(), *classify.parameters()]
    optimizer = torch.optim.AdamW(
        [{"params": list(encoder.parameters()), "lr": 1e-4}, {"params": tree, "lr": 1e-3, "weight_decay": 0.0}],
        weight_decay=0.01,
        fused=args.device == "cuda",
    )

    data = pairs(args.data)
    encode = lambda texts, limit: tokenizer(texts, truncation=True, max_length=limit)["input_ids"]
    questions = encode([q for q, _ in data], 64)
    documents = encode([d for _, d in data], 160)

    def embed(rows):
        longest = max(map(len, rows))
        ids = torch.tensor([row + [0] * (longest - len(row)) for row in rows]).to(args.device)
        mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows]).to(args.device)
        with torch.autocast(args.device, torch.bfloat16, enabled=args.precision == "bf16"):
            hidden = encoder(input_ids=ids, attention_mask=mask).last_hidden_state
        weights = mask.unsqueeze(-1).float()
        return F.normalize((hidden.float() * weights).sum(1) / weights.sum(1), dim=1)

    def paths(embeddings):
        return F.softmax(20 * classify(project(embeddings)), dim=1)

    times, losses, tokens = [], [], 0
    order = list(range(len(data)))
    for step in range(args.steps):
        batch = random.sample(order, min(args.batch, len(order)))
        started = time.perf_counter()
        q, d = embed([questions[i] for i in batch]), embed([documents[i] for i in batch])
        pq, pd = paths(q), paths(d)
        similar = q @ d.T
        siamese = F.cross_entropy(similar / 0.05, torch.arange(len(batch), device=args.device))
        others = pq @ pd.T
        own = (pq * pd).sum(1, keepdim=True)
        indexing = F.relu(others - own + 0.3).mean()
        mean = torch.cat([pq, pd]).mean(0)
        balance = (mean * (mean * leaves + 1e-38).log()).sum()
        loss = siamese + indexing + balance
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        times.append(1000 * (time.perf_counter() - started))
        tokens += sum(len(questions[i]) + len(documents[i]) for i in batch)
    steady = times[len(times) // 4 :]
    low, middle, high = statistics.quantiles(steady, n=4)
    print(
        json.dumps(
            {
                "torch": torch.__version__,
                "device": torch.cuda.get_device_name() if args.device == "cuda" else "cpu",
                "precision": args.precision,
                "attention": args.attention,
                "batch": args.batch,
                "ms_per_step": round(middle, 2),
                "quartiles": [round(low, 2), round(high, 2)],
                "pairs_per_second": round(1000 * args.batch / middle, 1),
                "peak_bytes": torch.cuda.max_memory_allocated() if args.device == "cuda" else None,
                "loss": [round(losses[0], 4), round(losses[-1], 4)],
            }
        )
    )


if __name__ == "__main__":
    main()
