"""One search over several indexes of one model: the parts of which `ehi.ray` is made.

The question is encoded and routed once, each index is searched in the leaves that were found, and what they
find is merged: by score, equal scores by id. For hybrid searches each index gives `candidates`, scored by the
sum of all `term_statistics`, and `fuse` makes hits of them. With codes off the answers are those of a single
index with all documents, bit for bit. `copy` moves documents between indexes without encoding them again, and
`compare` says whether rankings are better after a change.
"""

from ._ehi import _shards

TermStatistics = _shards.TermStatistics
candidates = _shards.candidates
compare = _shards.compare
copy = _shards.copy
fuse = _shards.fuse
ids = _shards.ids
is_held_out = _shards.is_held_out
leaf_rows = _shards.leaf_rows
make_tree = _shards.make_tree
plain_question = _shards.plain_question
route = _shards.route
search = _shards.search
term_statistics = _shards.term_statistics

__all__ = [
    "TermStatistics",
    "candidates",
    "compare",
    "copy",
    "fuse",
    "ids",
    "is_held_out",
    "leaf_rows",
    "make_tree",
    "plain_question",
    "route",
    "search",
    "term_statistics",
]
