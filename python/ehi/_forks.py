"""What belongs to the process that made it, and not to its forked children."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from typing import Any


def finalize(own: object, call: Callable[..., object], *arguments: Any) -> Callable[[], object]:
    """As `weakref.finalize`, but nothing at the end of a forked child, whose parent still needs it."""
    return weakref.finalize(own, _in_owner, os.getpid(), call, *arguments)


def _in_owner(owner: int, call: Callable[..., object], *arguments: Any) -> None:
    if os.getpid() == owner:
        call(*arguments)
