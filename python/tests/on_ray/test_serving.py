"""A set behind HTTP and handles, changed while it is asked."""

import concurrent.futures
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import numpy as np
import pytest

ray = pytest.importorskip("ray", reason='Ray is not installed: pip install "ehi[ray]"')
from processes import descendants
from ray import serve as ray_serve  # noqa: E402

import ehi
import ehi.ray

CHANGES = 20


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="module")
def served(published, tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    shutil.copytree(published, folder / "set")
    port = free_port()
    handle = ehi.ray.serve(
        folder / "set", groups=2, num_cpus=0.1, refresh=0.3, cache=folder / "cache", port=port, name="test"
    )
    yield folder / "set", f"http://127.0.0.1:{port}", handle
    ray_serve.shutdown()


def post(url, body, raw=None):
    data = json.dumps(body).encode() if raw is None else raw
    request = urllib.request.Request(f"{url}/search", data=data, headers={"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def served_version(url):
    with urllib.request.urlopen(f"{url}/health", timeout=60) as response:
        return json.load(response)["version"]


def test_answers_are_those_of_the_set(served, single, questions):
    _, url, handle = served
    for question in questions[:5]:
        status, answer = post(url, {"query": question, "k": 20, "mode": "dense", "beam": 4, "codes": False})
        one = single.search(question, 20, beam=4, mode="dense", encoder="full", codes=False)
        assert status == 200 and not answer["partial"]
        assert [(hit["id"], hit["score"]) for hit in answer["hits"]] == [(hit.id, hit.score) for hit in one]
        status, answer = post(url, {"query": question, "k": 5, "alpha": 0.6})
        one = single.search(question, 5, exact=True, mode="hybrid", alpha=0.6, encoder="full")
        assert [hit["id"] for hit in answer["hits"]] == one.ids
        assert handle.search.remote(question, 5, alpha=0.6).result()["hits"] == answer["hits"]


def test_requests_that_cannot_be_answered(served):
    _, url, _ = served
    for body, why in (
        ({"query": "a", "k": 0}, "`k`"),
        ({"query": "  "}, "empty"),
        ({"question": "a"}, "`query`"),
        ({"query": "a", "beem": 3}, "`beem` is not an option"),
        ({"query": "a", "filter": {"a": {"$no": 1}}}, "no"),
        ({"query": "a", "k": 10**30}, ""),
        ({"query": "a", "k": 2.5}, "`k` is"),
        ({"query": "a", "k": None}, "`k` is"),
        ({"query": "a", "beam": 10**30}, "64 bits"),
        ({"query": "a", "exact": "no"}, "`exact`"),
        ({"query": "a", "codes": "x"}, "`codes`"),
        ({"query": "a", "mode": 1}, "`mode`"),
        ({"query": "a", "filter": 5}, ""),
        ({"query": "a", "filter": {"a": 10**40}, "mode": "dense"}, ""),
        ({"query": "a", "bm25": "ab", "mode": "lexical"}, "`bm25`"),
        ({"query": "a", "bm25": [1], "mode": "lexical"}, "`bm25`"),
        ({"query": "a", "bm25": [-1, 5], "mode": "lexical"}, ""),
        ({"query": "a", "alpha": True}, "`alpha`"),
        ({"query": "a", "alpha": 1e17}, ""),
        ({"query": "a", "rrf": -1e17}, ""),
        ({"query": "a", "seconds": 1e17}, "`seconds`"),
        ({"query": "a", "seconds": float("inf")}, "`seconds` is"),
        ({"query": "a", "seconds": float("nan")}, "`seconds` is"),
        ({"query": 5}, "an embedding is [dim]"),
        ({"query": [1, "a"]}, "a question is a text or an embedding"),
        ({"query": [[1.0]]}, "an embedding is [dim]"),
        ({"query": [float("nan")] * 384, "mode": "dense"}, ""),
        ({"query": [1.0], "mode": "dense"}, ""),
    ):
        status, answer = post(url, body)
        assert status == 400 and why in answer["error"] and "Traceback" not in answer["error"], answer
    assert post(url, None, raw=b"{")[0] == 400
    cut_off = b'{"query": "a", "filter": ' + b'{"a":' * 900
    for raw in (b"[" * 100_000, b'{"query": "a", "seconds": 1e999}', cut_off):
        status, answer = post(url, None, raw=raw)
        assert status == 400 and "Traceback" not in answer["error"], answer
    deep = '{"$and": [' * 300 + '{"a": 1}' + "]}" * 300
    status, answer = post(url, None, raw=f'{{"query": "a", "mode": "dense", "filter": {deep}}}'.encode())
    assert status in (200, 400) and "Traceback" not in str(answer)
    # As many as there are.
    status, answer = post(url, {"query": "a", "k": 10**15, "beam": 10**15, "mode": "dense"})
    assert status == 200 and len(answer["hits"]) > 100
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"{url}/none")
    assert refused.value.code == 404
    with urllib.request.urlopen(f"{url}/health") as response:
        assert json.load(response)["status"] == "ok"


def test_deadlines_leave_shards_out(served, questions):
    _, url, _ = served
    status, answer = post(url, {"query": questions[0], "mode": "dense", "seconds": 1e-4})
    # Encoding alone takes longer.
    assert status == 200 and answer["partial"] and answer["missing"]


def test_changes_fail_no_request(served, single, questions):
    """The set is changed many times while it is asked; each answer is of one whole state."""
    uri, url, _ = served
    ids = [document["id"] for document in single.page(limit=CHANGES)]
    over, count = time.monotonic() + 300, len(single)

    def client(number):
        outcomes = []
        while not done and time.monotonic() < over:
            outcomes.append(post(url, {"query": questions[number], "k": 500, "mode": "dense", "exact": True}))
        return outcomes

    done = []
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        clients = [pool.submit(client, number) for number in range(3)]
        for id in ids:
            version = ehi.ray.delete(uri, id)
            while served_version(url) != version and time.monotonic() < over:
                time.sleep(0.1)
        done.append(True)
        outcomes = [outcome for own in clients for outcome in own.result()]
    assert len(outcomes) > CHANGES
    seen = set()
    for status, answer in outcomes:
        assert status == 200 and not answer["partial"], answer
        # Each state has one document less.
        assert len(answer["hits"]) == count - (answer["version"] - 1)
        seen.add(answer["version"])
    assert len(seen) > CHANGES / 2 and served_version(url) == version == CHANGES + 1


def test_judgments_are_taken_up(served, questions):
    uri, url, _ = served
    body, over = {"query": questions[7], "k": 500, "mode": "dense", "exact": True}, time.monotonic() + 60
    last = post(url, body)[1]["hits"][-1]["id"]
    version = ehi.ray.judge(uri, [(questions[7], last)])
    while served_version(url) != version and time.monotonic() < over:
        time.sleep(0.1)
    (hit,) = post(url, {**body, "k": 1})[1]["hits"]
    judged = {"question": questions[7], "similarity": 1.0, "grade": 1, "stale": False, "moved": 1.5}
    assert (hit["id"], hit["judged"]) == (last, judged) and hit["memory"] > 0
    hits = post(url, {**body, "no_memory": True})[1]["hits"]
    assert hits[-1]["id"] == last and all(hit["memory"] is hit["judged"] is None for hit in hits)


def test_a_port_that_is_not_that_of_serve_is_an_error(served, published, tmp_path):
    with pytest.raises(ehi.ray.ShardsError, match="runs already"):
        ehi.ray.serve(published, port=free_port(), name="other", route_prefix="/other", num_cpus=0.1)
    assert "other" not in ray_serve.status().applications


def test_a_route_or_a_port_that_is_taken_is_an_error(served, published):
    port = int(served[1].rsplit(":", 1)[1])
    with pytest.raises(ehi.ray.ShardsError, match="`test` is served at `/`; .*`route_prefix`.* `/two`"):
        ehi.ray.serve(published, port=port, name="two", num_cpus=0.1)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        with pytest.raises(ehi.ray.ShardsError, match="another program has the port"):
            ehi.ray.serve(published, port=other.getsockname()[1], name="two", route_prefix="/two")
    assert list(ray_serve.status().applications) == ["test"]


def test_options_of_a_handle_are_known(served):
    with pytest.raises(TypeError, match="`top_k` is not an option; known are k, beam"):
        served[2].search.remote("a", top_k=2).result()


def test_questions_in_a_batch(published, questions, tmp_path):
    cache = tmp_path / "cache"
    data = ray.data.from_items([{"q": question} for question in questions[:6]])
    rows = ehi.ray.search_batch(published, data, 7, column="q", mode="dense", cache=cache).take_all()
    found = {row["q"]: row for row in rows}
    with ehi.ray.open(published, cache=cache) as shards:
        for question in questions[:6]:
            expected = shards.search(question, 7, mode="dense")
            assert list(found[question]["hits"]) == expected.ids and not found[question]["partial"]
            assert np.array_equal(np.float32(found[question]["scores"]), expected.scores)
    with pytest.raises(ehi.DataError, match="no column `text`"):
        ehi.ray.search_batch(published, data, 3, cache=cache)
    for wrong in (np.ones((2, 384)), "a", ["a"]):
        with pytest.raises(ehi.DataError, match="questions are a `ray.data.Dataset`"):
            ehi.ray.search_batch(published, wrong)
    with pytest.raises(TypeError, match="`top_k` is not an option"):
        ehi.ray.search_batch(published, data, column="q", top_k=3)
    with pytest.raises(ehi.InputError, match="`mode` is `worst`"):
        ehi.ray.search_batch(published, data, column="q", mode="worst")


BLOCKING = """
import sys
import ehi.ray
uri, cache, port = sys.argv[1:]
print(ehi.ray.serve(uri, num_cpus=0.1, cache=cache, port=int(port), block=True) is not None)
"""


def test_a_program_that_blocks_serves_until_it_is_interrupted(published, tmp_path):
    port = free_port()
    command = [sys.executable, "-c", BLOCKING, str(published), str(tmp_path / "cache"), str(port)]
    program = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        over, version = time.monotonic() + 120, None
        while version is None and time.monotonic() < over and program.poll() is None:
            try:
                version = served_version(f"http://127.0.0.1:{port}")
            except OSError:
                time.sleep(0.5)
        assert version == 1
        time.sleep(2)
        program.send_signal(signal.SIGINT)
        output, errors = program.communicate(timeout=60)
    finally:
        program.kill()
    assert (program.returncode, output) == (0, "True\n"), errors[-2000:]


@pytest.mark.parametrize("kills", [2, pytest.param(10, marks=pytest.mark.slow)])
def test_replicas_that_are_killed_are_replaced(served, published, single, questions, tmp_path, kills):
    """Requests that a group has when it dies are asked again; those of an entry that dies may fail."""
    rng, port = random.Random(kills), int(served[1].rsplit(":", 1)[1])
    options = {"groups": 2, "replicas": 2, "entries": 2, "num_cpus": 0.1, "cache": tmp_path / "cache"}
    ehi.ray.serve(published, port=port, name="fault", route_prefix="/fault", **options)
    url, done, over = f"http://127.0.0.1:{port}/fault", [], time.monotonic() + 400
    body = {"mode": "dense", "exact": True, "k": 30}
    expected = {
        question: [hit.id for hit in single.search(question, 30, exact=True, mode="dense", encoder="full")]
        for question in questions[:4]
    }

    def client(number):
        outcomes = []
        while not done and time.monotonic() < over:
            question = questions[number]
            try:
                outcomes.append((time.monotonic(), question, *post(url, {"query": question, **body})))
            except (OSError, ValueError) as error:
                outcomes.append((time.monotonic(), question, 0, str(error)))
        return outcomes

    kinds = {"entry": ["ray::ServeReplica:fault:entry"], "shards": ["ray::ServeReplica:fault:shards"]}
    killed = []
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        clients = [pool.submit(client, number) for number in range(4)]
        try:
            time.sleep(2)
            for number in range(kills):
                kind = ["shards", "entry"][number % 2]
                pids = descendants(kinds[kind])
                assert pids, kind
                os.kill(rng.choice(pids), signal.SIGKILL)
                killed.append((time.monotonic(), kind))
                # Until there are as many as before.
                while len(descendants(kinds[kind])) < (4 if kind == "shards" else 2):
                    assert time.monotonic() < over
                    time.sleep(0.2)
                time.sleep(rng.uniform(1, 4))
        finally:
            done.append(True)
        outcomes = [outcome for own in clients for outcome in own.result()]
    ray_serve.delete("fault")
    good = [own for own in outcomes if own[2] == 200]
    assert len(good) > 20
    for _, question, _, answer in good:
        assert not answer["partial"] and [hit["id"] for hit in answer["hits"]] == expected[question]
    failed = [own for own in outcomes if own[2] != 200]
    entries = [moment for moment, kind in killed if kind == "entry"]
    for moment, _, status, answer in failed:
        assert any(0 <= moment - killed_at < 30 for killed_at in entries), (status, answer, killed)
    # At most those that were under way.
    assert len(failed) <= 4 * len(entries), [own[2:] for own in failed][:5]
