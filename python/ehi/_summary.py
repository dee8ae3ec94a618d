"""How the outcome of `add` is shown."""

from __future__ import annotations

from typing import Any

# Refused documents that are named.
_SHOWN = 3


class InsertSummary(dict[str, Any]):
    """A dictionary, as `ehi.reports.InsertSummary`, of which the counts and the refused documents are shown."""

    def __repr__(self) -> str:
        counts = [
            f"{name}={self[name]}"
            for name in ("inserted", "replaced", "superseded", "expired", "passages", "cached")
            if self.get(name) or name == "inserted"
        ]
        refused = self.get("refused", [])
        if refused:
            reasons = [_reason(own) for own in refused[:_SHOWN]] + ["…"] * (len(refused) > _SHOWN)
            counts.append(f"refused={len(refused)}: {'; '.join(reasons)}")
        return f"InsertSummary({', '.join(counts)})"


def _reason(refused: dict[str, Any]) -> str:
    id = "" if refused["id"] is None else f" ({refused['id']!r})"
    return f"position {refused['position']}{id}: {refused['error']}"
