"""An embedded document store whose search index is learned together with its text encoder.

>>> import ehi
>>> with ehi.Index.create("notes", model="models/scifact-minilm", exist_ok=True) as index:
...     summary = index.add(["tea", "tyre"], ["Green tea has caffeine.", "How to mend a flat tyre."])
...     [hit.id for hit in index.search("is there caffeine in tea?", k=1)]
['tea']

`Index` has documents and searches, `Model` and `Encoder` what texts are encoded by, `train` makes a model of
your own. `ehi.aio` has the same calls as coroutines. Other people's tools are in `ehi.mteb`, `ehi.beir`,
`ehi.langchain`, `ehi.haystack` and `ehi.llama_index`, each with an extra of its name.
"""

# The types are in `__init__.pyi`.
# pyright: reportAttributeAccessIssue=false, reportMissingImports=false, reportUnsupportedDunderAll=false

import importlib as _importlib
from collections.abc import Sequence as _Sequence

from . import _ehi
from ._ehi import *  # noqa: F403

_Sequence.register(_ehi.SearchResult)

__all__ = [name for name in _ehi.__all__ if name != "_shards"]
_MODULES = ("aio", "beir", "haystack", "langchain", "llama_index", "mteb", "ray", "reports", "shards")


def __getattr__(name: str) -> object:
    """A module of the package, imported when it is first used."""
    if name in _MODULES:
        return _importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
