"""What the sets of the tests are made of."""

import json

from places import MODEL, ROOT, SCIFACT

__all__ = ["COUNT", "MODEL", "ROOT", "SCIFACT", "write_lines"]
COUNT = 160


def write_lines(path, documents):
    """JSON lines; metadata as text, since the columns of a table have one type."""
    with open(path, "w", encoding="utf-8") as file:
        for document in documents:
            file.write(json.dumps({**document, "metadata": json.dumps(document.get("metadata"))}) + "\n")
    return path
