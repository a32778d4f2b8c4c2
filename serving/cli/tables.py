"""Results as tables for people, legible at 100 columns. Stored text is data: control characters are shown, not sent."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

_VISIBLE = {code: 0x2400 + code for code in range(32) if chr(code) not in "\n\t"} | {0x7F: 0x2421}
_VISIBLE |= dict.fromkeys(range(128, 160), 65533)
_MAX_SHOWN = 600
_EVENTS = 2


def plain(value: object, style: str = "", limit: int = _MAX_SHOWN) -> Text:
    """A stored text as it is, without markup, at most `limit` characters of it."""
    text = str(value).translate(_VISIBLE)
    return Text(text if len(text) <= limit else f"{text[: limit - 1]}…", style=style)


def when(iso: str) -> str:
    """A time for people, in its own offset: `Mon 2 Mar 2026 09:05`."""
    moment = datetime.fromisoformat(iso)
    return f"{moment:%a} {moment.day} {moment:%b %Y %H:%M}"


def table(*columns: str, title: str | None = None, wide: str | None = None) -> Table:
    """An empty table; the column named `wide` takes the room that is left, the others do not wrap."""
    made = Table(
        box=box.SIMPLE_HEAD,
        title=title,
        title_justify="left",
        title_style="bold",
        expand=wide is not None,
        pad_edge=False,
    )
    for column in columns:
        right = column in ("score", "turns", "episodes", "embedded", "labelled", "pending", "failed", "scopes")
        made.add_column(
            column,
            justify="right" if right else "left",
            ratio=1 if column == wide else None,
            no_wrap=column != wide,
            overflow="fold" if column == wide else "ellipsis",
            max_width=None if column == wide else 28,
        )
    return made


def turns(found: Sequence[Mapping[str, Any]], title: str | None = None) -> RenderableType:
    """Turns, each with its labels and id below its text."""
    if not found:
        return Text(f"{title + ': ' if title else ''}nothing found", style="yellow")
    scored = any("score" in turn for turn in found)
    made = table(*(["score"] if scored else []), "when", "who", "what", title=title, wide="what")
    for turn in found:
        score = [f"{turn['score']:.2f}" if "score" in turn else ""] if scored else []
        made.add_row(*score, when(turn["created_at"]), plain(turn["speaker"] or turn["role"], limit=20), _body(turn))
    return made


def _body(turn: Mapping[str, Any]) -> RenderableType:
    parts: list[RenderableType] = [plain(turn["memory"])] if turn["memory"] else []
    parts += [plain(f"[{a['kind']}: {a['caption']}]", "italic") for a in turn["attachments"] if a["caption"]]
    labels = [turn["scope"], *(event["label"] for event in turn["events"][:_EVENTS]), turn["id"]]
    parts.append(plain(" · ".join(label for label in labels if label), "dim"))
    return Group(*parts)


def scopes(found: Iterable[Mapping[str, Any]], title: str | None = None) -> Table:
    """Scopes with their sizes and spans."""
    made = table("scope", "turns", "episodes", "first (UTC)", "last (UTC)", title=title, wide="scope")
    for scope in found:
        made.add_row(
            plain(scope["label"]),
            str(scope["turns"]),
            str(scope["episodes"]),
            when(scope["first"]),
            when(scope["last"]),
        )
    return made


def timeline(found: Iterable[Mapping[str, Any]], title: str | None = None) -> Table:
    """Episodes in time order."""
    made = table("when (UTC)", "turns", "scope", "summary", title=title, wide="summary")
    for episode in found:
        summary = plain(episode["summary"] or ("(still open)" if episode["open"] else ""), limit=240)
        made.add_row(when(episode["first"]), str(episode["turns"]), plain(episode["scope"], limit=28), summary)
    return made


def pairs(rows: Mapping[str, object], title: str | None = None) -> Table:
    """Names with their values."""
    made = Table(box=None, show_header=False, title=title, title_justify="left", title_style="bold", pad_edge=False)
    made.add_column(style="dim", no_wrap=True)
    made.add_column(overflow="fold")
    for name, value in rows.items():
        made.add_row(name, value if isinstance(value, Text) else plain(value))
    return made


def explanations(found: Mapping[str, Any]) -> Iterable[RenderableType]:
    """The plan of a search, what its rounds covered, and each hit's signals."""
    shown = {name: found[name] for name in ("plan", "reading") if name in found}
    yield pairs({name: json.dumps(part, ensure_ascii=False, default=str) for name, part in shown.items()}, title="Plan")
    made = table("turn", "why", title="Signals", wide="why")
    for turn in found["results"]:
        made.add_row(turn["id"], plain(json.dumps(turn.get("explain"), ensure_ascii=False, default=str)))
    yield made
