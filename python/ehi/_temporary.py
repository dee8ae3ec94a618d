"""An index for one evaluation, and a model that was in memory, each in a folder that goes with it."""

from __future__ import annotations

import os
import pathlib
import shutil
import sys
import tempfile
import weakref
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from . import Index, Model, SearchResult
from ._shared import Path, check

# Default options of a search: retrieval as in a benchmark of encoders.
EXACT: Mapping[str, Any] = {"exact": True, "mode": "dense"}


class Evaluated:
    """A model that is evaluated, with options of `Index.create` and `Index.search`."""

    def __init__(
        self,
        model: Model | Path,
        folder: Path | None,
        create: Mapping[str, Any] | None,
        search: Mapping[str, Any],
    ) -> None:
        self._model = model if isinstance(model, Model) else Model(model)
        self._folder, self._create, self._search = folder, dict(create or {}), dict(search or EXACT)

    def _filled(
        self, ids: Sequence[str], texts: Sequence[str], titles: Sequence[str], **create: Any
    ) -> TemporaryIndex:
        """An index of a corpus. Documents without any text are left out, since no search finds them; any
        other that cannot be stored is a `ValueError`.
        """
        # As benchmarks of encoders do, one embedding for each document.
        store = TemporaryIndex(self._folder, self._model, **{"passages": False, **self._create, **create})
        kept = [place for place in range(len(ids)) if texts[place].strip() or titles[place].strip()]
        check(store.index.add(*([column[place] for place in kept] for column in (ids, texts, titles))))
        return store


class _Folder:
    """A folder below `parent`, or in the system's place for temporary files.

    `_remove` removes it, and so does the end of the object or the program.
    """

    def __init__(self, parent: Path | None = None) -> None:
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="ehi-", dir=parent))
        self._remove = weakref.finalize(self, _remove, os.getpid(), self.folder)


class Saved(_Folder):
    """The files of a `SentenceTransformer`, as it is now."""

    def __init__(self, encoder: Any) -> None:
        library = sys.modules.get("sentence_transformers")
        if library is None or not isinstance(encoder, library.SentenceTransformer):
            raise TypeError(
                "a model must be an ehi.Model, the path of a folder or a SentenceTransformer, "
                f"not {type(encoder).__name__}"
            )
        super().__init__()
        # The file of its tokenizer tells whether it was used, and a model is known by its files.
        encoder.encode("", show_progress_bar=False)
        encoder.save_pretrained(str(self.folder), create_model_card=False)
        # The one setting that its files do not have.
        self.dim: int | None = encoder.truncate_dim


class TemporaryIndex(_Folder):
    """An index, which need not outlive a power failure. `close` removes it."""

    def __init__(self, parent: Path | None, model: Model | Path, **options: Any) -> None:
        super().__init__(parent)
        try:
            self.index = Index.create(self.folder / "index", model, **{"durability": "none", **options})
        except BaseException:
            self._remove()
            raise

    def search(
        self,
        queries: Mapping[str, str],
        k: int,
        options: Mapping[str, Any],
        among: Mapping[str, Sequence[str]] | None = None,
    ) -> dict[str, dict[str, float]]:
        """Scores of the best `k` documents of each query; of those of `among` where that is given."""
        if options.keys().isdisjoint(("mode", "alpha", "rrf")):
            # Quotes in a dataset's question are text.
            options = {"mode": "dense", **options}
        found: Iterable[SearchResult]
        if among is None:
            found = self.index.search(list(queries.values()), k, ids_only=True, **options)
        else:
            found = [
                self.index.search(text, k, ids_only=True, **options, filter={"$ids": list(among[own])})
                for own, text in queries.items()
            ]
        return {
            own: dict(zip(result.ids, result.scores.tolist(), strict=True))
            for own, result in zip(queries, found, strict=True)
        }

    def close(self) -> None:
        """Safe to call twice."""
        self.index.close()
        self._remove()


def _remove(owner: int, folder: pathlib.Path) -> None:
    """Not at the end of a forked child, whose parent still needs the folder."""
    if os.getpid() == owner:
        shutil.rmtree(folder, True)
