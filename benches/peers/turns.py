"""What the comparisons share: our benches as programs, and processes that take turns."""

import json
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]


def bench(name):
    """The program of one of our benches, built."""
    built = subprocess.run(
        ["cargo", "bench", "--locked", "--bench", name, "--no-run", "--message-format", "json"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout
    made = [json.loads(line) for line in built.splitlines()]
    return next(m["executable"] for m in made if m.get("executable") and m["target"]["name"] == name)


def size(path):
    """Bytes of a file or folder without ehi's model, which is the encoder's size whatever the number of documents."""
    files = [path] if path.is_file() else [f for f in path.rglob("*") if f.is_file()]
    return sum(f.stat().st_size for f in files if "model" not in f.parts)


class Turns:
    """A process on the first processors that answers a line with a line of JSON."""

    def __init__(self, command, threads, **environment):
        counts = {name: str(threads) for name in ("RAYON_NUM_THREADS", "OMP_NUM_THREADS", "CANDLE_NUM_THREADS")}
        pinned = ["taskset", "-c", f"0-{threads - 1}", *map(str, command)]
        self.process = subprocess.Popen(
            pinned, env=os.environ | counts | environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def read(self):
        return json.loads(self.process.stdout.readline())

    def ask(self, line=""):
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        return self.read()

    def memory(self, what):
        """Megabytes, by a name of /proc/PID/status."""
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(next(line for line in status.splitlines() if line.startswith(what)).split()[1]) / 1000

    def end(self):
        self.process.stdin.close()
        self.process.wait()
