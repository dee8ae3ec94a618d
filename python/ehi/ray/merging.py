"""The entry of a search: encodes and routes the question once, asks every group of shards, merges."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, overload

import numpy as np
import numpy.typing as npt

import ehi
from ehi import shards as parts

from .manifest import unpack_counts
from .names import Json
from .options import known

# Candidates of a hybrid search by either score, at least; as a single index has them.
CANDIDATES = 48
# Documents of which a search looks at every one unless asked otherwise; as a single index does.
MOST_EXACT = 10_000
# Times as many candidates, or leaves, are looked at where too few may be hits.
WIDER = 4
MODES = ("dense", "lexical", "hybrid")


@dataclasses.dataclass(frozen=True)
class Hit:
    """A document found; its score is higher where it fits better."""

    id: str
    score: float
    title: str
    text: str
    metadata: Any
    dense: float | None = None
    lexical: float | None = None
    shard: str = ""


@dataclasses.dataclass(frozen=True)
class Answer:
    """Hits, best first, equal scores by id.

    `partial` says that shards had no answer; `missing` has their keys, each with the reason. `version` is the
    number of the manifest, `leaves` how many leaves of the tree were visited, 0 where every document was
    scored. It is a sequence of its hits.
    """

    hits: list[Hit]
    partial: bool
    missing: dict[str, str]
    version: int
    leaves: int
    milliseconds: float

    @property
    def ids(self) -> list[str]:
        """Ids of the hits."""
        return [hit.id for hit in self.hits]

    @property
    def scores(self) -> npt.NDArray[np.float32]:
        """Scores of the hits."""
        return np.array([hit.score for hit in self.hits], dtype=np.float32)

    def __len__(self) -> int:
        return len(self.hits)

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.hits)

    @overload
    def __getitem__(self, at: int, /) -> Hit: ...
    @overload
    def __getitem__(self, at: slice, /) -> list[Hit]: ...
    def __getitem__(self, at: int | slice, /) -> Hit | list[Hit]:
        return self.hits[at]

    def as_dict(self) -> Json:
        return dataclasses.asdict(self)


@dataclasses.dataclass(frozen=True)
class Plan:
    """A search, checked."""

    k: int
    mode: str
    beam: int | None
    alpha: float | None
    rrf: float | None
    filter: Any
    bm25: tuple[float, float] | None
    codes: bool | None
    seconds: float | None


def plan_of(
    manifest: Json,
    k: int = 10,
    *,
    beam: int | None = None,
    exact: bool = False,
    mode: str | None = None,
    alpha: float | None = None,
    rrf: float | None = None,
    filter: Any = None,
    bm25: tuple[float, float] | None = None,
    codes: bool | None = None,
    seconds: float | None = None,
    **unknown: Any,
) -> Plan:
    """A search of a set, its options checked. Without a mode it is hybrid where the set has an `alpha`, else
    dense.
    """
    known(unknown)
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise ValueError(f"`k` is {k!r}; it is at least 1")
    if mode is None:
        joined = (alpha, rrf, manifest["alpha"])
        mode = "dense" if all(each is None for each in joined) else "hybrid"
    if mode not in MODES:
        raise ValueError(f"`mode` is `{mode}`; known are {', '.join(MODES)}")
    if mode != "dense" and manifest["statistics"] is None:
        raise ValueError(f"the set was built without words; it cannot be searched in the mode {mode}")
    if mode != "hybrid" and (alpha is not None or rrf is not None):
        raise ValueError("`alpha` and `rrf` are options of the mode hybrid")
    if mode == "dense" and bm25 is not None:
        raise ValueError("`bm25` is an option of the modes lexical and hybrid")
    if mode == "lexical" and (beam is not None or exact or codes is not None):
        raise ValueError("`beam`, `exact` and `codes` are about embeddings, which the mode lexical has not")
    if exact and beam is not None:
        raise ValueError("`exact` and `beam` exclude each other")
    if beam is not None and (isinstance(beam, bool) or not isinstance(beam, int) or beam < 1):
        raise ValueError(f"`beam` is {beam!r}; it is at least 1")
    if seconds is not None and not 0 < seconds <= threading.TIMEOUT_MAX:
        raise ValueError(f"`seconds` is {seconds!r}; it is above 0, and no infinity")
    if mode == "hybrid" and alpha is None and rrf is None:
        alpha = manifest["alpha"]
    if exact or mode == "lexical" or not manifest["model"]["has_tree"]:
        beam = None
    elif beam is None and manifest["documents"] > MOST_EXACT:
        beam = manifest["beam"]
    # There are no more hits than documents.
    k = min(k, max(manifest["documents"], 1))
    return Plan(k, mode, beam, alpha, rrf, filter, bm25, codes, seconds)


def _embedding(query: Any) -> Any:
    several = "one question at a time; several: `ehi.ray.search_batch`"
    try:
        vector = np.ascontiguousarray(query, dtype=np.float32)
    except (TypeError, ValueError):
        raise ehi.InputError(
            f"a question is a text or an embedding, not a {type(query).__name__}; {several}"
        ) from None
    if np.ndim(query) != 1:
        raise ehi.InputError(f"an embedding is [dim], not of shape {np.shape(query)}; {several}")
    return vector


class Entry:
    """Encodes, routes and merges for one manifest. `ask` and `fetch` reach the groups of shards."""

    def __init__(self, manifest: Json, model: ehi.Model, encoder: ehi.Encoder | None = None) -> None:
        self.manifest = manifest
        self.model = model
        self.encoder = encoder or ehi.Encoder(model.path, precision=manifest["precision"])
        self._leaves = max([1, *(len(unpack_counts(entry["leaf_rows"])) for entry in manifest["shards"][:1])])
        # The encoder runs one question as fast as several at a time.
        self._encoding = threading.Lock()

    def plan(self, k: int = 10, **options: Any) -> Plan:
        """Checks options."""
        return plan_of(self.manifest, k, **options)

    def requests(self, query: Any, plan: Plan) -> Json:
        """Of a text or an embedding what the groups are asked, once it is encoded and routed."""
        text, vector = None, None
        if isinstance(query, str):
            text = query
            if not text.strip():
                raise ehi.InputError("the question is empty")
        else:
            vector = _embedding(query)
            if plan.mode != "dense":
                raise ehi.InputError(
                    "a query that is an embedding has no words; ask in text, or in the mode dense"
                )
        if vector is None and plan.mode != "lexical":
            assert text is not None
            plain = parts.plain_question(text) if plan.mode == "hybrid" else text
            if not plain.strip():
                raise ehi.InputError(
                    "the question only excludes; add a word to search for"
                )
            with self._encoding:
                vector = self.encoder.encode_query(plain)
        leaves = None if plan.beam is None else self.route(vector, plan.beam)
        return {
            "k": plan.k,
            "mode": plan.mode,
            "text": text,
            "vector": vector,
            "leaves": leaves,
            "depth": max(CANDIDATES, plan.k),
            "filter": plan.filter,
            "bm25": plan.bm25,
            "codes": plan.codes,
            "seconds": plan.seconds,
        }

    def route(self, vector: Any, beam: int) -> list[int]:
        # There are no more leaves than counts.
        return parts.route(self.model, vector, min(beam, self._leaves))[0].tolist()

    def wider(self, request: Json, plan: Plan, found: int, offers: Sequence[Any]) -> Json | None:
        """The request to ask next where there were too few hits and more may be found; `None` else."""
        if found >= plan.k:
            return None
        wider = dict(request)
        if plan.mode == "hybrid":
            signs = any(offer[1] for _, offer in offers)
            documents = sum(offer[2] for _, offer in offers)
            if signs and request["depth"] < documents:
                wider["depth"] = request["depth"] * WIDER
        # As a single index, a search with a filter goes on until there are k hits.
        if plan.filter is not None and request["leaves"] is not None:
            leaves = self.route(request["vector"], len(request["leaves"]) * WIDER)
            if len(leaves) > len(request["leaves"]):
                wider["leaves"] = leaves
        same = (wider["depth"], wider["leaves"]) == (request["depth"], request["leaves"])
        return None if same else wider

    def merge(self, request: Json, plan: Plan, offers: Sequence[Any]) -> list[Json]:
        """The best of what the shards offer: dictionaries with `place` of the shard, `id` and scores."""
        if plan.mode == "hybrid":
            place_of, everything = {}, []
            for place, (candidates, _, _) in offers:
                for candidate in candidates:
                    place_of[candidate[0]] = place
                    everything.append(candidate)
            joined = {} if plan.rrf is None and plan.alpha is None else {"alpha": plan.alpha, "rrf": plan.rrf}
            fused = parts.fuse(everything, request["depth"], plan.k, **joined)
            return [
                {
                    "place": place_of[own["id"]],
                    "id": own["id"],
                    "score": own["score"],
                    "dense": own["dense"],
                    "lexical": own["lexical"],
                }
                for own in fused
            ]
        best = [(-score, id, place) for place, found in offers for id, score in found]
        best.sort(key=lambda own: (own[0], own[1].encode("utf-8", "surrogatepass")))
        scored = "dense" if plan.mode == "dense" else "lexical"
        return [
            {"place": place, "id": id, "score": -negative, scored: -negative}
            for negative, id, place in best[: plan.k]
        ]

    def answer(
        self,
        merged: Sequence[Json],
        documents: Mapping[tuple[int, str], Json | None],
        missing: dict[str, str],
        request: Json,
        started: float,
    ) -> Answer:
        """The hits with their documents; those that could not be read are left out."""
        shards = self.manifest["shards"]
        hits = []
        for own in merged:
            document = documents.get((own["place"], own["id"]))
            if document is None:
                continue
            hits.append(
                Hit(
                    id=own["id"],
                    score=own["score"],
                    title=document["title"],
                    text=document["text"],
                    metadata=document["metadata"],
                    dense=own.get("dense"),
                    lexical=own.get("lexical"),
                    shard=shards[own["place"]]["key"],
                )
            )
        return Answer(
            hits=hits,
            partial=bool(missing),
            missing=missing,
            version=self.manifest["version"],
            leaves=len(request["leaves"] or ()),
            milliseconds=round((time.monotonic() - started) * 1000, 3),
        )
