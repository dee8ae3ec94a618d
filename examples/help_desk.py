"""A help desk that learns from the clicks on its answers.

    python examples/help_desk.py insert desk articles.jsonl
    python examples/help_desk.py ask desk "how do I reset my password?"
    python examples/help_desk.py click desk "how do I reset my password?" article-17 2
    python examples/help_desk.py night desk                  # by cron, once a day

A click, with the place that the article had, goes into a log, which is kept. `night` makes judgments of all clicks. A
judgment counts in the next search of the same question, and the index trains on them once there are enough; the new
model is used only if it is better on questions set aside.

A click is weaker evidence than a person's judgment, above all on the first article, which many click because it is
first. Several clicks of one article together weigh more than one, and never as much as a person's judgment, which they
do not replace.
"""

import json
import pathlib
import sys
import time

import ehi

MODEL = "all-MiniLM-L6-v2"
WEIGHT, WEIGHT_OF_FIRST, MOST = 0.3, 0.1, 0.9


def log_of(desk):
    return pathlib.Path(f"{desk}.clicks.jsonl")


def insert(desk, articles, model=MODEL):
    with ehi.Index.create(desk, model, exist_ok=True) as index, open(articles, encoding="utf-8") as lines:
        print(index.add(json.loads(line) for line in lines))


def ask(desk, question):
    with ehi.Index.open(desk, read_only=True) as index:
        for place, hit in enumerate(index.search(question, k=5), 1):
            print(f"{place}  {hit.score:.3f}  {hit.id}  {hit.title or hit.snippet(question)['text']}")


def click(desk, question, id, place):
    with ehi.Index.open(desk, read_only=True, lazy_encoder=True) as index:
        if id not in index:
            raise ValueError(f"the desk has no article {id!r}")
    line = {"question": question, "id": id, "place": int(place), "time": int(time.time())}
    with log_of(desk).open("a", encoding="utf-8") as log:
        log.write(json.dumps(line) + "\n")


def read_clicks(log):
    for number, line in enumerate(log.read_text(encoding="utf-8").splitlines() if log.exists() else [], 1):
        try:
            click = json.loads(line)
            yield click["question"], click["id"], click["place"], click["time"]
        except (ValueError, KeyError, TypeError) as error:  # A full disk can cut a line.
            print(f"{log}, line {number} is left out: {error}", file=sys.stderr)


def judgments(clicks):
    """One for each question and article: its weight grows with each click, and its time is that of the last one."""
    found = {}
    for question, id, place, when in clicks:
        judgment = found.setdefault((question, id), {"question": question, "id": id, "weight": 0.0})
        own = WEIGHT_OF_FIRST if place == 1 else WEIGHT
        judgment["weight"] = min(MOST, 1 - (1 - judgment["weight"]) * (1 - own))
        judgment["time"] = when
    return found


def night(desk):
    with ehi.Index.open(desk) as index:
        stored = {(told["question"], told["id"]): told for told in index.judgments()}
        new = []
        for pair, judgment in judgments(read_clicks(log_of(desk))).items():
            known = stored.get(pair)
            # Nothing has been clicked since, or a person has judged.
            if known is None or known["weight"] <= MOST and known["time"] < judgment["time"]:
                new.append(judgment)
        print(index.judge(new))
        index.flush()
        print(index.learn()["sentence"])


if __name__ == "__main__":
    calls = {call.__name__: call for call in (insert, ask, click, night)}
    if len(sys.argv) < 3 or sys.argv[1] not in calls:
        sys.exit(__doc__)
    calls[sys.argv[1]](*sys.argv[2:])
