"""Bars of tqdm for `progress=True`."""

from __future__ import annotations

from typing import Any


class Bars:
    """A bar for each stage of a call, one after another."""

    def __init__(self) -> None:
        try:
            from tqdm.auto import tqdm
        except ImportError as error:
            raise ImportError('progress=True needs tqdm: pip install "ehi[progress]"') from error
        self._tqdm = tqdm
        self._stage: str | None = None
        self._bar: Any = None

    def __call__(self, stage: str, done: int, total: int | None) -> None:
        if stage != self._stage or done < self._bar.n:
            self.close()
            self._stage, self._bar = stage, self._tqdm(desc=stage, total=total)
        self._bar.total = total
        self._bar.update(done - self._bar.n)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
