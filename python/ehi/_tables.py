"""What a result of a search is shown and handed on as."""

from __future__ import annotations

import html
import importlib
import json
from typing import Any

from . import Hit, SearchResult

# Columns that are left out if no hit has a value.
_SCORES = ("rerank_score", "dense", "lexical", "memory")


def _import(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(f"this needs {name}: pip install {name}") from error


def _columns(result: SearchResult) -> dict[str, list[Any]]:
    def of(*names: str) -> dict[str, list[Any]]:
        return {name: [getattr(hit, name) for hit in result] for name in names}

    more = of(*_SCORES, "group").items()
    given = {name: values for name, values in more if any(own is not None for own in values)}
    return of("id", "score", "title", "text", "metadata") | given


def to_pandas(result: SearchResult) -> Any:
    pandas = _import("pandas")
    kinds = {"metadata": "object", "group": "object"} | dict.fromkeys(("score", *_SCORES), "float32")
    columns = _columns(result).items()
    return pandas.DataFrame(
        {name: pandas.Series(values, dtype=kinds.get(name, "str")) for name, values in columns}
    )


def to_arrow(result: SearchResult) -> Any:
    arrow = _import("pyarrow")
    columns = _columns(result)
    for name in columns.keys() & {"metadata", "group"}:
        values = columns[name]
        columns[name] = [None if own is None else json.dumps(own, ensure_ascii=False) for own in values]
    kinds = {name: arrow.float32() if name in ("score", *_SCORES) else arrow.string() for name in columns}
    return arrow.table(columns, schema=arrow.schema(kinds.items()))


def _marked(hit: Hit, question: str) -> str:
    """The hit's part to show, with the words of the question marked."""
    part = hit.snippet(question)
    text = part["text"].encode()
    at, shown = 0, []
    for begin, end in part["marks"]:
        begin, end = begin - part["start"], end - part["start"]
        shown += [html.escape(text[at:begin].decode()), f"<mark>{html.escape(text[begin:end].decode())}</mark>"]
        at = end
    return "".join([*shown, html.escape(text[at:].decode())])


def to_html(result: SearchResult) -> str:
    """For notebooks."""
    scores = [hit.score if hit.rerank_score is None else hit.rerank_score for hit in result]
    low = min([0.0, *scores])
    span = max([0.0, *scores]) - low or 1.0
    rows = [
        '<div style="margin:0.6em 0">'
        f'<div><b>{html.escape(hit.title or hit.id)}</b> <small style="opacity:0.7">'
        f"{html.escape(hit.id) + ' · ' if hit.title else ''}{score:.4f}</small></div>"
        f'<div style="width:{20 * (score - low) / span:.1f}em;height:4px;background:#4a90d9"></div>'
        f'<div style="white-space:pre-wrap">{_marked(hit, result.question or "")}</div></div>'
        for hit, score in zip(result, scores, strict=True)
    ]
    asked = f"<div>{html.escape(result.question)}</div>" if result.question else ""
    notes = [f"<div><i>{html.escape(note)}</i></div>" for note in result.notes]
    return "".join(['<div style="max-width:50em">', asked, *(rows or ["<div>no hits</div>"]), *notes, "</div>"])
