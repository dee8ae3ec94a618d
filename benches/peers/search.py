#!/usr/bin/env python3
"""Recall@10 against queries per second on the same vectors: ehi beside Faiss, ScaNN, SymphonyQG, HNSW, LanceDB and arroy, by turns.

    python3 -m venv target/peers && target/peers/bin/pip install numpy matplotlib faiss-cpu scann hnswlib usearch lancedb pyarrow rabitqlib pyglass-portable
    cargo run --release --example embed -- ENCODER DATA test EMBEDDED
    target/peers/bin/python benches/peers/search.py --embedded EMBEDDED --trees learned=BUNDLE --lists 245,500

Every engine has a process of its own on one processor, with one thread, and gets one query at a time. Recall is against exact
search over the f16 rows that ehi keeps. Each engine's own knob is swept: beams, probed lists, ef, nodes. Faiss's and
ScaNN's lists are swept too; of several lists, and of several trees of the same name, the best one at each recall counts. In a round every
engine takes one turn with every setting; figures are medians of the rounds. Queries per second at a recall are read on a
straight line, in the logarithm of the rate, between the two settings that bracket it.

ehi searches with the vector and reads the documents of the hits; the peers return numbers of rows. Index sizes are without
ehi's model and texts. `benches/peers/kmeans.py` makes a bundle with a tree of plain k-means.
"""

import argparse
import json
import math
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import time

from turns import ROOT, Turns, bench, size
from vectors import load, nearest, recall_of

TARGETS = (0.90, 0.95, 0.99)
STEPS = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048]
# Sets two knobs in one step apart.
REFINE = 10_000
EF = [10, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768]


class Faiss:
    def __init__(self, documents, arguments):
        import faiss

        faiss.omp_set_num_threads(1)
        import numpy as np

        dim, lists = documents.shape[1], arguments.lists
        factory = {"ivf": f"IVF{lists},SQfp16", "ivfpq": f"IVF{lists},PQ{dim // 4}x4fs,RFlat"}[arguments.serve]
        documents = np.ascontiguousarray(documents)
        self.index = faiss.index_factory(dim, factory, faiss.METRIC_INNER_PRODUCT)
        self.index.train(documents)
        self.index.add(documents)
        steps = [step for step in STEPS if step <= lists]
        if arguments.serve == "ivfpq":
            # Codes of four bits alone find too little; how many more hits than asked for are scored anew is a knob too.
            steps = [factor * REFINE + step for factor in map(int, arguments.refine.split(",")) for step in steps]
        self.faiss, self.steps = faiss, steps
        faiss.write_index(self.index, str(arguments.work / f"{arguments.name}.index"))

    def search(self, query, k, step):
        if isinstance(self.index, self.faiss.IndexRefine):
            factor, step = divmod(step, REFINE)
            parameters = self.faiss.IndexRefineSearchParameters(
                k_factor=factor, base_index_params=self.faiss.SearchParametersIVF(nprobe=step)
            )
        else:
            parameters = self.faiss.SearchParametersIVF(nprobe=step)
        return self.index.search(query[None], k, params=parameters)[1][0]


class Scann:
    def __init__(self, documents, arguments):
        import scann

        builder = scann.scann_ops_pybind.builder(documents, 10, "dot_product")
        builder = builder.tree(num_leaves=arguments.lists, num_leaves_to_search=10, training_sample_size=min(len(documents), 250_000))
        builder = builder.score_ah(2, anisotropic_quantization_threshold=0.2).reorder(100)
        self.index = builder.set_n_training_threads(1).build()
        self.steps = [step for step in STEPS if step <= arguments.lists]
        folder = arguments.work / f"{arguments.name}.index"
        folder.mkdir(exist_ok=True)
        self.index.serialize(str(folder))

    def search(self, query, k, step):
        return self.index.search(query, final_num_neighbors=k, leaves_to_search=step)[0]


class Hnswlib:
    def __init__(self, documents, arguments):
        import hnswlib

        self.index = hnswlib.Index(space="ip", dim=documents.shape[1])
        self.index.init_index(max_elements=len(documents), ef_construction=200, M=16)
        self.index.set_num_threads(1)
        self.index.add_items(documents, num_threads=1)
        self.index.save_index(str(arguments.work / f"{arguments.name}.index"))
        self.steps = EF

    def search(self, query, k, step):
        self.index.set_ef(step)
        return self.index.knn_query(query, k=k, num_threads=1)[0][0]


class Usearch:
    def __init__(self, documents, arguments):
        import numpy as np
        from usearch.index import Index

        self.index = Index(ndim=documents.shape[1], metric="ip", dtype="f16", connectivity=16, expansion_add=200)
        self.index.add(np.arange(len(documents)), documents, threads=1)
        self.index.save(str(arguments.work / f"{arguments.name}.index"))
        self.steps = EF

    def search(self, query, k, step):
        self.index.expansion_search = step
        return self.index.search(query, k, threads=1).keys


class Symphony:
    """SymphonyQG of rabitqlib: a graph whose nodes hold one-bit codes of their neighbours."""

    def __init__(self, documents, arguments):
        import rabitqlib

        bits = 8 if arguments.serve == "symphony8" else 0
        self.index = rabitqlib.SymqgIndex(documents.shape[1], 32, "ip", bits)
        self.index.build(documents, 200, num_threads=1)
        self.index.save(str(arguments.work / f"{arguments.name}.index"))
        self.steps = EF

    def search(self, query, k, step):
        return self.index.search(query[None], k, step)[0][0]


class HnswRabitq:
    """HNSW of rabitqlib over codes of nine bits, which it ranks by: it keeps no vectors."""

    def __init__(self, documents, arguments):
        import faiss
        import numpy as np
        import rabitqlib

        faiss.omp_set_num_threads(1)
        dim = documents.shape[1]
        means = faiss.Kmeans(dim, 16, niter=10, seed=1)
        means.train(documents)
        lists = means.index.search(documents, 1)[1][:, 0].astype(np.uint32)
        self.index = rabitqlib.HnswIndex(dim, len(documents), 16, 200, 9, "ip")
        self.index.build(documents, means.centroids, lists, num_threads=1)
        self.index.save(str(arguments.work / f"{arguments.name}.index"))
        self.steps = EF

    def search(self, query, k, step):
        return self.index.search(query[None], k, step)[0][0]


class Glass:
    """HNSW of Glass over numbers of 4 or 8 bits, refined from f16; its file is the graph alone, to which these are added."""

    def __init__(self, documents, arguments):
        import glass

        glass.set_num_threads(1)
        path = arguments.work / f"{arguments.name}.index"
        path.mkdir(exist_ok=True)
        graph = glass.Index("HNSW", "IP", quant="SQ8U", R=32, L=200).build(documents)
        graph.save(str(path / "graph"))
        bits = 4 if arguments.serve == "glass4" else 8
        (path / "numbers").write_bytes(bytes(documents.size * (bits + 16) // 8))
        self.index = glass.Searcher(graph, documents, "IP", f"SQ{bits}U", "FP16")
        self.index.optimize(1)
        self.steps = EF

    def search(self, query, k, step):
        self.index.set_ef(step)
        return self.index.search(query, k)[0]


class Lance:
    def __init__(self, documents, arguments):
        import lancedb
        import pyarrow as pa

        dim = documents.shape[1]
        schema = pa.schema([("id", pa.int64()), ("vector", pa.list_(pa.float32(), dim))])
        self.table = lancedb.connect(str(arguments.work / f"{arguments.name}.index")).create_table("t", schema=schema)
        for start in range(0, len(documents), 50_000):
            rows = documents[start : start + 50_000]
            flat = pa.FixedSizeListArray.from_arrays(pa.array(rows.reshape(-1), type=pa.float32()), dim)
            ids = pa.array(range(start, start + len(rows)), type=pa.int64())
            self.table.add(pa.Table.from_arrays([ids, flat], schema=schema))
        self.table.create_index(metric="cosine", num_partitions=arguments.lists, num_sub_vectors=dim // 8)
        self.steps = [step for step in STEPS if step <= min(256, arguments.lists)]

    def search(self, query, k, step):
        # Its codes alone find too little.
        found = self.table.search(query).metric("cosine").nprobes(step).refine_factor(10).limit(k).select(["id"])
        return found.to_arrow()["id"].to_pylist()


PEERS = {
    "ivf": Faiss, "ivfpq": Faiss, "scann": Scann, "hnswlib": Hnswlib, "usearch": Usearch, "lancedb": Lance,
    "symphony": Symphony, "symphony8": Symphony, "hnsw-rabitq": HnswRabitq, "glass8": Glass, "glass4": Glass,
}
OF_LISTS = ("ivf", "ivfpq", "scann")
NAMES = {
    "ivf": "Faiss IVF, f16", "ivfpq": "Faiss IVF-PQ fast scan, refined", "scann": "ScaNN", "hnswlib": "hnswlib, f32",
    "usearch": "usearch, f16", "lancedb": "LanceDB IVF-PQ, refined", "arroy": "arroy, f32",
    "symphony": "SymphonyQG, f32", "symphony8": "SymphonyQG, 8 bits", "hnsw-rabitq": "HNSW-RaBitQ, 9 bits, no vectors",
    "glass8": "Glass HNSW, 8 bits, refined", "glass4": "Glass HNSW, 4 bits, refined",
}


def serve(arguments):
    """A peer's side, as benches/vectors.rs."""
    documents, queries = load(arguments.embedded)
    # Some engines print while they build.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    started = time.perf_counter()
    engine = PEERS[arguments.serve](documents, arguments)
    print(json.dumps({"build_seconds": time.perf_counter() - started, "steps": engine.steps}), file=answers, flush=True)
    for line in sys.stdin:
        step, found = int(line), []
        started = time.perf_counter()
        for query in queries:
            found.append(engine.search(query, arguments.k, step))
        seconds = time.perf_counter() - started
        print(json.dumps({"seconds": seconds, "found": [list(map(int, row)) for row in found]}), file=answers, flush=True)


class Engine:
    """One way of building an index, in a process of its own; `family` is the row of the table it counts for."""

    def __init__(self, family, path, command):
        self.family, self.path = family, path
        self.turns = Turns(command, 1, LANCE_CPU_THREADS="1")
        self.built = self.turns.read()
        self.memory = self.turns.memory("VmHWM")
        self.seconds, self.recall, self.visited = {}, {}, {}


def rate_at(points, target):
    """Queries per second at a recall, from (recall, rate) in the order of the knob; the best that reaches it."""
    rates = [points[0][1]] if points[0][0] >= target else []
    for (low, slower), (high, rate) in zip(points, points[1:]):
        if low < target <= high:
            share = (target - low) / (high - low)
            rates.append(math.exp(math.log(slower) + share * (math.log(rate) - math.log(slower))))
    return max(rates, default=None)


def asked_of(arguments, queries):
    """A folder of the same documents with these queries."""
    folder = arguments.work / "embedded"
    folder.mkdir()
    for name in ("documents.f32", "dataset.json"):
        (folder / name).symlink_to((arguments.embedded / name).resolve())
    queries.tofile(folder / "queries.f32")
    return folder


def commands(arguments):
    """Name, family, files and command of every engine asked for."""
    asked = arguments.engines.split(",")
    embedded, work = arguments.embedded, arguments.work
    if "ehi" in asked:
        binary = arguments.ehi or bench("vectors")
        for given in arguments.trees.split(","):
            name, bundle = given.split("=")
            path = work / f"ehi-{pathlib.Path(bundle).name}"
            own = [binary, bundle, embedded, arguments.k, path]
            yield path.name, f"ehi, {name} tree", path, own
            if arguments.plain:
                yield f"{path.name}-plain", f"ehi, {name} tree, without codes", path, [*own, "plain"]
    for name in asked:
        counts = arguments.lists.split(",") if name in OF_LISTS else [arguments.lists.split(",")[0]]
        for lists in counts if name in PEERS else []:
            own = f"{name}-{lists}" if name in OF_LISTS else name
            given = ["--serve", name, "--name", own, "--embedded", embedded, "--lists", lists, "--work", work, "-k", arguments.k]
            given += ["--refine", arguments.refine]
            yield own, NAMES[name], work / f"{own}.index", [sys.executable, __file__, *given]
    if "arroy" in asked:
        folder, target = ROOT / "benches/peers/arroy", ROOT / "target/arroy"
        subprocess.run(["cargo", "build", "--release", "--locked", "--target-dir", target], cwd=folder, check=True)
        dim = json.loads((embedded / "dataset.json").read_text())["dim"]
        path = work / "arroy.index"
        yield "arroy", NAMES["arroy"], path, [target / "release/search-arroy", embedded, dim, arguments.k, path]


def plot(families, path, title):
    """Every engine's best rate at each recall, as SVG."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "ehi"
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7.5, 5))
    for family, curves in families.items():
        points = sorted((recall, rate) for curve in curves for recall, rate in curve if recall >= 0.7)
        # What another setting beats in both does not belong to the curve.
        best = [p for p in points if not any(q != p and q[0] >= p[0] and q[1] >= p[1] for q in points)]
        style = {"linewidth": 2.4} if family.startswith("ehi") else {"linewidth": 1.2, "linestyle": "--"}
        axes.plot([p[0] for p in best], [p[1] for p in best], marker=".", label=family, **style)
    axes.set(xlabel="recall@10", ylabel="queries per second, one thread", yscale="log", xlim=(0.7, 1.0), title=title)
    axes.grid(True, which="both", alpha=0.3)
    axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--embedded", type=pathlib.Path, required=True)
    parser.add_argument("--trees", default="", help="NAME=BUNDLE, separated by commas")
    parser.add_argument("--plain", action="store_true", help="ehi without its codes too")
    parser.add_argument("--lists", default="256", help="of Faiss and ScaNN, separated by commas; LanceDB takes the first")
    parser.add_argument("--refine", default="10,40", help="hits that IVF-PQ scores anew for each one asked for, separated by commas")
    parser.add_argument("-k", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--asked", type=int, default=300, help="queries, the first ones")
    parser.add_argument("--engines", default=f"ehi,{','.join(PEERS)},arroy")
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "target/peer-search")
    parser.add_argument("--ehi", help="the vectors bench; built if absent")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--svg", type=pathlib.Path)
    parser.add_argument("--title", default="")
    parser.add_argument("--name", help=argparse.SUPPRESS)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        arguments.lists = int(arguments.lists)
        return serve(arguments)

    shutil.rmtree(arguments.work, ignore_errors=True)
    arguments.work.mkdir(parents=True)
    documents, queries = load(arguments.embedded)
    queries = queries[: arguments.asked]
    arguments.embedded = asked_of(arguments, queries)
    exact = nearest(documents, queries, arguments.k)
    engines = {}
    for name, family, path, command in commands(arguments):
        engines[name] = Engine(family, path, command)
        print(name, {n: v for n, v in engines[name].built.items() if n != "steps"}, flush=True, file=sys.stderr)
    for round_number in range(arguments.rounds + 1):
        for engine in engines.values():
            for step in engine.built.get("steps", STEPS):
                taken = engine.turns.ask(step)
                if round_number == 0:
                    engine.recall[step] = recall_of(taken["found"], exact)
                    engine.visited[step] = taken.get("visited")
                    engine.seconds[step] = []
                else:
                    engine.seconds[step].append(taken["seconds"])
        print(f"round {round_number} done", flush=True, file=sys.stderr)

    report, families = {}, {}
    for name, engine in engines.items():
        engine.turns.end()
        points = [(engine.recall[step], len(queries) / statistics.median(engine.seconds[step])) for step in engine.recall]
        report[name] = {
            "family": engine.family, "points": points, "steps": list(engine.recall), "visited": list(engine.visited.values()),
            "rates": [[len(queries) / s for s in engine.seconds[step]] for step in engine.recall],
            "build_seconds": engine.built["build_seconds"], "megabytes": size(engine.path) / 1e6, "memory": engine.memory,
        }
        families.setdefault(engine.family, []).append(name)
    heads = " | ".join(f"{target:.2f}" for target in TARGETS)
    print(f"{len(documents)} documents of {documents.shape[1]} dimensions, {len(queries)} queries, k = {arguments.k}\n")
    print(f"| Engine | Queries per second at recall {heads} | Build, s | On disk, MB | Peak memory, MB |\n|---|---|---|---|---|---|---|")
    for family, names in families.items():
        cells = []
        for target in TARGETS:
            rates = [(rate_at(report[name]["points"], target), name) for name in names]
            rate, name = max((pair for pair in rates if pair[0] is not None), default=(None, None))
            chosen = f" ({re.findall('[0-9]+', name)[-1]})" if rate and len(names) > 1 else ""
            cells.append("not reached" if rate is None else f"{rate:,.0f}{chosen}")
        spread = lambda of: " to ".join(f"{value:,.0f}" for value in sorted({min(of), max(of)}))
        rest = " | ".join(spread([report[name][what] for name in names]) for what in ("build_seconds", "megabytes", "memory"))
        print(f"| {family} | {' | '.join(cells)} | {rest} |")
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1))
    if arguments.svg:
        plot({family: [report[n]["points"] for n in names] for family, names in families.items()}, arguments.svg, arguments.title)


if __name__ == "__main__":
    main()
