"""Counts the requests that a set of shards makes to an object store, by what is done and by kind.

    python python/benches/store_requests.py models/scifact-minilm examples/data/scifact

A server that speaks S3 (moto) runs in this process and counts what reaches it. `pip install 'moto[server]' boto3`
"""

import argparse
import collections
import gzip
import json
import logging
import pathlib
import tempfile
import threading

import boto3
import moto.server
import ray
from werkzeug.serving import make_server

import ehi.ray


class Counting:
    """The server's application, and how many requests of each method and kind it has had."""

    def __init__(self, application):
        self.application, self.counts = application, collections.Counter()

    def __call__(self, environ, start_response):
        method, query = environ["REQUEST_METHOD"], environ.get("QUERY_STRING", "")
        kind = "LIST" if method == "GET" and "list-type" in query else method
        self.counts[kind] += 1
        return self.application(environ, start_response)

    def taken(self):
        counts, self.counts = dict(self.counts), collections.Counter()
        return counts


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("--documents", type=int, default=160)
    parser.add_argument("--shards", type=int, nargs="+", default=[2, 4, 8])
    given = parser.parse_args()
    with gzip.open(given.data / "corpus.jsonl.gz", "rt", encoding="utf-8") as file:
        corpus = [json.loads(line) for _, line in zip(range(given.documents), file)]
    documents = [{"id": own["_id"], "title": own["title"], "text": own["text"]} for own in corpus]
    questions = [json.loads(line)["text"] for line in open(given.data / "queries.jsonl", encoding="utf-8")]

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    counting = Counting(moto.server.DomainDispatcherApplication(moto.server.create_backend_app))
    server = make_server("127.0.0.1", 0, counting, threaded=False)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    endpoint = f"http://127.0.0.1:{server.server_port}"
    keys = {"aws_access_key_id": "a", "aws_secret_access_key": "b"}
    boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1", **keys).create_bucket(Bucket="sets")
    options = {
        "endpoint": endpoint,
        "access_key_id": "a",
        "secret_access_key": "b",
        "region": "us-east-1",
        "client_options": {"allow_http": True},
    }
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=150 << 20)
    with tempfile.TemporaryDirectory(prefix="ehi-requests-") as folder:
        for shards in given.shards:
            uri = f"s3://sets/{shards}"
            counting.taken()
            found = {"shards": shards}
            built = ehi.ray.build(
                ray.data.from_items(documents), given.model, uri, shards=shards, precision="int8",
                publish=False, storage_options=options,
            )  # fmt: skip
            found["build"] = counting.taken()
            ehi.ray.publish(uri, built, storage_options=options)
            found["publish"] = counting.taken()
            with ehi.ray.open(uri, cache=f"{folder}/{shards}", storage_options=options) as searcher:
                found["open"] = counting.taken()
                assert searcher.prepare() == {}
                found["fetch all shards"] = counting.taken()
                for question in questions[:50]:
                    searcher.search(question, mode="dense")
                found["50 searches"] = counting.taken()
                searcher.refresh()
                found["look for a newer state"] = counting.taken()
                ehi.ray.delete(uri, documents[0]["id"], storage_options=options)
                found["delete"] = counting.taken()
                searcher.refresh()
                assert searcher.prepare() == {}
                found["go over to a newer state"] = counting.taken()
            ehi.ray.compact(uri, rows=1, storage_options=options)
            found["compact, one shard changed"] = counting.taken()
            print(json.dumps(found), flush=True)
    ray.shutdown()
    server.shutdown()


if __name__ == "__main__":
    main()
