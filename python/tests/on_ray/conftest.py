"""Sets of shards of real texts, built on Ray with the shipped model."""

import gzip
import json
import logging
import threading

import pytest
from sets import COUNT, MODEL, SCIFACT, write_lines

import ehi
import ehi.ray


@pytest.fixture(scope="session")
def cluster():
    """Two CPUs, as on the smallest machine that the traps were found on."""
    import ray

    ray.init(
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="ERROR",
        object_store_memory=150 << 20,
    )
    yield
    ray.shutdown()


@pytest.fixture(scope="session")
def corpus():
    with gzip.open(SCIFACT / "corpus.jsonl.gz", "rt", encoding="utf-8") as file:
        lines = [json.loads(line) for _, line in zip(range(COUNT), file)]
    return [
        {"id": line["_id"], "title": line["title"], "text": line["text"], "metadata": {"place": place}}
        for place, line in enumerate(lines)
    ]


@pytest.fixture(scope="session")
def questions():
    lines = (SCIFACT / "queries.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["text"] for line in lines[:20]]


@pytest.fixture(scope="session")
def lines(corpus, tmp_path_factory):
    folder = tmp_path_factory.mktemp("lines")
    # Two files, in the order of their names.
    half = len(corpus) // 2
    write_lines(folder / "a.jsonl", corpus[:half])
    write_lines(folder / "b.jsonl", corpus[half:])
    return folder


@pytest.fixture(scope="session")
def single(corpus, tmp_path_factory):
    """One index with all documents."""
    index = ehi.Index.create(tmp_path_factory.mktemp("single") / "index", MODEL, precision="int8", passages=False)
    index.add(corpus)
    index.compact()
    yield index
    index.close()


@pytest.fixture(scope="session")
def published(cluster, lines, tmp_path_factory):
    """The same documents in 8 shards; not to be changed."""
    uri = tmp_path_factory.mktemp("set") / "shards"
    built = ehi.ray.build(lines, MODEL, uri, shards=8, precision="int8", metadata="metadata")
    assert built["version"] == 1 and built["refused"] == []
    return uri


@pytest.fixture(scope="session")
def s3():
    """An object store that speaks S3, in this process, with a bucket `sets`."""
    pytest.importorskip("obstore", reason='obstore is not installed: pip install "ehi[ray]"')
    server = pytest.importorskip("moto.server", reason="moto is not installed: pip install 'moto[server]'")
    boto3 = pytest.importorskip("boto3")
    from werkzeug.serving import make_server

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    application = server.DomainDispatcherApplication(server.create_backend_app)
    # One request at a time: with threads moto itself lets two conditional puts of one object succeed.
    running = make_server("127.0.0.1", 0, application, threaded=False)
    thread = threading.Thread(target=running.serve_forever, daemon=True)
    thread.start()
    endpoint = f"http://127.0.0.1:{running.server_port}"
    keys = {"aws_access_key_id": "a", "aws_secret_access_key": "b"}
    boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1", **keys).create_bucket(Bucket="sets")
    yield {
        "endpoint": endpoint,
        "access_key_id": "a",
        "secret_access_key": "b",
        "region": "us-east-1",
        "client_options": {"allow_http": True},
    }
    running.shutdown()
