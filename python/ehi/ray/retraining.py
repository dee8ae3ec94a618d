"""A new model for a published set: trained on questions and their answers, tried on a shadow of the set
beside the one in service, and published if it is better.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import ehi
from ehi import shards as parts

from . import documents as rows
from . import manifest as manifests
from . import models, publishing, shard
from .basics import Json, ManifestError, ShardsError, Uri, digest_of, job_name, whole_number
from .building import leaves_for
from .cache import Cache
from .pool import RayJob
from .reshaping import task_of
from .scratch import work_folder
from .searcher import Searcher
from .storage import Storage, create_json, read_json

# Most documents to train on, in addition to those that answer.
DOCUMENTS = 100_000
# Hits per measured question.
DEPTH = 10
# The decision by which a candidate is published.
BETTER = "changed"


def retrain(
    uri: Uri,
    pairs: Sequence[tuple[str, str]],
    *,
    base: Any = None,
    config: Mapping[str, Any] | None = None,
    documents: int = DOCUMENTS,
    force: bool = False,
    name: str | None = None,
    cache: Uri | None = None,
    **options: Any,
) -> Json:
    """Trains on pairs of a question and the id of its answer, and changes the set over if that is better.

    One task trains, from the set's own model or from the folder `base`, with `config` as in `ehi.train`: on
    the documents that answer and on a sample of `documents` others. A fifth of the questions is set aside.
    Then actors make a shadow of each shard under the new model, next to those in service, and the questions
    set aside are asked of both. Where nDCG@10 rises by the rule of `Index.learn`, or with `force`, the shadow
    is published, with what has been appended and deleted meanwhile.

    Returns a dictionary: `name` of the candidate, by which `adopt` publishes it later; `model`, its hash;
    `verdict` with `decision` and `sentence`; `report` of the training; `without_document`, pairs whose
    document the set does not have; and `version`, the number of the new manifest, or `None`. With too few
    questions nothing is trained. A call that was cut off goes on where it was when it is made again, and one
    that was not returns what it did; another `name` trains once more, and a `name` whose pairs or settings
    were others is an error. `options` are those of `RayJob`; stages of its `progress` are Train, Shards and
    Evaluate.
    """
    pairs = _checked(pairs)
    whole_number("documents", documents, least=0)
    job = RayJob(uri, **options)
    storage, newest = job.storage, manifests.read(job.storage)
    given = models.store(storage, ehi.Model(base)) if base is not None else newest["model"]
    asked = digest_of([None if base is None else given["hash"], pairs, config, documents])
    name = asked[:24] if name is None else job_name(name)
    learned, held_out = divided(pairs)
    with job.running():
        trained = _known(storage, name, "trained")
        if trained is None:
            work = {"scratch": job.scratch, "documents": documents, "config": dict(config or {})}
            trained = job.run("train", _train, storage, newest, given, learned, held_out, work)
            trained |= {"of": newest["model"]["hash"], "asked": asked}
            if trained["model"] is None:
                return _told(name, trained, trained["verdict"], None)
            create_json(storage, _place(name, "trained"), trained)
        if trained["asked"] != asked:
            raise ShardsError(f"the candidate `{name}` was trained with other pairs or settings")
        verdict = _known(storage, name, "verdict")
        if trained["model"]["hash"] == newest["model"]["hash"]:
            # An earlier call finished everything.
            return _told(name, trained, verdict, newest["version"])
        if trained["of"] != newest["model"]["hash"]:
            raise ShardsError(f"the candidate `{name}` was trained for another model of the set")
        if verdict is None:
            shadow = _shadow(job, newest, trained["model"])
            job.tell("evaluate", 0, 1)
            with work_folder("judged", job.scratch) as folder:
                own = Cache(folder if cache is None else cache)
                verdict = _judged(storage, newest, shadow, trained["held_out"], own)
            job.tell("evaluate", 1, 1)
            create_json(storage, _place(name, "verdict"), verdict)
        version = None
        if force or verdict["decision"] == BETTER:
            version = _publish(job, trained)
    return _told(name, trained, verdict, version)


def adopt(uri: Uri, name: str, **options: Any) -> int:
    """Publishes a candidate of `retrain` by its name, whatever the verdict says; the number of the manifest.
    `options` are those of `RayJob`.
    """
    job = RayJob(uri, **options)
    trained = _known(job.storage, job_name(name), "trained")
    if trained is None:
        raise ShardsError(f"there is no candidate `{name}`")
    with job.running():
        return _publish(job, trained)


def divided(pairs: Sequence[tuple[str, str]]) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Pairs to learn from, and those of the questions that `Index.learn` would set aside."""
    held_out = [pair for pair in pairs if parts.is_held_out(pair[0])]
    aside = set(held_out)
    return [pair for pair in pairs if pair not in aside], held_out


def _checked(pairs: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    found = []
    for pair in pairs:
        if isinstance(pair, str) or len(pair) != 2 or not all(isinstance(each, str) for each in pair):
            raise ValueError(f"{pair!r} is not a pair of a question and the id of its answer")
        found.append((pair[0], pair[1]))
    if not found:
        raise ValueError("there are no pairs to learn from")
    return list(dict.fromkeys(found))


def _place(name: str, file: str) -> str:
    return f"{publishing.CANDIDATES}/{name}/{file}.json"


def _known(storage: Storage, name: str, file: str) -> Any:
    return read_json(storage, _place(name, file))


def _told(name: str, trained: Json, verdict: Any, version: int | None) -> Json:
    kept = {own: trained[own] for own in ("report", "without_document")}
    model = trained["model"] and trained["model"]["hash"]
    return {"name": name, "model": model, "verdict": verdict, "version": version, **kept}


def _train(
    storage: Storage,
    manifest: Json,
    base: Json,
    learned: list[tuple[str, str]],
    held_out: list[tuple[str, str]],
    work: Json,
) -> Json:
    """Trains on one machine; the model in the storage, and the questions to measure with."""
    with work_folder("training", work["scratch"]) as folder:
        answers = {id for _, id in [*learned, *held_out]}
        texts = list(_texts(storage, manifest, answers, work["documents"], folder))
        there = {document["id"] for document in texts}
        pairs = [pair for pair in learned if pair[1] in there]
        measured = [pair for pair in held_out if pair[1] in there]
        done: Json = {
            "model": None,
            "report": None,
            "held_out": measured,
            "without_document": len(learned) + len(held_out) - len(pairs) - len(measured),
        }
        # The verdict for this many questions, whatever is found.
        done["verdict"] = parts.compare([(ids, [], []) for ids in _answers(measured).values()])
        if done["verdict"]["decision"] == "too_few" or not pairs:
            return done
        config = _with_leaves(work["config"], len(texts), manifest["documents"])
        start = models.fetch(storage, base, folder)
        model, done["report"] = ehi.train(
            start.path, folder / "trained", documents=texts, pairs=pairs, config=config
        )
        done["model"] = models.store(storage, model)
        return done


def _with_leaves(config: Mapping[str, Any], trained_on: int, documents: int) -> dict[str, Any]:
    """Settings with a tree for all documents, where a sample is trained on and no tree is asked for."""
    tree = config.get("tree") or {}
    shape = ("branching_factor", "height")
    asked = any(own in tree or f"tree.{own}" in config for own in shape)
    if asked or trained_on >= documents:
        return dict(config)
    leaves = max(2, min(leaves_for(documents), trained_on // 2))
    return {**config, "tree": {**tree, "branching_factor": leaves}}


def _answers(pairs: Sequence[Sequence[str]]) -> dict[str, list[str]]:
    """Ids of the answers of each question."""
    answers: dict[str, list[str]] = {}
    for question, id in pairs:
        answers.setdefault(question, []).append(id)
    return answers


def _texts(
    storage: Storage, manifest: Json, needed: set[str], others: int, folder: pathlib.Path
) -> Iterator[dict[str, Any]]:
    """Documents of a set without their metadata: those needed, and a sample of others."""
    share = 2**64 * min(1.0, others / max(manifest["documents"], 1))

    model = models.fetch(storage, manifest["model"], folder)
    for entry in manifest["shards"]:
        with work_folder("shard", folder) as own:
            index, ids = publishing.opened(storage, entry, manifest["tombstones"], own / "index", model.path)
            ids = [id for id in ids if id in needed or rows.hash_of(id, b"ehi-learn") < share]
            for start in range(0, len(ids), 1_000):
                for document in index.get(ids[start : start + 1_000]):
                    if document is not None:
                        yield {name: document[name] for name in ("id", "title", "text")}
            del index


def _shadow(job: RayJob, current: Json, model: Json) -> Json:
    """A manifest like `current` under another model. Its shards also have the documents that were deleted
    since, to which the tombstones still apply: so after a deletion no shard is made again.
    """
    whole = {**current, "tombstones": []}
    made = job.make(model, [task_of(whole, [own], model=model) for own in current["shards"]])
    entries = [{**own, "added": source["added"]} for own, source in zip(made, current["shards"])]
    entries = [entry for entry in entries if entry["rows"]] or entries[:1]
    return publishing.assemble(job.storage, {**current, "model": model}, entries, current["tombstones"])


def _judged(
    storage: Storage, before: Json, after: Json, held_out: Sequence[Sequence[str]], cache: Cache
) -> Json:
    """What the questions set aside say, asked of both as the set's users ask."""
    answers = _answers(held_out)
    found: list[list[list[str]]] = []
    for manifest in (before, after):
        # The shadow's manifest has no number yet.
        with Searcher(storage, {"version": 0, **manifest}, cache) as searcher:
            own = []
            for question in answers:
                # The judgments of a question would answer it, whatever the model.
                answer = searcher.search(question, DEPTH, no_memory=True)
                if answer.partial:
                    raise ShardsError(f"the candidate cannot be measured: {answer.missing}")
                own.append([hit.id for hit in answer.hits])
            found.append(own)
    return parts.compare(list(zip(answers.values(), *found)))


def _publish(job: RayJob, trained: Json) -> int:
    """Publishes the shadow of what is newest."""

    def shadowed(current: Json) -> Json | None:
        if current["model"]["hash"] == trained["model"]["hash"]:
            # An earlier call did it.
            return None
        if current["model"]["hash"] != trained["of"]:
            raise ManifestError("the set was changed over to another model meanwhile; train for that")
        # Makes the shards appended or reshaped since.
        return _shadow(job, current, trained["model"])

    return publishing.change(job.storage, shadowed)
