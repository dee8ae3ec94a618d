"""The entry of a search: encodes and routes the question once, asks every group of shards, merges."""

from __future__ import annotations

import collections
import dataclasses
import re
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any, overload

import numpy as np
import numpy.typing as npt

import ehi
from ehi import shards as parts
from ehi.reports import Facet

from .basics import Json, is_number, whole_number

# Fewest candidates by either score of a search that is hybrid or has judgments, as in a single index.
CANDIDATES = 48
# Most documents that a search scans exhaustively by default, as in a single index.
MOST_EXACT = 10_000
# Factor on candidates or leaves if too few may be hits.
WIDER = 4


@dataclasses.dataclass(frozen=True)
class Hit:
    """A document found; its score is higher where it fits better. `memory` is what judgments added to it, and
    `judged` the judgment that counts most, as in a hit of an index.
    """

    id: str
    score: float
    title: str
    text: str
    metadata: Any
    dense: float | None = None
    lexical: float | None = None
    memory: float | None = None
    judged: Json | None = None
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


# Fields of a hit that are not of its document.
_OF_HIT = ("id", "score", "dense", "lexical", "memory", "judged")
# Options of a search, in addition to `k`.
OPTIONS = ("beam", "exact", "mode", "alpha", "rrf", "filter", "bm25", "codes", "no_memory", "seconds")


def plan_of(manifest: Json, k: int = 10, **options: Any) -> Json:
    """The options of a search of a set, checked; `None` is as not given. Without a mode it is hybrid where
    the set has an `alpha`, else dense.
    """
    if unknown := options.keys() - OPTIONS:
        raise TypeError(f"`{min(unknown)}` is not an option; known are k, {', '.join(OPTIONS)}")
    plan: Json = {**dict.fromkeys(OPTIONS), **options, "k": k}
    seconds = plan["seconds"]
    if seconds is not None and not (is_number(seconds) and 0 < seconds <= threading.TIMEOUT_MAX):
        raise ValueError(f"`seconds` is {seconds!r:.50}; it is a number of seconds above 0")
    for name in ("k", "beam"):
        if plan[name] is not None or name == "k":
            whole_number(name, plan[name])
    parts.check(**{name: value for name, value in plan.items() if name != "seconds"})
    joined = plan["alpha"] is not None or plan["rrf"] is not None
    if plan["mode"] in (None, "best"):
        plan["mode"] = "hybrid" if joined or manifest["statistics"] is not None else "dense"
    mode = plan["mode"]
    if mode != "dense" and manifest["statistics"] is None:
        raise ValueError(f"the set was built without words; it cannot be searched in the mode {mode}")
    if mode == "dense" and plan["bm25"] is not None:
        raise ValueError("`bm25` is an option of the modes lexical and hybrid")
    if mode == "lexical" and (plan["exact"] or plan["beam"] is not None or plan["codes"] is not None):
        raise ValueError("`beam`, `exact` and `codes` are about embeddings, which the mode lexical has not")
    if mode == "hybrid" and not joined:
        plan["alpha"] = manifest["alpha"]
    if plan["exact"] or mode == "lexical" or not manifest["model"]["has_tree"]:
        plan["beam"] = None
    elif plan["beam"] is None and manifest["documents"] > MOST_EXACT:
        plan["beam"] = manifest["beam"]
    if plan["bm25"] is not None:
        plan["bm25"] = tuple(plan["bm25"])
    # There are no more hits than documents.
    plan["k"] = min(k, max(manifest["documents"], 1))
    return plan


# A time as `Index.facets` gives one whose zone is known.
_UTC = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?)Z")


def _order(value: Any) -> tuple[int, Any]:
    """What values of a field are told apart and ordered by, as in a single index: 1 is not true, and a time
    comes before the later ones.
    """
    if value is None:
        return 0, 0
    if isinstance(value, str):
        time = _UTC.fullmatch(value)
        return 3, f"{time[1]}\0Z" if time else value
    return 1 if isinstance(value, bool) else 2, value


def merged_facets(
    fields: Sequence[str], found: Sequence[dict[str, Facet]], most: int
) -> dict[str, Facet]:
    """The facets of several indexes together, of which each gives all values."""
    merged: dict[str, Facet] = {}
    for field in fields:
        own = [part[field] for part in found]
        values: dict[tuple[int, Any], Any] = {}
        counts: collections.Counter[tuple[int, Any]] = collections.Counter()
        for each in (each for facet in own for each in facet["values"]):
            values[_order(each["value"])] = each["value"]
            counts[_order(each["value"])] += each["documents"]
        ends = [end for facet in own for end in facet["range"] or ()]
        best = sorted(counts, key=lambda key: (-counts[key], key))[:most]
        merged[field] = {
            "values": [{"value": values[key], "documents": counts[key]} for key in best],
            "distinct": len(counts),
            "missing": sum(facet["missing"] for facet in own),
            "range": [min(ends), max(ends)] if ends else None,
        }
    return merged


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
    """Encodes, routes and merges for one manifest."""

    def __init__(
        self,
        manifest: Json,
        model: ehi.Model,
        judgments: parts.Judgments | None,
        before: Entry | None = None,
    ) -> None:
        """With the encoder of the entry `before`, if the set has the same model still."""
        self.manifest = manifest
        self.model = model
        self.judgments = judgments
        if before and all(before.manifest[name] == manifest[name] for name in ("model", "precision")):
            self.encoder: ehi.Encoder = before.encoder
        else:
            self.encoder = ehi.Encoder(model.path, precision=manifest["precision"])
        # The encoder runs one question as fast as several at a time.
        self._encoding = threading.Lock()

    def request(self, query: Any, k: int = 10, **options: Any) -> Json:
        """What shards are asked for a text or an embedding, which is encoded and routed."""
        is_joined = any(options.get(name) is not None for name in ("alpha", "rrf"))
        if not isinstance(query, str) and options.get("mode") in (None, "best") and not is_joined:
            # As in a single index: an embedding has no words.
            options["mode"] = "dense"
        plan = plan_of(self.manifest, k, **options)
        text, vector = None, None
        if isinstance(query, str):
            text = query
            if not text.strip():
                raise ehi.InputError("the question is empty")
        else:
            vector = _embedding(query)
            if plan["mode"] != "dense":
                raise ehi.InputError(
                    "a query that is an embedding has no words; ask in text, or in the mode dense"
                )
        if text is not None and plan["mode"] != "lexical":
            plain = parts.plain_question(text) if plan["mode"] == "hybrid" else text
            if not plain.strip():
                raise ehi.InputError("the question only excludes; add a word to search for")
            with self._encoding:
                vector = self.encoder.encode_query(plain)
        leaves = None if plan["beam"] is None else self._route(vector, plan["beam"])
        moved = []
        if self.judgments is not None and text is not None and not plan["no_memory"]:
            moved = self.judgments.of(text)
        depth = max(CANDIDATES, plan["k"]) if moved or plan["mode"] == "hybrid" else plan["k"]
        return {**plan, "text": text, "vector": vector, "leaves": leaves, "depth": depth, "moved": moved}

    def search(self, group: Any, request: Json, started: float) -> Answer:
        """A search, which was begun at a moment, of the shards of a `Group`."""
        seconds, late = request["seconds"], False
        while True:
            if seconds is not None:
                request["seconds"] = max(seconds - (time.monotonic() - started), 0)
            offers, missing = group.search(request)
            merged = self._merge(request, offers)
            wider = self._wider(request, len(merged), offers)
            late = seconds is not None and time.monotonic() - started >= seconds
            if wider is None or late:
                break
            request = wider
        documents, unread = group.documents([(own["place"], own["id"]) for own in merged])
        hits = []
        for own in merged:
            # Unreadable documents are left out.
            if document := documents.get((own["place"], own["id"])):
                of_document: Json = {name: document[name] for name in ("title", "text", "metadata")}
                of_hit: Json = {name: own[name] for name in _OF_HIT}
                hits.append(Hit(**of_document, **of_hit, shard=self.manifest["shards"][own["place"]]["key"]))
        missing = {**missing, **unread}
        return Answer(
            hits=hits,
            partial=bool(missing),
            missing=missing,
            version=self.manifest["version"],
            leaves=len(request["leaves"] or ()),
            milliseconds=round((time.monotonic() - started) * 1000, 3),
        )

    def _route(self, vector: Any, beam: int) -> list[int]:
        return parts.route(self.model, vector, beam)

    def _wider(self, request: Json, found: int, offers: Sequence[Any]) -> Json | None:
        """The request to ask next where there were too few hits and more may be found; `None` else."""
        least = request["k"]
        if request["mode"] == "dense":
            # Those that only judgments name do not count.
            found = sum(own[3] for _, (candidates, _, _) in offers for own in candidates)
            least = request["depth"]
        if found >= least:
            return None
        wider = dict(request)
        if request["mode"] == "hybrid":
            signs = any(offer[1] for _, offer in offers)
            documents = sum(offer[2] for _, offer in offers)
            if signs and request["depth"] < documents:
                wider["depth"] = request["depth"] * WIDER
        # As in a single index, a search with a filter continues until it has k hits.
        if request["filter"] is not None and request["leaves"] is not None:
            leaves = self._route(request["vector"], len(request["leaves"]) * WIDER)
            if len(leaves) > len(request["leaves"]):
                wider["leaves"] = leaves
        same = (wider["depth"], wider["leaves"]) == (request["depth"], request["leaves"])
        return None if same else wider

    def _merge(self, request: Json, offers: Sequence[Any]) -> list[Json]:
        """The best of what the shards offer: dictionaries with `place` of the shard, `id` and scores."""
        everything = [own for _, (candidates, _, _) in offers for own in candidates]
        places = {own[0]: place for place, (candidates, _, _) in offers for own in candidates}
        judged = {id: judgment for id, _, judgment in request["moved"]}
        fused = parts.fuse(
            everything,
            request["depth"],
            request["k"],
            request["moved"],
            **{name: request[name] for name in ("mode", "alpha", "rrf")},
        )
        return [
            {
                **own,
                "place": places[own["id"]],
                "judged": None if own["memory"] is None else judged[own["id"]],
            }
            for own in fused
        ]
