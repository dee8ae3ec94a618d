#!/usr/bin/env python3
"""Prints the version of a checkout, if everything in it that names the version agrees."""
import os
import pathlib
import re
import sys

DATE = r"\d{4}-\d{2}-\d{2}$" if os.environ.get("GITHUB_REF_TYPE") == "tag" else ""
root = pathlib.Path(sys.argv[1])


def only(file, pattern):
    found = re.search(pattern, (root / file).read_text(encoding="utf-8"), re.M)
    if not found:
        sys.exit(f"{file} has no {pattern}")
    return found.group(1)


found = {
    "Cargo.toml, the workspace": only("Cargo.toml", r'^\[workspace\.package\]\nversion = "(.*)"'),
    "Cargo.toml, what the program depends on": only("Cargo.toml", r'^ehi = \{ version = "(.*?)"'),
    # With a date, once it is to be released.
    "CHANGELOG.md": only("CHANGELOG.md", rf"^## \[(\d.*?)\] - {DATE}"),
}
if len(set(found.values())) > 1:
    sys.exit("\n".join(f"{place} has {version}" for place, version in found.items()))
print(next(iter(found.values())))
