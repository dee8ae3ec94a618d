#!/usr/bin/env python3
"""Recall@10 against queries per second on the same vectors: ehi beside Faiss, ScaNN, hnswlib and usearch, by turns.

    python3 -m venv target/peers && target/peers/bin/pip install numpy faiss-cpu scann hnswlib usearch
    cargo run --release --example embed -- ENCODER DATA test EMBEDDED
    target/peers/bin/python benches/peers/search.py --embedded EMBEDDED --bundle BUNDLE --lists 245

Every engine has a process of its own on one processor, with one thread, and gets one query at a time. Recall is against exact
search over the f16 rows that ehi keeps. Each engine's own knob is swept: beams, probed lists, ef. In a round every
engine takes one turn with every setting; figures are medians of the rounds. Queries per second at a recall are read on a
straight line, in the logarithm of the rate, between the two settings that bracket it.

ehi searches with the vector and reads the documents of the hits; the peers return numbers of rows. Index sizes are without
ehi's model and texts.
"""

import argparse
import json
import math
import pathlib
import shutil
import statistics
import sys
import time

from turns import ROOT, Turns, bench

TARGETS = (0.90, 0.95, 0.99)
STEPS = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048]
EF = [10, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768]


def load(folder):
    import numpy as np

    about = json.loads((folder / "dataset.json").read_text())
    rows = lambda name: np.fromfile(folder / name, dtype="<f4").reshape(-1, about["dim"])
    return rows("documents.f32"), rows("queries.f32")


class Faiss:
    def __init__(self, documents, arguments):
        import faiss

        faiss.omp_set_num_threads(1)
        dim, lists = documents.shape[1], arguments.lists
        factory = {"ivf": f"IVF{lists},SQfp16", "ivfpq": f"IVF{lists},PQ{dim // 4}x4fs,RFlat"}[arguments.serve]
        self.index = faiss.index_factory(dim, factory, faiss.METRIC_INNER_PRODUCT)
        self.index.train(documents)
        self.index.add(documents)
        self.faiss, self.steps = faiss, [step for step in STEPS if step <= lists]
        faiss.write_index(self.index, str(arguments.work / f"{arguments.serve}.index"))

    def search(self, query, k, step):
        if isinstance(self.index, self.faiss.IndexRefine):
            # Codes of four bits alone find too little.
            parameters = self.faiss.IndexRefineSearchParameters(
                k_factor=10, base_index_params=self.faiss.SearchParametersIVF(nprobe=step)
            )
        else:
            parameters = self.faiss.SearchParametersIVF(nprobe=step)
        return self.index.search(query[None], k, params=parameters)[1][0]


class Scann:
    def __init__(self, documents, arguments):
        import scann

        builder = scann.scann_ops_pybind.builder(documents, 10, "dot_product")
        builder = builder.tree(num_leaves=arguments.lists, num_leaves_to_search=10, training_sample_size=len(documents))
        builder = builder.score_ah(2, anisotropic_quantization_threshold=0.2).reorder(100)
        self.index = builder.set_n_training_threads(1).build()
        self.steps = [step for step in STEPS if step <= arguments.lists]
        folder = arguments.work / "scann.index"
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
        self.index.save_index(str(arguments.work / "hnswlib.index"))
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
        self.index.save(str(arguments.work / "usearch.index"))
        self.steps = EF

    def search(self, query, k, step):
        self.index.expansion_search = step
        return self.index.search(query, k, threads=1).keys


PEERS = {"ivf": Faiss, "ivfpq": Faiss, "scann": Scann, "hnswlib": Hnswlib, "usearch": Usearch}
NAMES = {
    "ehi": "ehi", "ivf": "Faiss IVF, f16", "ivfpq": "Faiss IVF-PQ fast scan, refined", "scann": "ScaNN", "hnswlib": "hnswlib",
    "usearch": "usearch, f16",
}


def serve(arguments):
    """A peer's side, as benches/vectors.rs."""
    documents, queries = load(arguments.embedded)
    started = time.perf_counter()
    engine = PEERS[arguments.serve](documents, arguments)
    print(json.dumps({"build_seconds": time.perf_counter() - started, "steps": engine.steps}), flush=True)
    for line in sys.stdin:
        step, found = int(line), []
        started = time.perf_counter()
        for query in queries:
            found.append(engine.search(query, arguments.k, step))
        seconds = time.perf_counter() - started
        print(json.dumps({"seconds": seconds, "found": [list(map(int, row)) for row in found]}), flush=True)


class Engine:
    def __init__(self, command):
        self.turns = Turns(command, 1)
        self.built = self.turns.read()
        status = pathlib.Path(f"/proc/{self.turns.process.pid}/status").read_text()
        self.memory = int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) / 1000
        self.seconds, self.recall = {}, {}


def rate_at(points, target):
    """Queries per second at a recall, from (recall, rate) in the order of the knob; the best that reaches it."""
    best = None
    for (low, slower), (high, rate) in zip(points, points[1:]):
        if low < target <= high:
            share = (target - low) / (high - low)
            best = math.exp(math.log(slower) + share * (math.log(rate) - math.log(slower)))
            break
    if points[0][0] >= target:
        best = points[0][1]
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--embedded", type=pathlib.Path, required=True)
    parser.add_argument("--bundle", type=pathlib.Path)
    parser.add_argument("--lists", type=int, default=256, help="of Faiss and ScaNN")
    parser.add_argument("-k", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--engines", default="ehi,ivf,ivfpq,scann,hnswlib,usearch")
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "target/peer-search")
    parser.add_argument("--ehi", help="the vectors bench; built if absent")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        return serve(arguments)
    import numpy as np

    shutil.rmtree(arguments.work, ignore_errors=True)
    arguments.work.mkdir(parents=True)
    documents, queries = load(arguments.embedded)
    kept = documents.astype(np.float16).astype(np.float32)
    exact = np.argsort(-(queries @ kept.T), axis=1, kind="stable")[:, : arguments.k]
    engines = {}
    for name in arguments.engines.split(","):
        if name == "ehi":
            binary = arguments.ehi or bench("vectors")
            engines[name] = Engine([binary, arguments.bundle, arguments.embedded, arguments.k, arguments.work / "ehi"])
        else:
            own = ["--serve", name, "--embedded", arguments.embedded, "--lists", arguments.lists, "--work", arguments.work]
            engines[name] = Engine([sys.executable, __file__, *own, "-k", arguments.k])
        print(name, engines[name].built, flush=True, file=sys.stderr)
    for round_number in range(arguments.rounds + 1):
        for engine in engines.values():
            for step in engine.built.get("steps", STEPS):
                taken = engine.turns.ask(step)
                if round_number == 0:
                    hits = [len(set(own) & set(row.tolist())) for own, row in zip(taken["found"], exact)]
                    engine.recall[step] = sum(hits) / exact.size
                    engine.seconds[step] = []
                else:
                    engine.seconds[step].append(taken["seconds"])
    report = {}
    heads = " | ".join(f"{target:.2f}" for target in TARGETS)
    print(f"{len(documents)} documents of {documents.shape[1]} dimensions, {len(queries)} queries, k = {arguments.k}\n")
    print(f"| Engine | Queries per second at recall {heads} | Build, s | On disk, MB | Peak memory, MB |\n|---|---|---|---|---|---|---|")
    for name, engine in engines.items():
        engine.turns.end()
        points = [(engine.recall[step], len(queries) / statistics.median(engine.seconds[step])) for step in engine.recall]
        report[name] = {"points": points, "steps": list(engine.recall), "build_seconds": engine.built["build_seconds"]}
        folder = arguments.work / ("ehi" if name == "ehi" else f"{name}.index")
        files = [folder] if folder.is_file() else [f for f in folder.rglob("*") if f.is_file() and "model" not in f.parts]
        size = sum(f.stat().st_size for f in files) / 1e6
        rates = [rate_at(points, target) for target in TARGETS]
        cells = " | ".join("not reached" if rate is None else f"{rate:,.0f}" for rate in rates)
        print(f"| {NAMES[name]} | {cells} | {engine.built['build_seconds']:.1f} | {size:.0f} | {engine.memory:.0f} |")
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
