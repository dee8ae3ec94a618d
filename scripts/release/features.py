#!/usr/bin/env python3
"""Prints the features of a manifest that a machine without the repository and without an NVIDIA GPU can build."""
import json
import pathlib
import subprocess
import sys

command = ["cargo", "metadata", "--no-deps", "--format-version", "1", "--manifest-path", sys.argv[1]]
packages = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["packages"]
manifest = pathlib.Path(sys.argv[1]).resolve()
(package,) = [package for package in packages if pathlib.Path(package["manifest_path"]).resolve() == manifest]
print(*sorted(set(package["features"]) - {"cuda", "default", "fuzzing"}))
