"""A help desk that learns from the clicks on its answers.

    python examples/help_desk.py insert desk articles.jsonl
    python examples/help_desk.py ask desk "how do I reset my password?"
    python examples/help_desk.py click desk "how do I reset my password?" article-17
    python examples/help_desk.py night desk                  # by cron, once a day

A click is weaker evidence than a person's judgment, so it counts less: 0.3, or 0.1 for the first result, which many
click because it is first. `night` stores the clicks as judgments, which count in the next search of the same question,
and trains on them once there are enough. The new model is used only if it is better on questions set aside.
"""

import json
import pathlib
import sys
import time

import ehi

MODEL = "all-MiniLM-L6-v2"
WEIGHT, WEIGHT_OF_FIRST = 0.3, 0.1


def clicks_of(desk):
    return pathlib.Path(desk).with_suffix(".clicks.jsonl")


def insert(desk, articles, model=MODEL):
    with ehi.Index.create(desk, model, exist_ok=True) as index:
        with open(articles, encoding="utf-8") as lines:
            print(index.add(json.loads(line) for line in lines))


def ask(desk, question):
    with ehi.Index.open(desk, read_only=True) as index:
        for place, hit in enumerate(index.search(question, k=5), 1):
            print(f"{place}  {hit.score:.3f}  {hit.id}  {hit.title or hit.snippet(question)['text']}")


def click(desk, question, id):
    """Appends to a log, so that a click never waits for the index."""
    with ehi.Index.open(desk, read_only=True) as index:
        ids = index.search(question, k=5).ids
    weight = WEIGHT_OF_FIRST if ids[:1] == [id] else WEIGHT
    line = {"question": question, "id": id, "weight": weight, "time": int(time.time())}
    with clicks_of(desk).open("a", encoding="utf-8") as log:
        log.write(json.dumps(line) + "\n")


def night(desk):
    log = clicks_of(desk)
    with ehi.Index.open(desk) as index:
        # Clicks of now go into a new file, and an interrupted night reads this one again: a judgment that is stored
        # twice counts once.
        taken = log.with_suffix(".taken")
        if not taken.exists() and log.exists():
            log.rename(taken)
        if taken.exists():
            lines = taken.read_text(encoding="utf-8").splitlines()
            print(index.judge([json.loads(line) for line in lines]))
            index.flush()
            taken.unlink()
        print(index.learn()["sentence"])


if __name__ == "__main__":
    calls = {call.__name__: call for call in (insert, ask, click, night)}
    if len(sys.argv) < 3 or sys.argv[1] not in calls:
        sys.exit(__doc__)
    calls[sys.argv[1]](*sys.argv[2:])
