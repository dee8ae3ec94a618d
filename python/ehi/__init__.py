"""An embedded document store whose search index is learned together with its text encoder.

    import ehi

    with ehi.Index.create("notes", model="models/scifact-minilm", exist_ok=True) as index:
        index.add(["id-1"], ["Vitamin D and the immune system."])
        for hit in index.search("does vitamin d protect against infection?", k=10):
            print(hit.score, hit.id)
"""

from ._ehi import (
    AutoTune,
    CancelledError,
    DataError,
    Documents,
    Encoder,
    Error,
    FilterError,
    Hit,
    Index,
    InputError,
    LockedError,
    Model,
    ModelError,
    PartialError,
    Reranker,
    SearchResult,
    StoreError,
    TrainError,
    __version__,
    evaluate,
    train,
    train_reranker,
)

__all__ = [
    "AutoTune",
    "CancelledError",
    "DataError",
    "Documents",
    "Encoder",
    "Error",
    "FilterError",
    "Hit",
    "Index",
    "InputError",
    "LockedError",
    "Model",
    "ModelError",
    "PartialError",
    "Reranker",
    "SearchResult",
    "StoreError",
    "TrainError",
    "__version__",
    "evaluate",
    "train",
    "train_reranker",
]
