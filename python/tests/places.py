"""Where the repository's model and texts are."""

import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = ROOT / "models" / "scifact-minilm"
SCIFACT = ROOT / "examples" / "data" / "scifact"
