"""Where the repository's model and texts are."""

import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = ROOT / "models" / "scifact-minilm"
# For tests to which the vectors do not matter: a table of 57 words, opened in a hundredth of the time.
SMALL = ROOT / "tests" / "fixtures" / "static" / "model2vec-0.10" / "plain"
SCIFACT = ROOT / "examples" / "data" / "scifact"
