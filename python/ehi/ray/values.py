"""Values of columns as JSON has them, by the rules of `ehi insert`: dates, times and decimals as text, what
is no number (NaN) as null.
"""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

Read = Callable[[Any], Any]


class ValueKindError(Exception):
    """A value, or a column, of a kind that is not read."""


def lists_of(column: Any) -> list[Any]:
    """The values of a column of Arrow's. `ValueKindError` where its type is none that JSON has."""
    read = _reader(column.type)
    try:
        return [read(value) for value in column.to_pylist()]
    except (ArithmeticError, ValueError) as error:
        # A time beyond the calendar.
        raise ValueKindError(str(error)) from None


def _reader(kind: Any) -> Read:
    # Sets are searched without it.
    from pyarrow import types

    if types.is_float16(kind) or types.is_float32(kind):
        narrow = np.float16 if types.is_float16(kind) else np.float32
        # As it is written, not as its next double is.
        return lambda value: None if value is None else _number(float(str(narrow(value))))
    if types.is_dictionary(kind):
        return _reader(kind.value_type)
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        item = _reader(kind.value_type)
        return lambda value: None if value is None else [item(each) for each in value]
    if types.is_struct(kind):
        fields = {kind.field(place).name: _reader(kind.field(place).type) for place in range(kind.num_fields)}
        return lambda value: None if value is None else _members(fields, value)
    if types.is_map(kind) or types.is_union(kind) or "binary" in str(kind):
        raise ValueKindError(f"of the type {kind}, which is not read")
    return plain


def _members(fields: Mapping[str, Read], value: Any) -> dict[str, Any]:
    """Without nulls: all rows of a column have all members, whatever was written."""
    found = {name: read(value[name]) for name, read in fields.items()}
    return {name: each for name, each in found.items() if each is not None}


def plain(value: Any) -> Any:
    """A value of Python, numpy or pandas as JSON has it."""
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, (np.generic, np.ndarray)):
        return plain(value.tolist())
    if isinstance(value, int):
        # Beyond 64 bits it is rounded.
        return value if -(2**63) <= value < 2**64 else float(value)
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, decimal.Decimal):
        return format(value, "f")
    if isinstance(value, dict):
        if not all(isinstance(name, str) for name in value):
            raise ValueKindError("an object with names that are no texts")
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    if isinstance(value, datetime.timedelta):
        return _duration(value)
    if isinstance(value, (datetime.datetime, datetime.time)):
        return _time(value)
    if isinstance(value, datetime.date):
        return value.isoformat()
    raise ValueKindError(f"of the type {type(value).__name__}, which is not read")


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _time(value: datetime.datetime | datetime.time) -> str | None:
    if value != value:
        # `NaT` of pandas.
        return None
    zone = ""
    if value.tzinfo is not None:
        zone = "Z"
        if isinstance(value, datetime.datetime):
            value = value.astimezone(datetime.timezone.utc)
        value = value.replace(tzinfo=None)
    digits = "seconds"
    if getattr(value, "nanosecond", 0):
        digits = "nanoseconds"
    elif value.microsecond:
        digits = "microseconds" if value.microsecond % 1000 else "milliseconds"
    return value.isoformat(timespec=digits) + zone


def _duration(value: datetime.timedelta) -> str:
    """As ISO 8601 has it, in seconds."""
    sign = "-" if value < datetime.timedelta(0) else ""
    micros = abs(value) // datetime.timedelta(microseconds=1)
    seconds, fraction = divmod(micros, 1_000_000)
    digits = f".{fraction:06}".rstrip("0") if fraction else ""
    return f"{sign}PT{seconds}{digits}S"
