"""MTEB's own run of a dataset through the package, beside `ehi.evaluate`, which is `ehi eval`.

    python benches/mteb_equals_eval.py TASK FOLDER [PRECISION]

TASK is MTEB's name (SciFact, NFCorpus), FOLDER has its data in BEIR's layout. Both measure the index that
MTEB's run made, by exact search.
"""

import pathlib
import sys
import tempfile

import mteb

import ehi
from ehi.mteb import EhiSearch

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python" / "tests"))
import datasets_  # noqa: E402


class Kept(EhiSearch):
    """Gives its index to a second measurement."""

    def evaluate(self, folder):
        return ehi.evaluate(self._store.opened(), folder, beams=[self._store.opened().stats()["leaves"]])


def main(name, folder, precision="f32"):
    data = datasets_.read(folder)
    with tempfile.TemporaryDirectory() as place:
        datasets_.write(pathlib.Path(place) / "data", *data)
        model = Kept(ROOT / "models" / "scifact-minilm", create={"precision": precision})
        result = mteb.evaluate(model, datasets_.task(name, *data), cache=None, show_progress_bar=False)
        report = model.evaluate(pathlib.Path(place) / "data")
        model.close()
    (scores,) = result.task_results[0].scores["test"]
    print(f"{name}, {len(data[0])} documents, {len(data[1])} questions, precision {precision}")
    for ours, theirs in (
        ("ndcg@10", "ndcg_at_10"),
        ("recall@10", "recall_at_10"),
        ("recall@100", "recall_at_100"),
    ):
        print(f"  {ours:10} MTEB {scores[theirs]:.5f}, ehi eval {report['exact'][ours]:.5f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
