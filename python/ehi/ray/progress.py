"""Who hears how far a call is: of a stage, what is done and the total or `None`, as in the calls of `ehi`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TypeAlias

import ehi

Tell: TypeAlias = Callable[[str, int, "int | None"], object]
# A function, or `True` for bars of tqdm. `False` from the function ends the call.
Progress: TypeAlias = "Tell | bool | None"


def check(progress: Progress) -> None:
    """A `TypeError` of what can hear of nothing."""
    if progress is not None and not isinstance(progress, bool) and not callable(progress):
        raise TypeError("`progress` is a function of stage, done and total, or True for bars of tqdm")


@contextlib.contextmanager
def told(progress: Progress) -> Iterator[Tell]:
    """What tells of progress; checked before any work. `CancelledError` where the function says `False`."""
    check(progress)
    if progress is None or progress is False:
        yield lambda stage, done, total: None
    elif progress is True:
        from ehi._progress import Bars

        with contextlib.closing(Bars()) as bars:
            yield bars
    else:
        function = progress

        def tell(stage: str, done: int, total: int | None) -> None:
            if function(stage, done, total) is False:
                raise ehi.CancelledError("the progress callback asked to stop")

        yield tell
