#!/usr/bin/env python3
"""Static encoders: ehi beside model2vec itself, and beside a transformer in ehi, by turns in one run, on one thread.

    python3 -m venv target/peers
    target/peers/bin/pip install model2vec
    target/peers/bin/python benches/peers/static.py --base target/base-model

The table has the size of potion-base-8M's, random vectors of 256 numbers for the tokens of the base model's tokenizer:
speed does not depend on what they are. Texts are SciFact's abstracts, all in one call, tokenising included; the
transformer gets a few of them. Medians of the rounds; the spread is the fastest and the slowest round.
"""

import argparse
import json
import pathlib
import statistics
import sys
import time

from beir import lines
from turns import ROOT, Turns, bench

WIDTH = 256


def write_table(base, folder):
    import numpy as np
    from model2vec import StaticModel
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(base / "tokenizer.json"))
    tokenizer.no_truncation()
    rows = np.random.default_rng(1).standard_normal((tokenizer.get_vocab_size(), WIDTH)).astype(np.float32)
    config = {"model_type": "model2vec", "normalize": True, "hidden_dim": WIDTH}
    StaticModel(rows, tokenizer, config, normalize=True).save_pretrained(folder)


def serve(model, path):
    from model2vec import StaticModel

    model, texts = StaticModel.from_pretrained(model), open(path).read().splitlines()
    for _ in sys.stdin:
        started = time.perf_counter()
        model.encode(texts, use_multiprocessing=False)
        print(json.dumps([time.perf_counter() - started]), flush=True)


def main():
    if sys.argv[1:2] == ["--serve"]:
        return serve(*sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--base", type=pathlib.Path, default=ROOT / "target/base-model")
    parser.add_argument("--documents", type=int, default=2000)
    parser.add_argument("--few", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ehi", help="the encode bench; built if absent")
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "target/static")
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    table = arguments.work / "table"
    if not table.exists():
        write_table(arguments.base, table)
    texts = []
    for line in lines(ROOT / "examples/data/scifact", "corpus.jsonl"):
        row = json.loads(line)
        texts.append(" ".join(f"{row['title']} {row['text']}".split()))
        if len(texts) == arguments.documents:
            break
    paths = {}
    for name, own in {"all": texts, "few": texts[: arguments.few]}.items():
        paths[name] = arguments.work / f"{name}.txt"
        paths[name].write_text("\n".join(own) + "\n")
    binary = arguments.ehi or bench("encode")
    commands = {
        "model2vec": ([sys.executable, __file__, "--serve", table, paths["all"]], len(texts)),
        "ehi, the same table": ([binary, table, paths["all"], "document", "batch"], len(texts)),
        "ehi, the base model": ([binary, arguments.base, paths["few"], "document", "batch"], arguments.few),
        "ehi, the base model in int8": ([binary, arguments.base, paths["few"], "document", "batch", "int8"], arguments.few),
    }
    turns = {name: (Turns(command, 1, TOKENIZERS_PARALLELISM="false"), count) for name, (command, count) in commands.items()}
    taken = {name: [] for name in turns}
    for _ in range(arguments.rounds + 1):
        for name, (turn, count) in turns.items():
            taken[name].append(count / sum(turn.ask()))
    print("| Encoder | Median abstracts a second | Slowest and fastest round |\n|---|---|---|")
    for name, (turn, _) in turns.items():
        turn.end()
        # The first one warms up.
        own = taken[name][1:]
        print(f"| {name} | {statistics.median(own):.0f} | {min(own):.0f} to {max(own):.0f} |")


if __name__ == "__main__":
    main()
