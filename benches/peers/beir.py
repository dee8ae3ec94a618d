"""Files of a folder in the BEIR layout."""

import gzip


def lines(folder, name):
    """The lines of a file, plain or compressed; lines end at a line feed alone."""
    plain = folder / name
    how = {"encoding": "utf-8", "newline": "\n"}
    return open(plain, **how) if plain.exists() else gzip.open(f"{plain}.gz", "rt", **how)
