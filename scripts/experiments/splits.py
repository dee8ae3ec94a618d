#!/usr/bin/env python3
"""Leaves that are split and joined as a collection grows, against trees tuned anew. Needs numpy.

    scripts/experiments/splits.py WORK QUESTIONS START [SIZE ...]

WORK is the folder that `growth.py` left: its index with all documents, and its bundles. QUESTIONS is an
index of the same encoder that holds the questions as documents. The tree of START documents is grown
with them in their order, in steps of a quarter: leaves with less than a quarter of ten documents are
dropped, and those with more than FACTOR times ten are split in two by 2-means until there are none (the
columns of the halves are the parent's plus the difference of their means), after which every document is
routed anew. Prints what is visited for 0.95 of exact search's ten best, the 99th percentile over
questions, the largest leaf, and the skew (expected over even load), for the tree as it was, grown with two
factors, and tuned.
"""

import glob
import gzip
import json
import os
import struct
import sys

import numpy as np

DEPTH, TARGET, PER_LEAF, STEP = 10, 0.95, 10, 1.25


def sections(path):
    """The sections of a sealed file, by name; see docs/format.md."""
    with open(path, "rb") as file:
        content = file.read()
    count = struct.unpack("<I", content[-20:-16])[0]
    directory = content[-28 - 20 * count:-28]
    found = {}
    for at in range(count):
        name, offset, length = struct.unpack("<IQQ", directory[20 * at:20 * at + 20])
        found[name] = content[offset:offset + length]
    return found


def stored(index):
    """Unit rows and ids of the model that serves."""
    with open(os.path.join(index, "CURRENT"), "rb") as file:
        number = int.from_bytes(file.read()[12:16], "little")
    rows, ids = [], []
    for path in sorted(glob.glob(os.path.join(index, "models", str(number), "segments", "*.vectors"))):
        documents = sections(path.replace(".vectors", ".documents"))
        start = 0
        for end in np.frombuffer(documents[17], np.uint64):
            ids.append(documents[16][start:int(end)].decode())
            start = int(end)
        values = np.frombuffer(sections(path)[1], np.float16)
        rows.append(values.reshape(len(documents[17]) // 8, -1).astype(np.float32))
    rows = np.concatenate(rows)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True), ids


def tensors(bundle):
    """The tree's tensors by name, and the scale of its logits as `scale`."""
    with open(os.path.join(bundle, "indexer.safetensors"), "rb") as file:
        content = file.read()
    header = struct.unpack("<Q", content[:8])[0]
    found = {}
    for name, tensor in json.loads(content[8:8 + header]).items():
        if name != "__metadata__":
            start, end = (8 + header + offset for offset in tensor["data_offsets"])
            found[name] = np.frombuffer(content[start:end], np.float32).reshape(tensor["shape"]).copy()
    with open(os.path.join(bundle, "ehi.json"), encoding="utf-8") as file:
        found["scale"] = json.load(file).get("logit_scale", 1.0)
    return found


def classifier(bundle):
    """The columns of a tree of one level, `[dim, leaves]`, behind its projection if it has one."""
    own = tensors(bundle)
    columns = own["levels.0.classifier"]
    return own["projection"] @ columns if "projection" in own else columns


def leaves(tree, rows):
    return np.concatenate([(rows[at:at + 4096] @ tree).argmax(1) for at in range(0, len(rows), 4096)])


def halves(rows, rng):
    centres = rows[rng.choice(len(rows), 2, replace=False)].copy()
    for _ in range(10):
        side = (rows @ centres.T).argmax(1)
        for half in (0, 1):
            if (side == half).any():
                centres[half] = rows[side == half].mean(0)
                centres[half] /= np.linalg.norm(centres[half])
    return centres


def grown(tree, rows, factor, rng):
    tree = tree[:, np.bincount(leaves(tree, rows), minlength=tree.shape[1]) >= PER_LEAF / 4]
    for _ in range(6):
        place = leaves(tree, rows)
        large = np.where(np.bincount(place, minlength=tree.shape[1]) > factor * PER_LEAF)[0]
        if not len(large):
            break
        added = []
        for leaf in large:
            own = rows[place == leaf]
            mean = own.mean(0) / np.linalg.norm(own.mean(0))
            first, second = (tree[:, leaf] + centre - mean for centre in halves(own, rng))
            tree[:, leaf] = first
            added.append(second)
        tree = np.concatenate([tree, np.stack(added, 1)], 1)
    return tree


def measure(name, tree, rows, questions):
    place = leaves(tree, rows)
    sizes = np.bincount(place, minlength=tree.shape[1])
    best = np.concatenate([np.argpartition(-(questions[at:at + 100] @ rows.T), DEPTH, axis=1)[:, :DEPTH]
                           for at in range(0, len(questions), 100)])
    order = np.argsort(-(questions @ tree), axis=1)
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.arange(order.shape[1])[None].repeat(len(order), 0), 1)
    needed = np.take_along_axis(rank, place[best], 1)
    visited = np.cumsum(sizes[order], axis=1) / len(rows)
    before = (0.0, 0.0)
    for beam in sorted({int(1.1 ** power) for power in range(1, 100)} | {order.shape[1]}):
        found, share = (needed < beam).mean(), visited[:, min(beam, order.shape[1]) - 1]
        if found >= TARGET:
            mean = before[1] + (TARGET - before[0]) / (found - before[0]) * (share.mean() - before[1])
            break
        before = (found, share.mean())
    skew = (sizes ** 2).sum() / sizes.sum() / sizes.mean()
    print(f"| {len(rows)} | {name} | {tree.shape[1]} | {100 * mean:.2f}% | {100 * np.percentile(share, 99):.2f}% "
          f"| {sizes.max()} | {skew:.2f} |", flush=True)


def main():
    work, questions, start = sys.argv[1], stored(sys.argv[2])[0], int(sys.argv[3])
    sizes = [int(size) for size in sys.argv[4:]] or [30_000]
    rows, ids = stored(os.path.join(work, "index"))
    with open(os.path.join(work, "order.txt")) as file:
        place = {name: at for at, name in enumerate(ids)}
        rows = rows[[place[line.rstrip("\n")] for line in file]]
    bundle = lambda size: os.path.join(work, "bundles", str(size))
    first = classifier(bundle(start))
    print("| documents | tree | leaves | visited for 0.95 | 99th percentile | largest leaf | skew |")
    print("|---|---|---|---|---|---|---|")
    measure("tuned", first, rows[:start], questions)
    trees, count, rng = {4: first, 2: first}, start, np.random.default_rng(0)
    while count < max(sizes):
        count = min([size for size in sizes if size > count] + [int(count * STEP)])
        trees = {factor: grown(tree, rows[:count], factor, rng) for factor, tree in trees.items()}
        if count in sizes:
            measure(f"of {start}", first, rows[:count], questions)
            for factor, tree in trees.items():
                measure(f"split beyond {factor} times", tree, rows[:count], questions)
            if os.path.exists(bundle(count)):
                measure("tuned anew", classifier(bundle(count)), rows[:count], questions)


if __name__ == "__main__":
    main()
