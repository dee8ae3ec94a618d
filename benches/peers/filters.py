#!/usr/bin/env python3
"""Vector searches with a filter: ehi beside LanceDB, Qdrant Edge, Chroma, sqlite-vec and Faiss, by turns.

    python3 -m venv target/peers && target/peers/bin/pip install maturin numpy lancedb pyarrow qdrant-edge-py chromadb sqlite-vec apsw faiss-cpu
    target/peers/bin/maturin build --release --manifest-path python/Cargo.toml --out target/peers/wheels
    target/peers/bin/pip install target/peers/wheels/*.whl
    target/peers/bin/python benches/peers/filters.py --model ENCODER --count 150000 --json OUT.json

Documents, vectors and questions are drawn as in benches/filters.rs: unit vectors around 1,000 centres that overlap, and six
fields of metadata. Every engine is a process of its own on one processor, with one thread where that can be set. It gets one
question at a time, twice: with a filter that was not asked before, and with the same one again. Recall is against filtered
exact search over the f16 rows that ehi keeps.

An engine with a knob, `steps` from fast to exact, takes for each filter the first step with a recall of 0.95 on questions of
their own, or else the best one. Then every engine answers all filters, in rounds; figures are of all rounds together.

ehi reads every code of a passing document, or has a tree and the number of leaves of its own recall curve. LanceDB has no index
of vectors by default, and IVF-PQ if asked for one; prices, tenants and names have BTREE, languages and years BITMAP, and tags
LABEL_LIST. Qdrant Edge and Chroma have HNSW, Qdrant Edge with links for its indexes of all fields. sqlite-vec has a table `vec0`
with columns of metadata, or scores the rows of an ordinary table with indexes; tags are a table of their own, and APSW loads it
because Python's sqlite3 may refuse extensions. Faiss knows no metadata: numpy finds the rows that pass, in columns of numbers
and lists of rows, for an IDSelectorBitmap, and the same filter again finds it ready. usearch filters by a predicate, but not
in its Python package.
"""

import argparse
import functools
import importlib.metadata
import json
import math
import os
import pathlib
import shutil
import statistics
import sys
import time

import numpy as np

from turns import ROOT, Turns

PACKAGES = ("ehi", "lancedb", "qdrant-edge-py", "chromadb", "sqlite-vec", "apsw", "faiss-cpu")
DIM, K, CENTRES, TAGS, TENANTS, TARGET = 384, 10, 1_000, 1_000, 10_000, 0.95

between = lambda field, start, width: [(field, ">=", start), (field, "<", start + width)]
tag = lambda rng: f"tag {int(TAGS ** rng.random())}"
# Conditions that must all hold, with values that differ every time.
FILTERS = {
    "none": lambda rng, count: [],
    "price, 90%": lambda rng, count: [("price", "<", 900 + rng.random())],
    "price, 50%": lambda rng, count: [("price", ">=", 500 + rng.random())],
    "price, 10%": lambda rng, count: between("price", rng.uniform(0, 900), 100),
    "year, language and price": lambda rng, count: [
        *between("year", int(rng.integers(1970, 2010)), 10), ("lang", "=", "en"), ("price", "<", rng.uniform(400, 600))
    ],
    "price, 1%": lambda rng, count: between("price", rng.uniform(0, 990), 10),
    "price, 0.1%": lambda rng, count: between("price", rng.uniform(0, 999), 1),
    "two tags": lambda rng, count: [("tags", "has", tag(rng)), ("tags", "has", tag(rng))],
    "a tenant of 10,000": lambda rng, count: [("tenant", "=", int(rng.integers(TENANTS)))],
    "a name": lambda rng, count: [("name", "=", f"name {rng.integers(count // 3)}")],
}


@functools.cache
def centres():
    return np.random.default_rng(1).uniform(-1, 1, (CENTRES, DIM)).astype(np.float32)


def around(rng, numbers):
    vectors = centres()[numbers % CENTRES] + rng.uniform(-0.7, 0.7, (len(numbers), DIM)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def documents(count):
    """Vectors, and metadata by document."""
    rng = np.random.default_rng(2)
    vectors = np.vstack([around(rng, np.arange(at, min(at + 10_000, count))) for at in range(0, count, 10_000)])
    return vectors, [
        {
            "year": int(rng.integers(1970, 2020)), "lang": "de" if rng.integers(10) == 0 else "en", "price": rng.uniform(0, 1000),
            "tags": [tag(rng), tag(rng), tag(rng)], "tenant": int(rng.integers(TENANTS)), "name": f"name {rng.integers(count // 3)}",
        }
        for _ in range(count)
    ]


def questions(name, turn, count, asked):
    """Pairs of a vector and the conditions on its answers, the same ones for every engine."""
    rng = np.random.default_rng([3, list(FILTERS).index(name), turn])
    return [(vector, FILTERS[name](rng, count)) for vector in around(rng, rng.integers(CENTRES, size=asked))]


class Columns:
    """The rows that pass, by columns of numbers and lists of rows."""

    def __init__(self, metadata):
        self.count, self.rows = len(metadata), {}
        self.numbers = {field: np.array([own[field] for own in metadata]) for field in ("year", "price", "tenant")}
        for row, own in enumerate(metadata):
            for value in {own["lang"], own["name"], *own["tags"]}:
                self.rows.setdefault(value, []).append(row)
        self.rows = {value: np.array(rows) for value, rows in self.rows.items()}

    def passing(self, conditions):
        mask = np.ones(self.count, bool)
        for field, operator, value in conditions:
            if field in self.numbers:
                numbers = self.numbers[field]
                own = numbers < value if operator == "<" else numbers >= value if operator == ">=" else numbers == value
            else:
                own = np.zeros(self.count, bool)
                own[self.rows.get(value, [])] = True
            mask &= own
        return mask


class Ehi:
    steps = [None]

    def __init__(self, vectors, metadata, path, model):
        import ehi

        self.index = ehi.Index.create(path, model=model)
        for at in range(0, len(vectors), 10_000):
            own = slice(at, at + 10_000)
            self.index.add_vectors([str(row) for row in range(len(vectors))[own]], vectors[own], metadata=metadata[own])
        self.index.flush()

    def search(self, query, conditions, step):
        by = {}
        for field, operator, value in conditions:
            if operator == "has":
                by.setdefault(field, {"$all": []})["$all"].append(value)
            else:
                by.setdefault(field, {})[{"<": "$lt", ">=": "$gte", "=": "$eq"}[operator]] = value
        return self.index.search(query, k=K, filter=by or None).ids


class EhiTree(Ehi):
    def __init__(self, vectors, *given):
        super().__init__(vectors, *given)
        self.index.tune(leaves=max(16, len(vectors) // 150), passes=4, always=True)
        self.index.calibrate()


class Lance:
    steps = [None]

    def __init__(self, vectors, metadata, path, model):
        import lancedb
        import pyarrow as pa
        from lancedb.index import Bitmap, BTree, LabelList

        columns = {"id": range(len(vectors)), "vector": pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), DIM)}
        columns |= {field: [own[field] for own in metadata] for field in metadata[0]}
        self.table = lancedb.connect(str(path)).create_table("documents", pa.table(columns))
        kinds = {"year": Bitmap, "lang": Bitmap, "price": BTree, "tenant": BTree, "name": BTree, "tags": LabelList}
        for field, kind in kinds.items():
            self.table.create_index(field, config=kind())

    def search(self, query, conditions, step):
        asked = self.table.search(query).distance_type("cosine").limit(K).select(["id", "_distance"])
        if step:
            # Probes more lists while there are fewer hits than asked for.
            asked = asked.minimum_nprobes(step[0]).maximum_nprobes(0).refine_factor(step[1])
        if conditions:
            parts = [f"{field} {operator} {value!r}" for field, operator, value in conditions if operator != "has"]
            tags = [value for _, operator, value in conditions if operator == "has"]
            asked = asked.where(" AND ".join(parts + [f"array_has_all(tags, {tags})"] * bool(tags)))
        return asked.to_arrow()["id"].to_pylist()


class LanceIndexed(Lance):
    # Probed lists, and hits scored anew for each one asked for.
    steps = [(4, 10), (16, 10), (4, 40), (16, 40), (64, 40), (64, 200)]

    def __init__(self, *given):
        from lancedb.index import IvfPq

        super().__init__(*given)
        self.table.create_index("vector", config=IvfPq(distance_type="cosine"))


class Qdrant:
    # ef, and whether a search looks at neighbours of neighbours that do not pass.
    steps = [(16, False), (32, False), (64, False), (128, False), (256, False), (512, False), (128, True), (512, True)]

    def __init__(self, vectors, metadata, path, model):
        import qdrant_edge as qdrant

        path.mkdir()
        hnsw = qdrant.HnswIndexConfig(m=16, ef_construct=100, full_scan_threshold=10_000, max_indexing_threads=1)
        shape = qdrant.EdgeVectorParams(size=DIM, distance=qdrant.Distance.Cosine)
        config = qdrant.EdgeConfig(vectors=shape, hnsw_config=hnsw, max_search_threads=1)
        self.qdrant, self.shard = qdrant, qdrant.EdgeShard.create(str(path), config)
        for field, value in metadata[0].items():
            kinds = {int: qdrant.PayloadSchemaType.Integer, float: qdrant.PayloadSchemaType.Float}
            kind = kinds.get(type(value), qdrant.PayloadSchemaType.Keyword)
            self.shard.update(qdrant.UpdateOperation.create_field_index(field, kind))
        for at in range(0, len(vectors), 1_000):
            rows = range(len(vectors))[at : at + 1_000]
            points = [qdrant.Point(row, vectors[row].tolist(), metadata[row]) for row in rows]
            self.shard.update(qdrant.UpdateOperation.upsert_points(points))
        self.shard.optimize()
        self.shard.flush()

    def search(self, query, conditions, step):
        qdrant, must = self.qdrant, []
        for field, operator, value in conditions:
            if operator in ("=", "has"):
                must.append(qdrant.FieldCondition(key=field, match=qdrant.MatchValue(value)))
            else:
                bounds = qdrant.RangeFloat(lt=value) if operator == "<" else qdrant.RangeFloat(gte=value)
                must.append(qdrant.FieldCondition(key=field, range=bounds))
        acorn = qdrant.AcornSearchParams(enable=True) if step[1] else None
        asked = qdrant.SearchRequest(
            query=qdrant.Query.Nearest(query.tolist()), limit=K, filter=qdrant.Filter(must=must) if must else None,
            params=qdrant.SearchParams(hnsw_ef=step[0], acorn=acorn),
        )
        return [hit.id for hit in self.shard.search(asked)]


class Chroma:
    steps = [16, 32, 64, 128, 256, 512]

    def __init__(self, vectors, metadata, path, model):
        import chromadb

        client = chromadb.PersistentClient(str(path), chromadb.Settings(anonymized_telemetry=False))
        hnsw = {"hnsw": {"space": "cosine", "num_threads": 1}}
        self.collection = client.create_collection("documents", configuration=hnsw, embedding_function=None)
        for at in range(0, len(vectors), 5_000):
            own = slice(at, at + 5_000)
            ids = [str(row) for row in range(len(vectors))[own]]
            self.collection.add(ids=ids, embeddings=vectors[own], metadatas=metadata[own])

    def set(self, step):
        self.collection.modify(configuration={"hnsw": {"ef_search": step}})

    def search(self, query, conditions, step):
        names = {"<": "$lt", ">=": "$gte", "=": "$eq", "has": "$contains"}
        where = [{field: {names[operator]: value}} for field, operator, value in conditions]
        where = {"$and": where} if len(where) > 1 else where[0] if where else None
        return self.collection.query(query_embeddings=[query], n_results=K, where=where, include=[])["ids"][0]


class Sqlite:
    steps = [None]
    table = "virtual table documents using vec0(id integer primary key, vector float[384] distance_metric=cosine, {})"
    question = "select id from documents where vector match ? and k = {k}{where}"
    fields, indexed, vector_first = ("year", "lang", "price", "tenant", "name"), (), True

    def __init__(self, vectors, metadata, path, model):
        import apsw
        import sqlite_vec

        self.database = apsw.Connection(str(path))
        self.database.enable_load_extension(True)
        self.database.load_extension(sqlite_vec.loadable_path())
        self.database.execute("pragma mmap_size = 2147418112")
        columns = "year integer, lang text, price float, tenant integer, name text"
        self.database.execute("create " + self.table.format(columns))
        self.database.execute("create table tags(tag text, id integer, primary key(tag, id)) without rowid")
        with self.database:
            rows = ((row, vectors[row].tobytes(), *(own[field] for field in self.fields)) for row, own in enumerate(metadata))
            self.database.executemany("insert into documents values(?, ?, ?, ?, ?, ?, ?)", rows)
            rows = ((value, row) for row, own in enumerate(metadata) for value in set(own["tags"]))
            self.database.executemany("insert into tags values(?, ?)", rows)
            for field in self.indexed:
                self.database.execute(f"create index by_{field} on documents({field})")
        self.database.execute("analyze")

    def search(self, query, conditions, step):
        where = "".join(f" and {field} {operator} ?" for field, operator, _ in conditions if operator != "has")
        tags = ["select id from tags where tag = ?" for _, operator, _ in conditions if operator == "has"]
        where += f" and id in ({' intersect '.join(tags)})" if tags else ""
        values, vector = [value for _, _, value in conditions], [query.tobytes()]
        values = vector + values if self.vector_first else values + vector
        return [row for row, in self.database.execute(self.question.format(k=K, where=where), values)]


class SqliteTable(Sqlite):
    table = "table documents(id integer primary key, vector blob, {})"
    question = "select id from documents where true{where} order by vec_distance_cosine(vector, ?) limit {k}"
    indexed, vector_first = Sqlite.fields, False


class Faiss:
    # Probed lists; the last number is all of them.
    steps = [1, 2, 4, 16, 64, 128, 256, 512, 1024, 10_000]

    def __init__(self, vectors, metadata, path, model):
        import faiss

        faiss.omp_set_num_threads(1)
        self.faiss, self.columns, self.last, self.selector = faiss, Columns(metadata), [], None
        self.index = faiss.index_factory(DIM, self.factory(len(vectors)), faiss.METRIC_INNER_PRODUCT)
        self.index.train(vectors)
        self.index.add(vectors)
        faiss.write_index(self.index, str(path))

    def factory(self, count):
        return f"IVF{round(4 * math.sqrt(count))},SQfp16"

    def parameters(self, step):
        return self.faiss.SearchParametersIVF(nprobe=step, sel=self.selector)

    def search(self, query, conditions, step):
        if conditions != self.last:
            self.bits = np.packbits(self.columns.passing(conditions), bitorder="little")
            self.selector = self.faiss.IDSelectorBitmap(self.bits) if conditions else None
            self.last = conditions
        return self.index.search(query[None], K, params=self.parameters(step))[1][0]


class FaissHnsw(Faiss):
    steps = [16, 32, 64, 128, 256, 512, 2048, 8192]

    def factory(self, count):
        return "HNSW32,Flat"

    def parameters(self, step):
        return self.faiss.SearchParametersHNSW(efSearch=step, sel=self.selector)


ENGINES = {
    "ehi": Ehi, "ehi, tree": EhiTree, "LanceDB, flat": Lance, "LanceDB, IVF-PQ": LanceIndexed, "Qdrant Edge": Qdrant, "Chroma": Chroma,
    "sqlite-vec, vec0": Sqlite, "sqlite-vec, table": SqliteTable, "Faiss IVF": Faiss, "Faiss HNSW": FaissHnsw,
}


def serve(arguments):
    """An engine's side: builds, then answers lines with a filter's name, a step, a turn and a number of questions."""
    vectors, metadata = documents(arguments.count)
    kind, started = ENGINES[arguments.serve], time.perf_counter()
    engine = kind(vectors, metadata, arguments.work / arguments.serve, arguments.model)
    print(json.dumps(time.perf_counter() - started), flush=True)
    del vectors, metadata
    for line in sys.stdin:
        name, step, turn, asked = json.loads(line)
        step, new, again, found = kind.steps[step], [], [], []
        if hasattr(engine, "set"):
            engine.set(step)
        for query, conditions in questions(name, turn, arguments.count, asked):
            for times in (new, again):
                started = time.perf_counter()
                hits = engine.search(query, conditions, step)
                times.append(1000 * (time.perf_counter() - started))
            found.append([int(hit) for hit in hits if int(hit) >= 0])
        print(json.dumps({"new": new, "again": again, "found": found}), flush=True)


class Exact:
    """Filtered exact search's hits, by filter and turn."""

    def __init__(self, count):
        vectors, metadata = documents(count)
        self.kept, self.columns = vectors.astype(np.float16).astype(np.float32), Columns(metadata)
        self.known, self.shares = {}, {name: [] for name in FILTERS}

    def recall(self, name, turn, found):
        if (name, turn) not in self.known:
            self.known[name, turn] = []
            for query, conditions in questions(name, turn, len(self.kept), len(found)):
                rows = np.flatnonzero(self.columns.passing(conditions))
                scores = self.kept[rows] @ query if len(rows) < len(self.kept) / 4 else (self.kept @ query)[rows]
                self.known[name, turn].append(set(rows[np.argsort(-scores)[:K]].tolist()))
                self.shares[name].append(len(rows) / len(self.kept))
        exact = self.known[name, turn]
        return 1 - sum(len(best - set(own)) for best, own in zip(exact, found)) / max(1, sum(map(len, exact)))


def occupied(path):
    """Bytes of the blocks of a file or folder, without ehi's model; some engines make large files with holes."""
    files = [path, *path.rglob("*")]
    return sum(512 * file.stat().st_blocks for file in files if file.is_file() and "model" not in file.parts)


def measure(arguments, report):
    """Builds every engine and chooses its steps, then asks all of them by turns."""
    exact, turns = Exact(arguments.count), {}
    ask = lambda engine, *what: turns[engine].ask(json.dumps(what))
    for engine in arguments.engines.split(";"):
        given = ["--serve", engine, "--model", arguments.model, "--count", arguments.count, "--work", arguments.work]
        command = ["taskset", "-c", arguments.cpu, sys.executable, __file__, *given]
        turns[engine] = Turns(command, 1, LANCE_CPU_THREADS="1", OPENBLAS_NUM_THREADS="1")
        report[engine] = {"build_seconds": turns[engine].read(), "filters": {}}
        report[engine]["megabytes"] = occupied(arguments.work / engine) / 1e6
        ask(engine, "none", 0, 999, 5)
        steps = ENGINES[engine].steps
        for name in FILTERS:
            recalls = []
            for step in range(len(steps)) if len(steps) > 1 else []:
                taken = ask(engine, name, step, 100 + step, arguments.asked)
                recalls.append(exact.recall(name, 100 + step, taken["found"]))
                if recalls[-1] >= TARGET:
                    break
            step = recalls.index(max(recalls)) if recalls else 0
            row = {"step": step, "setting": steps[step], "tried": recalls, "new": [], "again": [], "recalls": []}
            report[engine]["filters"][name] = row
        print(f"{engine}: built and tried, load {os.getloadavg()}", flush=True, file=sys.stderr)
    for turn in range(arguments.rounds):
        for engine, own in report.items():
            for name, row in own["filters"].items():
                taken = ask(engine, name, row["step"], turn, arguments.asked)
                row["recalls"].append(exact.recall(name, turn, taken["found"]))
                row["new"].append(taken["new"])
                row["again"].append(taken["again"])
            print(f"{engine}: round {turn}, load {os.getloadavg()}", flush=True, file=sys.stderr)
    for engine, own in report.items():
        turns[engine].end()
        for row in own["filters"].values():
            for what in ("new", "again"):
                times = sorted(sum(row[what], []))
                row |= {f"{what}_median": statistics.median(times), f"{what}_p99": times[int((len(times) - 1) * 0.99)]}
            row["recall"] = statistics.mean(row["recalls"])
    return {name: statistics.mean(shares) for name, shares in exact.shares.items()}


def table(title, report, shares, cell):
    print(f"\n{title}\n\n| Filter | passes | {' | '.join(report)} |\n|---|---|{'---|' * len(report)}")
    for name, share in shares.items():
        cells = " | ".join(cell(own["filters"][name]) for own in report.values())
        print(f"| {name.split(', ')[0] if '%' in name else name} | {100 * share:.3g}% | {cells} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=pathlib.Path, help="an encoder of 384 dimensions, for ehi")
    parser.add_argument("--count", type=int, default=150_000)
    parser.add_argument("--asked", type=int, default=50, help="questions for each filter and round")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--cpu", type=int, default=0, help="the processor of every engine")
    parser.add_argument("--engines", default=";".join(ENGINES), help="names, separated by semicolons")
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "target/peer-filters")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        return serve(arguments)

    shutil.rmtree(arguments.work, ignore_errors=True)
    arguments.work.mkdir(parents=True)
    report = {}
    shares = measure(arguments, report)
    installed = {package.name: package.version for package in importlib.metadata.distributions()}
    versions = {name: installed[name] for name in PACKAGES if name in installed}
    print(f"{arguments.count} documents, {arguments.rounds} rounds of {arguments.asked} questions, {versions}")
    pair = lambda row, what: f"{row['new_' + what]:.2g} / {row['again_' + what]:.2g}"
    low = lambda row: f" ({row['recall']:.3f})" if row["recall"] < TARGET else ""
    table("Median ms, new / repeated, and recall if below 0.95", report, shares, lambda row: pair(row, "median") + low(row))
    table("99th percentile, ms, new / repeated", report, shares, lambda row: pair(row, "p99"))
    table("Recall, and setting", report, shares, lambda row: f"{row['recall']:.3f}, {row['setting']}")
    print("\n| Engine | Build, s | On disk, MB |\n|---|---|---|")
    for engine, own in report.items():
        print(f"| {engine} | {own['build_seconds']:.0f} | {own['megabytes']:.0f} |")
    if arguments.json:
        every = {"count": arguments.count, "versions": versions, "load": os.getloadavg(), "shares": shares, "engines": report}
        arguments.json.write_text(json.dumps(every, indent=1))


if __name__ == "__main__":
    main()
