#!/usr/bin/env python3
"""Prints the median time of `import ehi` in new processes, and fails if it is over the limit."""
import statistics
import subprocess
import sys

LIMIT = 0.2
CODE = "import time; started = time.perf_counter(); import ehi; print(time.perf_counter() - started)"

times = [float(subprocess.run([sys.executable, "-I", "-c", CODE], check=True, capture_output=True).stdout) for _ in range(9)]
median = statistics.median(times)
print(f"{median * 1000:.0f} ms, of 9 the median")
sys.exit(median > LIMIT)
