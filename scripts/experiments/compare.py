#!/usr/bin/env python3
"""Learned trees, Faiss IVF-Flat and ScaNN over the same embeddings, at equal share visited and equal work.

    python3 -m venv target/peers && target/peers/bin/pip install numpy faiss-cpu scann safetensors
    target/peers/bin/python scripts/experiments/compare.py --embedded RUN1 RUN2 .. --tree TREE=BUNDLE1,BUNDLE2,.. \
        --lists 20,40,72,100,150,259,518 --json OUT.json

RUNn is a folder written by the example `embed` with one encoder (one training seed each); BUNDLEn is the bundle
whose tree goes with RUNn. Several `--tree` compare several trees over the same encoders.

Work is the documents scored plus the routing (Faiss and ScaNN: one dot product per list; a tree: its
multiply-adds over the width), over the documents. For each query the recall at a fraction is read on a straight
line between the probed lists or beams that bracket it on the mean, then averaged over training seeds and k-means
seeds; p-values are of a two-sided paired bootstrap (10,000 resamples) over queries of those averages.

An engine "at its best" has, at each fraction, the number of lists with the highest mean recall@100 there, chosen
on the queries that it is judged on, which flatters it. A tree is what it is.

ScaNN does not say how many documents it scored, so its visited share is that of the leaves searched: exact where
its leaves are even, an estimate where they are not.
"""

import argparse
import json
import math
import pathlib

import faiss
import numpy as np
from safetensors.numpy import load_file

DEPTH = 100


def load(folder):
    about = json.loads((folder / "dataset.json").read_text())
    rows = lambda name: np.fromfile(folder / name, dtype="<f4").reshape(-1, about["dim"])
    # The index keeps f16 rows.
    documents = rows("documents.f32").astype(np.float16).astype(np.float32)
    return documents, rows("queries.f32"), [set(query["relevant"]) for query in about["queries"]]


def recalls(found, relevant):
    """[queries, 2]: recall@10 and recall@100."""
    return np.array(
        [
            [len(own.intersection(row[:k].tolist())) / max(len(own), 1) for k in (10, DEPTH)]
            for row, own in zip(found, relevant)
        ]
    )


def probes(lists):
    steps = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024]
    return [step for step in steps if step < lists] + [lists]


def exact(documents, queries):
    index = faiss.IndexFlatIP(documents.shape[1])
    index.add(documents)
    return index.search(queries, DEPTH)[1]


def tree_scores(bundle):
    """What scores the leaves of a tree of one level, P, an optional U, W, and its multiply-adds."""
    tensors = load_file(bundle / "indexer.safetensors")
    if any(name.startswith("levels.1") for name in tensors):
        raise SystemExit(f"{bundle}: only trees of one level are read here; `ehi eval` reads all")
    projection = tensors.get("projection")
    transform, classifier = tensors.get("levels.0.transform"), tensors["levels.0.classifier"]

    def scores(rows):
        x = rows if projection is None else rows @ projection
        if transform is not None:
            x = x + np.maximum(x @ transform, 0)
        return x @ classifier

    return scores, sum(t.size for t in (projection, transform, classifier) if t is not None)


def beam_points(documents, queries, relevant, members, query_scores):
    """Visited share and recalls at growing beams; a document counts once, however many of its leaves are probed."""
    order, similar = np.argsort(-query_scores, axis=1, kind="stable"), queries @ documents.T
    points = []
    for beam in probes(len(members)):
        found, visited = np.full((len(queries), DEPTH), -1), 0
        for row in range(len(queries)):
            rows = np.unique(np.concatenate([members[leaf] for leaf in order[row, :beam]]))
            visited += len(rows)
            best = rows[np.argsort(-similar[row, rows], kind="stable")[:DEPTH]]
            found[row, : len(best)] = best
        points.append((visited / len(queries) / len(documents), recalls(found, relevant)))
    return points


def tree_points(documents, queries, relevant, bundle):
    """Returns the points, the routing cost in dot products, and the number of leaves."""
    scores, parameters = tree_scores(bundle)
    document_scores = scores(documents)
    leaf, leaves = document_scores.argmax(axis=1), document_scores.shape[1]
    members = [np.flatnonzero(leaf == each) for each in range(leaves)]
    points = beam_points(documents, queries, relevant, members, scores(queries))
    return points, parameters / documents.shape[1], leaves


def faiss_points(documents, queries, relevant, lists, seed):
    dim = documents.shape[1]
    quantizer = faiss.IndexFlatIP(dim)
    index = faiss.IndexIVFFlat(quantizer, dim, lists, faiss.METRIC_INNER_PRODUCT)
    index.cp.seed = seed + 1
    index.cp.spherical = True
    index.cp.niter = 25
    index.cp.min_points_per_centroid = 1
    index.train(documents)
    index.add(documents)
    sizes = np.array([index.invlists.list_size(i) for i in range(lists)])
    _, order = quantizer.search(queries, lists)
    for nprobe in probes(lists):
        index.nprobe = nprobe
        visited = sizes[order[:, :nprobe]].sum(axis=1).mean() / len(documents)
        _, found = index.search(queries, DEPTH)
        yield visited, recalls(found, relevant)


def scann_points(documents, queries, relevant, lists, seed):
    import scann

    del seed  # ScaNN's builder takes none: its own randomness makes the difference.
    builder = scann.scann_ops_pybind.builder(documents, DEPTH, "dot_product")
    searcher = builder.tree(
        num_leaves=lists, num_leaves_to_search=1, training_sample_size=len(documents)
    ).score_brute_force().build()
    for nprobe in probes(lists):
        found, _ = searcher.search_batched(queries, leaves_to_search=nprobe)
        yield nprobe / lists, recalls(np.where(np.isnan(found.astype(float)), -1, found), relevant)


def at(points, extra, fraction):
    """Per-query values at a fraction of the cost, by linear interpolation; the best where everything
    costs less, and NaN below the smallest point that was measured."""
    costs = np.array([visited + extra for visited, _ in points])
    values = [values for _, values in points]
    if fraction < costs[0]:
        return np.full_like(values[0], np.nan)
    right = np.searchsorted(costs, fraction)
    if right >= len(costs):
        return values[-1]
    left = max(right - 1, 0)
    width = costs[right] - costs[left]
    share = (fraction - costs[left]) / width if width > 0 else 1.0
    return values[left] + share * (values[right] - values[left])


def bootstrap(difference, resamples=10_000):
    """Two-sided p-value of a mean difference over queries."""
    if np.isnan(difference).any():
        return float("nan")
    rng = np.random.default_rng(0)
    means = difference[rng.integers(0, len(difference), (resamples, len(difference)))].mean(axis=1)
    centred = means - difference.mean()
    return (np.sum(np.abs(centred) >= abs(difference.mean())) + 1) / (resamples + 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--embedded", type=pathlib.Path, nargs="+", required=True)
    parser.add_argument("--tree", action="append", default=[], help="NAME=BUNDLE,BUNDLE,..")
    parser.add_argument("--lists", default="20,40,72,100,150,259,518")
    parser.add_argument("--seeds", type=int, default=4, help="k-means seeds")
    parser.add_argument("--engines", default="faiss,scann")
    parser.add_argument("--fractions", default="0.02,0.05,0.1,0.2,0.4")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--svg", type=pathlib.Path, help="a picture of recall@10 against the share visited (matplotlib)")
    arguments = parser.parse_args()
    fractions = [float(each) for each in arguments.fractions.split(",")]
    loaded = [load(folder) for folder in arguments.embedded]
    count = len(loaded[0][0])

    # name -> one list per training seed of one list per k-means seed of points; routing cost.
    methods, routing = {}, {}
    ceiling = np.stack([recalls(exact(d, q), r) for d, q, r in loaded])
    for text in arguments.tree:
        name, bundles = text.split("=")
        runs = []
        for (d, q, r), bundle in zip(loaded, bundles.split(","), strict=True):
            points, cost, leaves = tree_points(d, q, r, pathlib.Path(bundle))
            runs.append([points])
        methods[("tree", name)], routing[("tree", name)] = runs, cost / count
        print(f"tree {name}: {leaves} leaves, routing {cost:.0f} dot products, {100 * cost / count:.1f}%")
    engines = {"faiss": faiss_points, "scann": scann_points}
    for engine in filter(None, arguments.engines.split(",")):
        for lists in map(int, arguments.lists.split(",")):
            methods[(engine, lists)] = [
                [list(engines[engine](d, q, r, lists, seed)) for seed in range(arguments.seeds)]
                for d, q, r in loaded
            ]
            routing[(engine, lists)] = lists / count

    def values(method, cost, fraction):
        """[training seeds, queries, 2], averaged over k-means seeds."""
        extra = routing[method] if cost == "work" else 0.0
        return np.stack(
            [np.mean([at(points, extra, fraction) for points in runs], axis=0) for runs in methods[method]]
        )

    table = {"exact": summary(ceiling), "documents": count, "queries": len(loaded[0][1]), "rows": []}
    print(f"{len(loaded)} encoder(s), {count} documents, {table['queries']} queries; exact {table['exact']}")
    for cost in ("visited", "work"):
        for fraction in fractions:
            own = {method: values(method, cost, fraction) for method in methods}
            best = {}
            for engine in {method[0] for method in methods if method[0] != "tree"}:
                candidates = [method for method in own if method[0] == engine]
                # NaN, where the smallest setting costs more, is worse than any number.
                best[engine] = max(candidates, key=lambda method: np.nan_to_num(own[method][:, :, 1].mean(), nan=-1))
            for method in own:
                row = {"cost": cost, "fraction": fraction, "method": list(method), **summary(own[method])}
                if method[0] == "tree":
                    row["against"] = {
                        engine: {
                            "lists": rival[1],
                            "recall@10": float(own[rival][:, :, 0].mean()),
                            "recall@100": float(own[rival][:, :, 1].mean()),
                            "p recall@10": bootstrap((own[method] - own[rival]).mean(axis=0)[:, 0]),
                            "p recall@100": bootstrap((own[method] - own[rival]).mean(axis=0)[:, 1]),
                        }
                        for engine, rival in sorted(best.items())
                    }
                if method[0] == "tree" or method in best.values():
                    show(row)
                table["rows"].append(row)
    if arguments.json:
        arguments.json.write_text(json.dumps(table, indent=1))
    if arguments.svg:
        draw(table, arguments.svg)


def draw(table, path):
    """Trees, and of each engine the number of lists that is best at each share."""
    import matplotlib

    matplotlib.use("svg")
    # The same bytes for the same figures.
    matplotlib.rcParams["svg.hashsalt"] = "ehi"
    from matplotlib import pyplot

    names = {"tree": "ehi, learned tree", "faiss": "Faiss IVF, best lists", "scann": "ScaNN, best lists"}
    grey = "#808080"
    figure, axes = pyplot.subplots(figsize=(7, 3.6))
    for method, colour in zip(names, ("#1f77b4", "#d95f02", "#7570b3")):
        best = {}
        for row in table["rows"]:
            if row["cost"] == "visited" and row["method"][0] == method and not math.isnan(row["recall@10"]):
                share = 100 * row["fraction"]
                if share not in best or row["recall@100"] > best[share]["recall@100"]:
                    best[share] = row
        shares = sorted(best)
        values = [100 * best[share]["recall@10"] for share in shares]
        spread = [100 * best[share]["recall@10 sd"] for share in shares]
        axes.errorbar(shares, values, yerr=spread, color=colour, marker="o", markersize=4, label=names[method])
    axes.axhline(100 * table["exact"]["recall@10"], color=grey, linewidth=1, linestyle="--", label="exact search")
    axes.set_xscale("log")
    axes.set_xticks(shares, [f"{share:g}%" for share in shares])
    axes.minorticks_off()
    axes.set_xlabel("documents visited", color=grey)
    axes.set_ylabel("recall@10, %", color=grey)
    axes.tick_params(colors=grey)
    axes.grid(alpha=0.3)
    for side in axes.spines.values():
        side.set_color(grey)
    axes.legend(loc="lower right", frameon=False, labelcolor=grey)
    figure.tight_layout()
    figure.savefig(path, transparent=True, metadata={"Date": None})


def summary(values):
    """Mean over everything, and standard deviation over training seeds, of [seeds, queries, 2]."""
    seeds = values.mean(axis=1)
    spread = seeds.std(axis=0, ddof=1) if len(seeds) > 1 else np.zeros(2)
    return {
        "recall@10": float(seeds[:, 0].mean()),
        "recall@10 sd": float(spread[0]),
        "recall@100": float(seeds[:, 1].mean()),
        "recall@100 sd": float(spread[1]),
    }


def show(row):
    against = "; ".join(
        f"{engine} ({rival['lists']} lists) {100 * rival['recall@10']:.1f} / {100 * rival['recall@100']:.1f}"
        f" p {rival['p recall@10']:.4f} / {rival['p recall@100']:.4f}"
        for engine, rival in row.get("against", {}).items()
    )
    print(
        f"{row['cost']:>7} {100 * row['fraction']:5.1f}%  {' '.join(map(str, row['method'])):<20}"
        f" recall@10 {100 * row['recall@10']:.1f} ±{100 * row['recall@10 sd']:.1f}"
        f"  recall@100 {100 * row['recall@100']:.1f} ±{100 * row['recall@100 sd']:.1f}  {against}",
        flush=True,
    )


if __name__ == "__main__":
    main()
