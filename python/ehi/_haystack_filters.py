"""Haystack's filters as those of an index."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from haystack.errors import FilterError

_ORDER = {">": "$gt", ">=": "$gte", "<": "$lt", "<=": "$lte"}
# Whether the value is a list, and whether the condition is negated.
_AMONG = {"==": (False, False), "!=": (False, True), "in": (True, False), "not in": (True, True)}
_FIELDS = ("content", "blob", "score", "embedding", "sparse_embedding")
_NOTHING: dict[str, Any] = {"$ids": []}


def translate(filters: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The filter of an index; `None` where every document passes.

    A missing field is as one that is `None`. Dates are compared as text, so they must be written alike, in
    ISO format. Where a field is a list, a condition holds if it does for any element.
    """
    return _node(filters) if filters else None


def _node(condition: Any) -> dict[str, Any]:
    if not isinstance(condition, Mapping):
        raise FilterError(f"a condition is a dictionary, not {type(condition).__name__}")
    if "field" in condition:
        return _comparison(condition)
    for key in ("operator", "conditions"):
        if key not in condition:
            raise FilterError(f"'{key}' key missing in {condition}")
    parts = [_node(each) for each in condition["conditions"]]
    match condition["operator"]:
        case "AND":
            return {"$and": parts} if parts else {}
        case "OR":
            return {"$or": parts} if parts else _NOTHING
        case "NOT":
            return {"$not": {"$and": parts}} if parts else _NOTHING
        case other:
            raise FilterError(f"unknown logical operator '{other}'; known are AND, OR and NOT")


def _comparison(condition: Mapping[str, Any]) -> dict[str, Any]:
    for key in ("operator", "value"):
        if key not in condition:
            raise FilterError(f"'{key}' key missing in {condition}")
    field, operator, value = condition["field"], str(condition["operator"]), condition["value"]
    value = [_plain(each) for each in value] if isinstance(value, list) else _plain(value)
    if field in _FIELDS:
        raise FilterError(f"'{field}' cannot be filtered by; 'id' and fields of 'meta' can")
    if operator in _AMONG:
        several, negated = _AMONG[operator]
        if several and not isinstance(value, list):
            raise FilterError(f"'{operator}' needs a list, not {type(value).__name__}")
        among = _any_of(field, value if several else [value])
        return {"$not": among} if negated else among
    if operator not in _ORDER:
        raise FilterError(f"unknown comparison operator '{operator}'")
    if field == "id":
        raise FilterError(f"ids are compared by ==, !=, in and not in, not by {operator}")
    if value is None:
        return _NOTHING
    return {field.removeprefix("meta."): {_ORDER[operator]: _ordered(operator, value)}}


def _any_of(field: str, values: list[Any]) -> dict[str, Any]:
    if field == "id" or not values:
        return {"$ids": values}
    return {"$or": [{field.removeprefix("meta."): {"$eq": each}} for each in values]}


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value


def _ordered(operator: str, value: Any) -> Any:
    if isinstance(value, str):
        try:
            datetime.fromisoformat(value)
        except ValueError:
            raise FilterError(
                f"'{operator}' compares numbers and dates in ISO format, not '{value}'"
            ) from None
    elif isinstance(value, bool) or not isinstance(value, int | float):
        raise FilterError(f"'{operator}' compares numbers and dates, not {type(value).__name__}")
    return value
