"""An index of embeddings that another encoder made, in a folder of its own that goes with it."""

from __future__ import annotations

import json
import pathlib
import struct
from collections.abc import Sequence
from os import PathLike
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ._shared import check
from ._temporary import TemporaryIndex

# An index has a model, by whose width embeddings are stored. This one is the smallest of any width: a
# transformer of 8 dimensions with one layer, and a linear map. It never encodes a text.
_WIDTH = 8


class Vectors:
    """Embeddings of width `dim` under ids, stored as float16 and searched exactly."""

    def __init__(
        self,
        dim: int,
        similarity: Literal["cosine", "dot", "manhattan"] = "cosine",
        folder: str | PathLike[str] | None = None,
    ) -> None:
        self._store = TemporaryIndex(folder)
        _write_model(self._store.folder / "model", dim)
        self._store.create(self._store.folder / "model", similarity=similarity, words="none")

    def add(self, ids: Sequence[str], vectors: Any) -> None:
        """Adds a row for each id. `ValueError` for one that cannot be stored."""
        check(self._store.opened().add_vectors(ids, rows(vectors)))

    def search(
        self, vectors: Any, k: int, among: Sequence[str] | None = None
    ) -> list[tuple[list[str], list[float]]]:
        """Ids and scores of the `k` best for each row, best first; `among` are the ids that may be found."""
        chosen = None if among is None else {"$ids": list(among)}
        # Codes are a shortcut that may lose a hit; a comparison of encoders does not use them.
        found = self._store.opened().search(
            rows(vectors), k, exact=True, codes=False, ids_only=True, filter=chosen
        )
        return [(result.ids, result.scores.tolist()) for result in found]

    def close(self) -> None:
        """Removes all of it. Safe to call twice."""
        self._store.close()


def rows(vectors: Any) -> NDArray[np.float32]:
    """A matrix of numpy, of PyTorch or of lists as `[n, dim]` float32."""
    if hasattr(vectors, "detach"):
        vectors = vectors.detach().cpu().float().numpy()
    array = np.asarray(vectors)
    if array.ndim != 2:
        raise ValueError(f"embeddings are [n, dim], not of shape {array.shape}")
    return np.ascontiguousarray(array, dtype=np.float32)


def _write_model(folder: pathlib.Path, dim: int) -> None:
    config = {"model_type": "bert", "num_hidden_layers": 1, "num_attention_heads": 1, "vocab_size": 1}
    config |= {"hidden_size": _WIDTH, "intermediate_size": _WIDTH, "max_position_embeddings": 8}
    modules = [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Dense", "Dense")]
    for path, data in {
        "config.json": config,
        "tokenizer.json": {"model": {"type": "WordLevel", "vocab": {"[UNK]": 0}, "unk_token": "[UNK]"}},
        "modules.json": [
            {"path": path, "type": f"sentence_transformers.models.{kind}"} for path, kind in modules
        ],
        "1_Pooling/config.json": {"word_embedding_dimension": _WIDTH},
        "2_Dense/config.json": {"in_features": _WIDTH, "out_features": dim, "bias": False},
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(json.dumps(data))
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (1, _WIDTH),
        "embeddings.position_embeddings.weight": (8, _WIDTH),
        "embeddings.token_type_embeddings.weight": (2, _WIDTH),
    }
    attention = [f"attention.{name}" for name in ("self.query", "self.key", "self.value", "output.dense")]
    for name in (*attention, "intermediate.dense", "output.dense"):
        shapes[f"encoder.layer.0.{name}.weight"] = (_WIDTH, _WIDTH)
        shapes[f"encoder.layer.0.{name}.bias"] = (_WIDTH,)
    for name in ("embeddings", "encoder.layer.0.attention.output", "encoder.layer.0.output"):
        shapes[f"{name}.LayerNorm.weight"] = shapes[f"{name}.LayerNorm.bias"] = (_WIDTH,)
    _write_tensors(folder / "model.safetensors", shapes)
    _write_tensors(folder / "2_Dense" / "model.safetensors", {"linear.weight": (dim, _WIDTH)})


def _write_tensors(path: pathlib.Path, shapes: dict[str, tuple[int, ...]]) -> None:
    """A safetensors file of random float32 tensors, the same at each call."""
    random = np.random.default_rng(0)
    header: dict[str, Any] = {}
    data = bytearray()
    for name, shape in shapes.items():
        tensor = random.standard_normal(shape).astype("<f4").tobytes()
        header[name] = {
            "dtype": "F32",
            "shape": list(shape),
            "data_offsets": [len(data), len(data) + len(tensor)],
        }
        data += tensor
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
