"""Measures a set of shards on Ray against one index: building, answers, searches, HTTP.

    python python/benches/shards.py DATA MODEL WORK --documents 2000 --shards 8

DATA is a folder with `corpus.jsonl.gz` and `queries.jsonl.gz` in the layout of BEIR. The figures are printed
as JSON, each part when it is done, so that a run that is cut off has said what it has found.

A model without a tree gets one of `--leaves`, from a sample of the documents, which is not timed.

With `--encoded N` the one index encodes the first N documents only, for its rate, and takes the others over
from the shards, embeddings and leaves as they are: that halves the time, and the comparison of answers is
then between arrangements of one set of embeddings.
"""

import argparse
import concurrent.futures
import gzip
import http.client
import json
import pathlib
import shutil
import socket
import statistics
import threading
import time

import numpy as np
import ray
from ray import serve as ray_serve

import ehi
import ehi.ray
import ehi.shards


def lines(path, count):
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for _, line in zip(range(count), file)]


def bits(hits):
    return [(hit.id, np.float32(hit.score).tobytes()) for hit in hits]


def milliseconds(call, inputs):
    times = []
    for one in inputs:
        started = time.perf_counter()
        call(one)
        times.append((time.perf_counter() - started) * 1000)
    return {
        "median": round(statistics.median(times), 2),
        "p99": round(sorted(times)[int(len(times) * 0.99)], 2),
    }


def clients(port, questions, count, seconds, body):
    """Requests a second and their times with so many clients, each with a connection of its own."""
    times, failed, lock, over = [], [], threading.Lock(), time.monotonic() + seconds

    def client(number):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        own, place = [], number
        while time.monotonic() < over:
            question = questions[place % len(questions)]
            place += count
            started = time.perf_counter()
            connection.request("POST", "/search", json.dumps({"query": question, **body}))
            response = connection.getresponse()
            answer = json.loads(response.read())
            own.append((time.perf_counter() - started) * 1000)
            if response.status != 200 or answer["partial"]:
                failed.append(answer)
        with lock:
            times.extend(own)

    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        list(pool.map(client, range(count)))
    times.sort()
    return {
        "clients": count,
        "a_second": round(len(times) / seconds, 1),
        "median_ms": round(times[len(times) // 2], 1),
        "p99_ms": round(times[int(len(times) * 0.99)], 1),
        "failed": len(failed),
    }


def changes(port, uri, questions, ids, body):
    """The set is changed once for each id, under eight clients; how many requests failed, and of how many."""
    outcomes, over = [], threading.Event()

    def client(number):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        place = number
        while not over.is_set():
            question = questions[place % len(questions)]
            place += 8
            connection.request("POST", "/search", json.dumps({"query": question, **body}))
            response = connection.getresponse()
            answer = json.loads(response.read())
            outcomes.append((response.status == 200 and not answer["partial"], answer.get("version")))

    def served():
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("GET", "/health")
        return json.loads(connection.getresponse().read())["version"]

    started = time.perf_counter()
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        clients = [pool.submit(client, number) for number in range(8)]
        try:
            for id in ids:
                version = ehi.ray.delete(uri, id)
                while served() != version:
                    time.sleep(0.1)
        finally:
            over.set()
        for own in clients:
            own.result()
    return {
        "changes": len(ids),
        "seconds": round(time.perf_counter() - started, 1),
        "requests": len(outcomes),
        "failed": sum(not good for good, _ in outcomes),
        "states_seen": len({version for _, version in outcomes}),
    }


def main():
    parser = argparse.ArgumentParser()
    for name in ("data", "model", "work"):
        parser.add_argument(name, type=pathlib.Path)
    parser.add_argument("--documents", type=int, default=2000)
    parser.add_argument("--questions", type=int, default=500)
    parser.add_argument("--shards", type=int, default=8)
    parser.add_argument("--leaves", type=int, default=100)
    parser.add_argument("--precision", default="int8")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--encoded", type=int, help="documents that the one index encodes; all unless given")
    parser.add_argument("--actors", type=int)
    given = parser.parse_args()
    shutil.rmtree(given.work, ignore_errors=True)
    given.work.mkdir(parents=True)
    corpus = [
        {"id": line["_id"], "title": line["title"], "text": line["text"]}
        for line in lines(given.data / "corpus.jsonl.gz", given.documents)
    ]
    questions = [line["text"] for line in lines(given.data / "queries.jsonl.gz", given.questions)]
    with open(given.work / "corpus.jsonl", "w", encoding="utf-8") as file:
        file.writelines(json.dumps(document) + "\n" for document in corpus)
    found = {}

    def tell(**more):
        found.update(more)
        print(json.dumps(more), flush=True)

    tell(documents=len(corpus), questions=len(questions), shards=given.shards)

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=200 << 20)
    options = {"precision": given.precision}
    # The tree first, so that both builds have the same one and only encode and write.
    model = ehi.Model(given.model)
    if not model.has_tree:
        sample = corpus[: 8 * given.leaves]
        with ehi.Index.create(given.work / "sample", model, durability="none", words="none", **options) as index:
            index.add(sample)
            ehi.shards.make_tree(index, given.work / "tree", leaves=given.leaves)
        model = ehi.Model(given.work / "tree")
    started = time.perf_counter()
    built = ehi.ray.build(
        given.work / "corpus.jsonl",
        model,
        given.work / "set",
        shards=given.shards,
        actors=given.actors,
        progress=lambda stage, done, total: print(f"{stage} {done} of {total}", flush=True),
        **options,
    )
    seconds = time.perf_counter() - started
    tell(ray_seconds=round(seconds), ray_documents_a_second=round(built["documents"] / seconds, 1))

    index = ehi.Index.create(given.work / "single", model, durability="none", **options)
    started = time.perf_counter()
    encoded = len(corpus) if given.encoded is None else min(given.encoded, len(corpus))
    for place in range(0, encoded, 256):
        index.add(corpus[place : min(place + 256, encoded)])
    index.flush()
    seconds = time.perf_counter() - started
    tell(single_encoded=encoded, single_documents_a_second=round(encoded / seconds, 1))
    shards = ehi.ray.open(given.work / "set", cache=given.work / "cache")
    started = time.perf_counter()
    assert shards.prepare() == {}
    tell(fetch_seconds=round(time.perf_counter() - started, 2))
    if encoded < len(corpus):
        there = {document["id"] for document in corpus[:encoded]}
        group, started = shards._state[1], time.perf_counter()
        for place in group.places:
            source = group._index(place)
            ehi.shards.copy(source, index, [id for id in ehi.shards.ids(source) if id not in there])
        seconds = time.perf_counter() - started
        tell(copied_documents_a_second=round((len(corpus) - encoded) / seconds))
    started = time.perf_counter()
    index.compact()
    tell(compact_seconds=round(time.perf_counter() - started, 1))

    manifest_bytes = sum(path.stat().st_size for path in (given.work / "set" / "manifests").iterdir())
    tell(
        manifest_bytes=manifest_bytes,
        bytes_a_document=round(sum(entry["bytes"] for entry in built["shards"]) / built["documents"]),
        files_a_shard=sum("same" not in file for file in built["shards"][0]["files"]),
    )
    same = {"dense": 0, "exact": 0, "hybrid": 0}
    beam = 16
    for question in questions:
        dense = {"mode": "dense", "beam": beam, "codes": False}
        same["dense"] += bits(shards.search(question, 100, **dense).hits) == bits(
            index.search(question, 100, encoder="full", **dense)
        )
        exact = {"mode": "dense", "exact": True}
        same["exact"] += bits(shards.search(question, 100, **exact).hits) == bits(
            index.search(question, 100, encoder="full", **exact)
        )
        hybrid = {"mode": "hybrid", "alpha": 0.7, "beam": beam, "codes": False}
        same["hybrid"] += bits(shards.search(question, 100, **hybrid).hits) == bits(
            index.search(question, 100, encoder="full", **hybrid)
        )
    tell(same_top_100=same)
    asked = questions[:200]
    for mode, more in (("dense", {"beam": beam}), ("hybrid", {"beam": beam, "alpha": 0.7})):
        tell(
            **{
                f"ms_{mode}_shards": milliseconds(lambda q: shards.search(q, 10, mode=mode, **more), asked),
                f"ms_{mode}_single": milliseconds(
                    lambda q: index.search(q, 10, mode=mode, encoder="full", **more), asked
                ),
            }
        )
    encoder = ehi.Encoder(model.path, precision=given.precision)
    tell(ms_encode=milliseconds(encoder.encode_query, asked))
    shards.close()
    index.close()

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    ehi.ray.serve(given.work / "set", groups=2, num_cpus=0.1, cache=given.work / "cache", port=port)
    clients(port, questions, 1, 2, {"k": 10, "mode": "dense", "beam": beam})
    body = {"k": 10, "mode": "dense", "beam": beam}
    tell(http=[clients(port, questions, count, given.seconds, body) for count in (1, 8, 64)])
    gone = [document["id"] for document in corpus[:20]]
    tell(changed=changes(port, given.work / "set", questions, gone, body))
    ray_serve.shutdown()
    ray.shutdown()
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
