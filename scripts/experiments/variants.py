#!/usr/bin/env python3
"""Trains variants of a configuration and tabulates their verdicts on held-out queries.

    python3 scripts/experiments/variants.py --set leaves --base ENCODER --data examples/data/scifact --out target/variants
    python3 scripts/experiments/variants.py --set losses --base target/base-model --data examples/data/scifact --out target/variants

Sets of trees train the tree alone on the encoder of ENCODER, a bundle whose encoder was trained with
`dev_fraction` 0.3; the others train both from the base model, five epochs (`preset`: ten). All hold out 30% of the training queries:
the test split is not read. A variant whose report is in OUT already is not trained again, and `--seeds` repeats each.

Work is the documents scored plus the routing, in document dot products over the number of documents. A figure at
a share visited, or at a share of work, is read on a straight line between the beams measured, from (0, 0).
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess

TREE = {"dev_fraction": 0.3, "schedule.epochs": 0, "encoder.trainable_layers": 0}
JOINT = {"dev_fraction": 0.3, "schedule.epochs": 5}


def tree(changes=()):
    return TREE | dict(changes)


def joint(changes=()):
    return JOINT | dict(changes)


def preset(changes=()):
    """The paper's settings for SciFact (`--preset scifact`), fewer epochs."""
    values = {
        "tree.branching_factor": 40, "tree.coarse_leaves": None, "tree.transform": True, "tree.routing_dim": 0,
        "tree.logit_scale": 1.0, "tree.learning_rate": 0.016, "encoder.learning_rate": 4e-4, "schedule.epochs": 10,
        "schedule.batch_size": 64, "schedule.indexer_epochs": 0, "losses.siamese": "triplet",
        "mining.negatives": "index", "dev_fraction": 0.3,
    }
    return values | weights(siamese=0.2, indexing=0.8, intra_leaf=0.2, distillation=0.0) | dict(changes)


def weights(**values):
    return {f"losses.weights.{term}": value for term, value in values.items()}


def shape(branching, height):
    # One level reads the projection alone; several need to see the path so far.
    return tree({"tree.branching_factor": branching, "tree.height": height, "tree.transform": height > 1})


ONE_TREE = joint({"schedule.indexer_epochs": 0, "tree.coarse_leaves": None, "tree.branching_factor": 64})
RANDOM = {"tree.init": "random"}
PAPER_TERMS = ONE_TREE | RANDOM | weights(balance=0.0, distillation=0.0)
PAPER_TERMS |= {"tree.logit_scale": 1.0, "tree.init_scale": 1.0}
SLOWER = {"tree.logit_scale": 20.0, "encoder.learning_rate": 1e-4, "tree.learning_rate": 1e-3}
IN_BATCH = {"mining.negatives": "in_batch"}

# Defaults are spelled out if a set varies them, so that a table shows what it compares.
SETS = {
    "leaves": {
        f"{leaves} leaves, projection {width}": tree({"tree.branching_factor": leaves, "tree.routing_dim": width})
        for leaves, width in [
            (40, 16), (130, 8), (130, 16), (260, 8), (260, 16), (260, 32), (518, 16), (518, 32), (518, 64), (1036, 64),
        ]
    },
    "heights": {
        f"B = {b}, H = {h}": shape(b, h)
        for b, h in [(40, 1), (4, 2), (6, 2), (8, 2), (4, 3), (6, 3), (8, 3), (64, 1), (216, 1), (512, 1), (23, 2)]
    },
    "distillation": {
        "as by default": tree(),
        "10 nearest, temperature 0": tree({"distillation.depth": 10, "distillation.temperature": 0.0}),
        "30 nearest": tree({"distillation.depth": 30}),
        "300 nearest": tree({"distillation.depth": 300}),
        "temperature 0.02": tree({"distillation.temperature": 0.02}),
        "temperature 0.1": tree({"distillation.temperature": 0.1}),
        "temperature 0.2": tree({"distillation.temperature": 0.2}),
        "positives' share 0": tree({"distillation.positive_share": 0.0}),
        "positives' share 1": tree({"distillation.positive_share": 1.0}),
        "no sentences": tree({"distillation.sentences": 0}),
        "3 sentences": tree({"distillation.sentences": 3}),
        "weight 1": tree(weights(distillation=1.0)),
        "balance 0": tree(weights(balance=0.0)),
        "balance 1": tree(weights(balance=1.0)),
        "with U (64 x 64)": tree({"tree.transform": True}),
        "random start": tree(RANDOM),
        "5 passes": tree({"schedule.indexer_epochs": 5}),
        "20 passes": tree({"schedule.indexer_epochs": 20}),
        # A run has at least one pass; at this learning rate it leaves the start as it is.
        "the k-means start as it is": tree({"schedule.indexer_epochs": 1, "tree.learning_rate": 1e-9}),
    },
    "losses": {
        "all terms": joint(),
        "no siamese term": joint(weights(siamese=0.0)),
        "no indexing term": joint(weights(indexing=0.0)),
        "no intra-leaf term": joint(weights(intra_leaf=0.0)),
        "no balance term": joint(weights(balance=0.0)),
        "no distillation": joint(weights(distillation=0.0)),
        "siamese term alone": joint(weights(indexing=0.0, intra_leaf=0.0, balance=0.0, distillation=0.0)),
        "triplet siamese term": joint({"losses.siamese": "triplet"}),
        "intra-leaf term as in Eq. 5": joint({"losses.intra_leaf": "product"}),
    },
    # The tree as the joint phase leaves it, without the phase of the tree alone.
    "losses-one-tree": {
        "all terms": ONE_TREE,
        "no siamese term": ONE_TREE | weights(siamese=0.0),
        "no indexing term": ONE_TREE | weights(indexing=0.0),
        "no intra-leaf term": ONE_TREE | weights(intra_leaf=0.0),
        "no balance term": ONE_TREE | weights(balance=0.0),
        "no distillation": ONE_TREE | weights(distillation=0.0),
    },
    "negatives": {
        kind: joint({"mining.negatives": kind, "schedule.refresh_interval": 1})
        for kind in ("in_batch", "index_siamese", "index", "exact_siamese", "exact")
    },
    "batch": {f"batch of {size}": joint({"schedule.batch_size": size}) for size in (16, 32, 64, 128)},
    "scope": {
        "tree alone": joint({"schedule.epochs": 0, "encoder.trainable_layers": 0}),
        "last layer": joint(),
        "last 2 layers": joint({"encoder.trainable_layers": 2}),
        "all 6 layers": joint({"encoder.trainable_layers": 6}),
        "all 6 layers and the embeddings": joint({"encoder.trainable_layers": 6, "encoder.train_embeddings": True}),
    },
    "start": {
        "k-means": joint(),
        "random": joint(RANDOM),
        "random, the paper's terms alone": PAPER_TERMS,
        "random, the paper's terms alone, 30 passes": PAPER_TERMS | {"schedule.epochs": 30},
        "random, 64 leaves, one tree": ONE_TREE | RANDOM,
        "random, 64 leaves, one tree, 30 passes": ONE_TREE | RANDOM | {"schedule.epochs": 30},
        "k-means, 64 leaves, one tree": ONE_TREE,
    },
    # Settings that the paper leaves open in addition to its table.
    "preset": {
        "columns of length 1, scale 20": preset({"tree.logit_scale": 20.0}),
        "columns of length 20, scale 1": preset(),
        "columns of length 1, learning rates 1e-4 and 1e-3": preset(SLOWER),
        "the same, negatives of the batch": preset(SLOWER | IN_BATCH),
        "columns of length 20, negatives in the siamese term alone": preset({"mining.negatives": "index_siamese"}),
        "columns of length 20, negatives of the batch alone": preset(IN_BATCH),
        "columns of length 20, balance 1": preset(weights(balance=1.0)),
        "columns of length 20, balance 0.05": preset(weights(balance=0.05)),
        "columns of length 20, the last two layers": preset({"encoder.trainable_layers": 2}),
        "columns of length 20, start 10 times cosine": preset({"tree.init_scale": 10.0}),
    },
}
SHARES = (0.02, 0.05, 0.1, 0.2)


def at(points, key, share, metric):
    before = {key: 0.0, metric: 0.0}
    for point in points:
        if point[key] >= share:
            width = point[key] - before[key]
            part = (share - before[key]) / width if width > 0 else 1.0
            return before[metric] + part * (point[metric] - before[metric])
        before = point
    return before[metric]


def read(report):
    """The figures of one run, in percent except the load."""
    methods = {method["method"]: method for method in report["verdict"]["methods"]}
    points, exact = methods["trained_tree"]["measured"], methods["trained_exact"]["measured"][0]
    load = report["loads"][-1]
    row = {"routing": 100 * (points[0]["work_fraction"] - points[0]["visited_fraction"])}
    for key, name in (("visited_fraction", "visited"), ("work_fraction", "work")):
        for share in SHARES:
            row[f"{name} {share:g}"] = 100 * at(points, key, share, "recall@100")
    row["recall@10 at 0.1 visited"] = 100 * at(points, "visited_fraction", 0.1, "recall@10")
    row["exact recall@10"], row["exact recall@100"] = (100 * exact[name] for name in ("recall@10", "recall@100"))
    row["load"] = load["expected_documents_per_leaf"] / load["ideal_documents_per_leaf"]
    row["empty"] = load["empty_leaves"]
    row["seconds"] = report["seconds"]
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--set", choices=SETS, action="append", required=True)
    parser.add_argument("--base", type=pathlib.Path, required=True)
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--ehi", default="target/release/ehi")
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--set-value", action="append", default=[], help="NAME=JSON, over every variant")
    parser.add_argument("--only", help="variants whose name holds this")
    parser.add_argument("--read", action="store_true", help="tabulate what is there, train nothing")
    arguments = parser.parse_args()
    seeds = [int(seed) for seed in arguments.seeds.split(",")]
    common = {name: json.loads(value) for name, value in (each.split("=", 1) for each in arguments.set_value)}
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name in arguments.set:
        rows = []
        for variant, changes in SETS[name].items():
            if arguments.only and arguments.only not in variant:
                continue
            figures = []
            for seed in seeds:
                slug = "".join(c if c.isalnum() else "-" for c in f"{name} {variant} {seed}")
                bundle = arguments.out / slug
                if not (bundle / "training.json").exists():
                    if arguments.read:
                        continue
                    train(arguments, changes | common, seed, bundle)
                if (bundle / "training.json").exists():
                    figures.append(read(json.loads((bundle / "training.json").read_text())))
            if figures:
                rows.append((variant, figures))
        table(name, rows)


def train(arguments, config, seed, bundle):
    file = bundle.with_suffix(".json")
    file.write_text(json.dumps(config))
    command = [arguments.ehi, "train", "--base", arguments.base, "--data", arguments.data, "--out", bundle]
    command += ["--config", file, "--seed", str(seed), "--cache", arguments.out / "cache"]
    with open(bundle.with_suffix(".log"), "w") as log:
        code = subprocess.run(list(map(str, command)), stdout=log, stderr=log, env=os.environ).returncode
    if code != 0:
        # A variant may fail legitimately, with a collapsed loss or a tree that does not fit; its log has the
        # reason.
        print(f"{bundle.name}: failed, see its log", flush=True)


def table(name, rows):
    head = [f"{100 * share:g}%" for share in SHARES]
    print(f"\n{name}: recall@100 at a share visited | at a share of work\n", flush=True)
    titles = ["Variant", "Routing, %", *head, *(f"work {each}" for each in head), "R@10 at 10%", "exact R@10", "exact R@100"]
    titles += ["load / ideal", "empty", "seconds"]
    print("| " + " | ".join(titles) + " |\n|" + "---|" * len(titles))
    for variant, figures in rows:
        cells = []
        for key in figures[0]:
            values = [row[key] for row in figures]
            digits = {"load": 2, "empty": 0, "seconds": 0, "routing": 2}.get(key, 1)
            text = f"{statistics.mean(values):.{digits}f}"
            if len(values) > 1 and key not in ("routing", "seconds"):
                text += f" ± {statistics.stdev(values):.{digits}f}"
            cells.append(text)
        print(f"| {variant} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
