"""Checks of what calls are given."""

from __future__ import annotations

from typing import Any


def whole_number(name: str, value: Any, least: int = 1) -> int:
    """The value, if it is a whole number from `least`; a `ValueError` that names it else."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"`{name}` is {value!r}; it is a whole number from {least}")
    return value
