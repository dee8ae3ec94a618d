"""Types of the dictionaries that calls return, for annotations. [json.md](../../docs/json.md) says what the
fields mean.

>>> from ehi.reports import Health
>>> def worries(health: Health) -> list[str]:
...     return [advice["sentence"] for advice in health["advice"]]
"""

from __future__ import annotations

from typing import Any, Literal, TypedDict


class Document(TypedDict):
    """Of `Index.get`, `page` and `iter`."""

    id: str
    title: str
    text: str
    metadata: Any


class Refused(TypedDict):
    position: int
    id: str
    field: str | None
    error: str


class CutTexts(TypedDict):
    documents: int
    tokens: int
    tokens_cut: int
    longest: int


class InsertSummary(TypedDict):
    """Of `Index.add`, `add_vectors` and `update`."""

    inserted: int
    replaced: int
    superseded: int
    expired: int
    expiring: int
    refused: list[Refused]
    statuses: list[Literal["inserted", "replaced", "superseded", "refused", "expired"]]
    passages: int
    cached: int
    cut: CutTexts
    generation: int


class Passage(TypedDict):
    start: int
    end: int
    score: float
    leaf: int
    headings: list[str]
    line: int | None


class Judged(TypedDict):
    question: str
    similarity: float
    grade: int
    stale: bool
    moved: float


class HitFields(TypedDict):
    """Of `Hit.as_dict` and `SearchResult.to_dicts`."""

    id: str
    score: float
    rerank_score: float | None
    leaf: int
    dense: float | None
    lexical: float | None
    dense_rank: int | None
    lexical_rank: int | None
    memory: float | None
    judged: Judged | None
    group: Any
    title: str
    text: str
    metadata: Any
    passages: list[Passage]


class Snippet(TypedDict):
    """Of `Hit.snippet`."""

    text: str
    start: int
    end: int
    marks: list[list[int]]


class RankedBy(TypedDict, total=False):
    mode: Literal["dense", "lexical", "hybrid"]
    alpha: float | None


class Signs(TypedDict):
    required: list[str]
    phrases: list[str]
    excluded: list[str]
    excluded_phrases: list[str]
    as_text: list[str]
    ignored: bool


class SearchStats(TypedDict):
    leaves_visited: int
    documents_visited: int
    embeddings_read: int
    documents_checked: int
    postings_scored: int
    reranked: int
    exhausted: bool
    visited_fraction: float
    work_fraction: float
    encoder: str | None
    encode_ms: float
    beam_ms: float
    scan_ms: float
    lexical_ms: float
    fetch_ms: float
    rerank_ms: float


class Term(TypedDict):
    term: str
    weight: float


class ExplainedHit(HitFields):
    exact_rank: int | None
    terms: list[Term]


class ExactHit(HitFields):
    visited: bool
    leaf_probability: float


class VisitedLeaf(TypedDict):
    leaf: int
    path: list[int]
    level_probabilities: list[float]
    probability: float
    documents: int


class Moved(TypedDict):
    id: str
    moved: float
    judged: Judged | None


class Explanation(TypedDict):
    """Of `Index.explain`."""

    request: Any
    leaves: list[VisitedLeaf]
    ranked_by: RankedBy
    signs: Signs
    notes: list[str]
    entropy: float | None
    hits: list[ExplainedHit]
    moved: list[Moved]
    exact: list[ExactHit] | None
    stats: SearchStats
    multiply_adds: int
    exact_ms: float


class FacetValue(TypedDict):
    value: Any
    documents: int


class Facet(TypedDict):
    """Of `Index.facets`, for each field."""

    values: list[FacetValue]
    distinct: int
    missing: int
    range: list[float] | None


class LeafSize(TypedDict):
    leaf: int
    documents: int


class Bytes(TypedDict):
    vectors: int
    documents: int
    terms: int
    dead_rows: int
    log: int
    model: int
    shared_model: int
    other_models: int
    judgments: int
    begun: int
    total: int


class PassageSizes(TypedDict):
    tokens: int
    overlap: int


class Stats(TypedDict):
    """Of `Index.stats`."""

    generation: int
    documents: int
    rows: int
    dead_rows: int
    dead_judgments: int
    segments: int
    memtable_documents: int
    bytes: Bytes
    expected_documents_per_leaf: float
    dim: int
    encoded_by: list[Literal["f32", "int8", "given", "unknown"]]
    similarity: str
    lexical: bool
    analyzer: str | None
    expires: str | None
    expired: int
    unlisted_fields: list[str]
    branching_factor: int
    height: int
    leaves: int
    leaves_used: int
    passages: PassageSizes | None
    model: str
    leaf_sizes: list[LeafSize]


class RoutingProfile(TypedDict):
    rows: int
    mean_entropy: float
    entropy_quantiles: list[float]
    mean_top_probability: float
    leaf_shares: list[float]


class Routing(TypedDict):
    recent: RoutingProfile | None
    reference: RoutingProfile | None
    shift: float | None
    shift_by_chance: float | None


class _Advice(TypedDict):
    kind: Literal[
        "no_tree",
        "grown",
        "not_calibrated",
        "skewed",
        "uncertain_documents",
        "shifted_documents",
        "uncertain_queries",
        "shifted_queries",
    ]
    sentence: str


class Advice(_Advice, total=False):
    """Which of the figures there are depends on the kind."""

    documents: int
    skew: float
    recent: float
    trained: float | None
    shift: float


class Remedy(TypedDict):
    command: Literal["calibrate", "tune", "learn"]
    documents_to_encode: int
    documents_to_route: int
    minutes: float
    sentence: str


class Health(TypedDict):
    """Of `Index.health`."""

    documents: int
    leaves: int
    empty_leaves: int
    largest_leaf: LeafSize | None
    expected_documents_per_leaf: float
    ideal_documents_per_leaf: float
    skew: float
    trained_skew: float | None
    documents_routing: Routing
    queries_routing: Routing
    advice: list[Advice]
    remedies: list[Remedy]


class Problem(TypedDict):
    file: str
    damage: str


class Verification(TypedDict):
    """Of `Index.verify`."""

    sound: bool
    documents: int
    payload_bytes: int
    postings: int
    term_postings: int
    file_bytes: int
    problem_count: int
    problems: list[Problem]
    warnings: list[Any]


class JudgeSummary(TypedDict):
    """Of `Index.judge`."""

    added: int
    replaced: int
    repeated: int
    without_document: int


class Comparison(TypedDict):
    value: float
    against: float
    difference: float
    bootstrap_p: float | None
    t_test_p: float | None
    deviation: float | None


class Nearness(TypedDict):
    questions: int
    before: float
    after: float
    before_with_memory: float
    after_with_memory: float


# `from` is a keyword.
NearnessFrom = TypedDict("NearnessFrom", {"from": float})


class LearnedNearness(Nearness, NearnessFrom): ...


class Changed(TypedDict):
    question: str
    before: float
    after: float


class Learned(TypedDict):
    """Of `Index.learn`."""

    decision: Literal["changed", "nothing_new", "too_few", "no_gain", "worse", "chosen", "left"]
    sentence: str
    pairs: int
    without_document: int
    learned: int
    held_out: int
    ndcg_at_10: Comparison | None
    recall_at_10: Comparison | None
    with_memory: Comparison | None
    by_nearness: list[LearnedNearness]
    encoder: Comparison | None
    better: list[Changed]
    worse: list[Changed]
    change: dict[str, Any] | None
    tree: dict[str, Any] | None
    fusion: dict[str, Any] | None
    query_encoder: dict[str, Any] | None
