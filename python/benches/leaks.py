"""Opens and closes an index ten thousand times, and says what that leaves of memory and open files.

python benches/leaks.py [TIMES]
"""

import os
import pathlib
import sys
import tempfile

import numpy as np

import ehi

MODEL = pathlib.Path(__file__).resolve().parents[2] / "models" / "scifact-minilm"


def now():
    with open("/proc/self/statm") as file:
        resident = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return resident, len(os.listdir("/proc/self/fd"))


def main(times):
    row = np.eye(1, 384, dtype=np.float32)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "index"
        with ehi.Index.create(path, MODEL, precision="int8") as index:
            index.add_vectors(["a"], row)
        for done in range(times + 1):
            if done in (times // 10, times // 2, times):
                resident, files = now()
                print(f"{done:6} opens: {resident / 2**20:7.1f} MiB resident, {files} open files", flush=True)
            with ehi.Index.open(path, lazy_encoder=True) as index:
                assert index.search(row[0], k=1).ids == ["a"]


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
