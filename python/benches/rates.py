"""What the package costs over the library: a search, `add`, and two threads against one.

    python/benches/rates                 # builds both sides and runs this

Python and Rust take turns in one run, A B A B, over the same index and the same questions; figures are
medians over the turns. The index has 20,000 random embeddings with texts of 200 characters, a search 8 leaves
and 10 hits. Seed 1.
"""

import gzip
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np

import ehi

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = ROOT / "models" / "scifact-minilm"
TURNS, SEARCHES, DOCUMENTS, QUESTIONS = 15, 400, 48, 50


def prepare(folder):
    random = np.random.default_rng(1)
    with gzip.open(ROOT / "examples" / "data" / "scifact" / "corpus.jsonl.gz", "rt") as file:
        abstracts = [" ".join(json.loads(line)["text"].split()) for line, _ in zip(file, range(DOCUMENTS))]
    questions = [" ".join(each.split()[:8]) for each in abstracts][:QUESTIONS]
    rows = random.standard_normal((200, 384)).astype(np.float32)
    rows.tofile(folder / "queries.f32")
    (folder / "queries.txt").write_text("\n".join(questions) + "\n")
    (folder / "documents.txt").write_text("\n".join(abstracts) + "\n")
    with ehi.Index.create(folder / "index", MODEL) as index:
        ids = [str(place) for place in range(20_000)]
        index.add_vectors(
            ids, random.standard_normal((20_000, 384)).astype(np.float32), ["word " * 40] * 20_000
        )
        index.compact()
    return rows, questions, abstracts


def median(count, search):
    times = []
    for at in range(count):
        begun = time.perf_counter_ns()
        found = search(at)
        times.append(time.perf_counter_ns() - begun)
        assert len(found)
    return statistics.median(times)


def add(path, abstracts):
    with ehi.Index.create(path, MODEL) as own:
        ids = [str(place) for place in range(len(abstracts))]
        clock, processors = time.perf_counter(), time.process_time()
        own.add(ids, abstracts)
        return time.perf_counter() - clock, time.process_time() - processors


def rate(index, rows, threads, seconds=0.5):
    """Searches a second by so many threads."""
    counts = [0] * threads
    until = time.perf_counter() + seconds

    def work(own):
        while time.perf_counter() < until:
            index.search(rows[counts[own] % len(rows)], 10, beam=8)
            counts[own] += 1

    begun = time.perf_counter()
    workers = [threading.Thread(target=work, args=(own,)) for own in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return sum(counts) / (time.perf_counter() - begun)


def say(name, pairs, unit, scale=1.0):
    """Medians of both sides, and of the difference within a turn."""
    ours, rust = (statistics.median(side) * scale for side in zip(*pairs))
    between = statistics.median((one - other) * scale for one, other in pairs)
    ratio = statistics.median(one / other for one, other in pairs)
    print(
        f"{name:28} Python {ours:9.2f} {unit}, Rust {rust:9.2f} {unit}, "
        f"difference {between:+.2f}, ratio {ratio:.3f}"
    )


def main(program):
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place)
        rows, questions, abstracts = prepare(folder)
        index = ehi.Index.open_read_only(folder / "index")
        rust = subprocess.Popen(
            [program, folder / "index", MODEL, folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )

        def ask(what, count):
            rust.stdin.write(f"{what} {count}\n")
            return [float(value) for value in rust.stdout.readline().split()]

        ours = {
            "vectors": lambda at: index.search(rows[at % len(rows)], 10, beam=8),
            "texts": lambda at: index.search(questions[at % len(questions)], 10, beam=8),
        }
        for what, count in (("vectors", SEARCHES), ("texts", SEARCHES // 4)):
            median(count, ours[what]), ask(what, count)
            pairs = [(median(count, ours[what]), ask(what, count)[0]) for _ in range(TURNS)]
            say(f"a search of {what}", pairs, "us", 1e-3)
        turns = range(max(TURNS // 3, 3))
        pairs = [(add(folder / f"python-{turn}", abstracts), ask("add", DOCUMENTS)) for turn in turns]
        say("add, by the clock", [(one[0], other[0]) for one, other in pairs], "s ")
        say("add, by the processors", [(one[1], other[1]) for one, other in pairs], "s ")
        sides = {
            "Python": lambda threads: rate(index, rows, threads),
            "Rust": lambda threads: ask("rate", threads)[0],
        }
        rates = {name: [] for name in sides}
        for _ in range(TURNS):
            for name, side in sides.items():
                rates[name].append((side(1), side(2)))
        for name, pairs in rates.items():
            one, two = (statistics.median(side) for side in zip(*pairs))
            ratio = statistics.median(two / one for one, two in pairs)
            print(f"searches a second, {name:9} 1 thread {one:.0f}, 2 threads {two:.0f}, ratio {ratio:.2f}")
        rust.stdin.close()
        rust.wait()


if __name__ == "__main__":
    main(sys.argv[1])
