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

from ._temporary import TemporaryIndex, check

# An index has a model, by whose width embeddings are stored. This one is the smallest of any width: a
# transformer of 8 dimensions and a linear map. No text is ever given to it.
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
        # Codes are a shortcut that may lose a hit; what compares encoders does without.
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
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    special = {word: {"id": word, "ids": [at], "tokens": [word]} for at, word in enumerate(words) if at > 1}
    piece = [
        {"SpecialToken": {"id": "[CLS]", "type_id": 0}},
        {"Sequence": {"id": "A", "type_id": 0}},
        {"SpecialToken": {"id": "[SEP]", "type_id": 0}},
    ]
    tokenizer: dict[str, Any] = {
        "version": "1.0",
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": piece,
            "pair": piece,
            "special_tokens": special,
        },
        "decoder": None,
        "model": {
            "type": "WordLevel",
            "vocab": {word: at for at, word in enumerate(words)},
            "unk_token": "[UNK]",
        },
    }
    config = {
        "architectures": ["BertModel"],
        "model_type": "bert",
        "hidden_act": "gelu",
        "hidden_size": _WIDTH,
        "intermediate_size": _WIDTH,
        "layer_norm_eps": 1e-12,
        "max_position_embeddings": 8,
        "num_attention_heads": 1,
        "num_hidden_layers": 1,
        "type_vocab_size": 2,
        "vocab_size": len(words),
    }
    module = "sentence_transformers.models"
    modules = [
        {"idx": 0, "name": "0", "path": "", "type": f"{module}.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": f"{module}.Pooling"},
        {"idx": 2, "name": "2", "path": "2_Dense", "type": f"{module}.Dense"},
    ]
    dense = {
        "in_features": _WIDTH,
        "out_features": dim,
        "bias": False,
        "activation_function": "torch.nn.modules.linear.Identity",
    }
    for path, data in {
        "config.json": config,
        "tokenizer.json": tokenizer,
        "modules.json": modules,
        "sentence_bert_config.json": {"max_seq_length": 8, "do_lower_case": False},
        "1_Pooling/config.json": {"word_embedding_dimension": _WIDTH, "pooling_mode_mean_tokens": True},
        "2_Dense/config.json": dense,
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(json.dumps(data))

    square, line = (_WIDTH, _WIDTH), (_WIDTH,)
    layer = "encoder.layer.0."
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (len(words), _WIDTH),
        "embeddings.position_embeddings.weight": (8, _WIDTH),
        "embeddings.token_type_embeddings.weight": (2, _WIDTH),
        "embeddings.LayerNorm.weight": line,
        "embeddings.LayerNorm.bias": line,
    }
    for name in (
        "attention.self.query",
        "attention.self.key",
        "attention.self.value",
        "attention.output.dense",
        "intermediate.dense",
        "output.dense",
    ):
        shapes |= {f"{layer}{name}.weight": square, f"{layer}{name}.bias": line}
    for name in ("attention.output.LayerNorm", "output.LayerNorm"):
        shapes |= {f"{layer}{name}.weight": line, f"{layer}{name}.bias": line}
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
