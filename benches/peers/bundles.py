"""Bundles with trees made here, for comparisons of cost: the encoder and the rest are those of another bundle."""

import hashlib
import json
import shutil


def write(like, out, tensors, branching_factor, height):
    """A copy of the bundle `like` with a tree of these `tensors`, by name; `docs/format.md` has names and shapes."""
    import numpy as np

    shutil.copytree(like, out, ignore=shutil.ignore_patterns("training.json"))
    head, data = {}, b""
    for name, tensor in tensors.items():
        own = np.ascontiguousarray(tensor, dtype="<f4").tobytes()
        head[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [len(data), len(data) + len(own)]}
        data += own
    head = json.dumps(head).encode()
    head += b" " * (-len(head) % 8)
    weights = len(head).to_bytes(8, "little") + head + data
    (out / "indexer.safetensors").write_bytes(weights)
    about = json.loads((out / "ehi.json").read_text())
    about |= {"branching_factor": branching_factor, "height": height}
    about["files"]["indexer.safetensors"] = hashlib.sha256(weights).hexdigest()
    (out / "ehi.json").write_text(json.dumps(about, indent=2))
