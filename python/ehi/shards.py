"""One search over several indexes of one model: the parts of which `ehi.ray` is made.

The question is encoded and routed once, each index gives `candidates` of the leaves that were found, scored by
the sum of all `term_statistics`, and `fuse` makes hits of them: by score, equal scores by id. `Judgments` say
which documents move for a question. With codes off the answers are those of a single index with all documents
and judgments, bit for bit. `copy` moves documents between indexes without encoding them again, and
`compare` says whether rankings are better after a change.
"""

from ._ehi import _shards

__all__ = _shards.__all__
globals().update({name: getattr(_shards, name) for name in __all__})
