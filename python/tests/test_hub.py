"""A model by its name, from a server that answers like the hub."""

import http.server
import os
import subprocess
import sys
import threading

from places import MODEL

CODE = """
import sys, ehi
model = ehi.Model("small-model")
with ehi.Index.create(sys.argv[1], "small-model") as index:
    index.add(["tea"], ["Green tea has caffeine."])
    assert index.search("tea").ids == ["tea"]
print(model.hash)
"""


class Hub(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        name = self.path.removeprefix("/sentence-transformers/small-model/resolve/main/")
        file = MODEL / name
        if name == self.path or not file.is_file():
            self.send_error(404)
            return
        content = file.read_bytes()
        start, end = 0, len(content) - 1
        if asked := self.headers.get("Range"):
            first, last = asked.removeprefix("bytes=").split("-")
            start, end = int(first), int(last or end)
        self.send_response(206)
        self.send_header("Content-Length", str(end - start + 1))
        self.send_header("Content-Range", f"bytes {start}-{end}/{len(content)}")
        self.send_header("ETag", f'"{name.replace("/", "-")}"')
        self.send_header("X-Repo-Commit", "0123456789abcdef0123456789abcdef01234567")
        self.end_headers()
        self.wfile.write(content[start : end + 1])

    def log_message(self, *args):
        pass


def run(tmp_path, name, endpoint, offline):
    settings = {"HF_HOME": str(tmp_path / "home"), "HF_ENDPOINT": endpoint, "HF_HUB_OFFLINE": offline}
    others = {name: value for name, value in os.environ.items() if name != "HF_HUB_CACHE"}
    return subprocess.run(
        [sys.executable, "-c", CODE, str(tmp_path / name)],
        env=others | settings,
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_a_model_is_fetched_by_its_name_and_then_found_without_a_network(tmp_path):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    nowhere = "http://127.0.0.1:1"
    failed = run(tmp_path, "failed", nowhere, "1")
    assert failed.returncode == 1
    assert "there is no folder small-model, and no model of that name can be fetched" in failed.stderr
    fetched = run(tmp_path, "fetched", f"http://127.0.0.1:{server.server_port}", "0")
    assert fetched.returncode == 0, fetched.stderr
    again = run(tmp_path, "again", nowhere, "1")
    assert (again.stdout, again.returncode) == (fetched.stdout, 0), again.stderr
    server.shutdown()
