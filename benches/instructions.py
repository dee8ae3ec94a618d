#!/usr/bin/env python3
"""Instructions of a search by vector, counted by callgrind, so that versions can be compared on a noisy machine.

    cargo run --release --example embed -- models/scifact-minilm examples/data/scifact test EMBEDDED
    python3 benches/instructions.py --bundle models/scifact-minilm --embedded EMBEDDED --beams 8,32

All queries are searched for once and then twice, each under callgrind; the difference, over the queries, is a search's. Callgrind
knows AVX2 and no AVX-512, so these are the instructions of the AVX2 kernels. Needs valgrind.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent / "peers"))
from turns import ROOT, bench


def count(command, beam, rounds, out):
    """Instructions by function of a run that searches so many rounds."""
    run = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", *map(str, command)]
    subprocess.run(run, input=f"{beam}\n" * rounds, text=True, check=True, capture_output=True)
    shown = subprocess.run(["callgrind_annotate", "--threshold=100", "--show-percs=no", out], check=True, capture_output=True, text=True).stdout
    functions = {}
    for line in shown.splitlines():
        found = re.match(r"\s*([\d,]+)\s+(?:[^:]*:)(.*?)(?: \[.*\])?$", line)
        if found:
            name = re.sub(r"'\d+$", "", found[2])
            functions[name] = functions.get(name, 0) + int(found[1].replace(",", ""))
    return functions


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bundle", type=pathlib.Path, required=True)
    parser.add_argument("--embedded", type=pathlib.Path, required=True)
    parser.add_argument("--beams", default="8,32")
    parser.add_argument("-k", type=int, default=10)
    parser.add_argument("--functions", type=int, default=12, help="the dearest ones that are shown")
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "target/instructions")
    parser.add_argument("--ehi", help="the vectors bench; built if absent")
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    binary = arguments.ehi or bench("vectors")
    command = [binary, arguments.bundle, arguments.embedded, arguments.k, arguments.work / f"index-{arguments.bundle.name}"]
    # Filled outside of callgrind.
    subprocess.run(list(map(str, command)), input="", text=True, check=True, capture_output=True)
    about = json.loads((arguments.embedded / "dataset.json").read_text())
    queries = (arguments.embedded / "queries.f32").stat().st_size // (4 * about["dim"])
    for beam in arguments.beams.split(","):
        once, twice = (count(command, beam, rounds, arguments.work / f"callgrind.{rounds}") for rounds in (1, 2))
        each = {name: (twice[name] - once.get(name, 0)) / queries for name in twice}
        print(f"beam {beam}: {sum(each.values()):,.0f} instructions a search")
        for name, own in sorted(each.items(), key=lambda entry: -entry[1])[: arguments.functions]:
            print(f"{own:14,.0f}  {name[:110]}")


if __name__ == "__main__":
    main()
