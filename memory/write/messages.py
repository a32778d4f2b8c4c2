"""What callers hand in, as turns: strings, OpenAI messages, or `NewTurn`s, checked field by field."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from typing import Any, cast

from dateutil import parser as dateutil_parser

from ..errors import InputError
from ..types import ROLES, Attachment, NewTurn, Role

MAX_CHARS = 4_000_000
"""Longest text of one turn, in characters."""

_DEFAULTS = (datetime(2000, 1, 1), datetime(2001, 2, 2))
_ROLE_ALIASES = {"human": "user", "ai": "assistant", "model": "assistant", "developer": "system", "function": "tool"}
_KNOWN_KEYS = frozenset(
    [
        "role",
        "content",
        "text",
        "name",
        "speaker",
        "time",
        "timestamp",
        "created_at",
        "session",
        "id",
        "source_id",
        "attachments",
        "metadata",
        "meta",
    ]
)
_KEPT_KEYS = frozenset(["tool_calls", "tool_call_id", "function_call", "refusal", "annotations", "audio"])
_RESERVED_META = frozenset(["namespace", "user_id", "agent_id", "run_id", "trajectory"])

Messages = str | Mapping[str, Any] | NewTurn | Sequence[Mapping[str, Any] | NewTurn]
"""Accepted by `add`: a string (one user turn), a message, or a list of messages."""


def parse_messages(messages: Messages, default_zone: tzinfo = UTC) -> list[NewTurn]:
    """Turns from messages, in order; nothing is stored here.

    Raises:
        InputError: naming the first unusable field.
    """
    if isinstance(messages, str):
        return [checked(NewTurn("user", messages), "messages")]
    if isinstance(messages, (Mapping, NewTurn)):
        messages = [messages]
    if not isinstance(messages, Sequence) or isinstance(messages, (bytes, bytearray)):
        raise InputError(
            "messages", f"is a {type(messages).__name__}", "pass a string, a message, or a list of messages"
        )
    if not messages:
        raise InputError("messages", "is empty", "pass at least one message")
    turns = [parse_message(message, f"messages[{i}]", default_zone) for i, message in enumerate(messages)]
    _check_ids(turns)
    return turns


def parse_message(message: object, field: str, default_zone: tzinfo = UTC) -> NewTurn:
    """One turn from an OpenAI-style message.

    Raises:
        InputError: naming the unusable field.
    """
    if isinstance(message, NewTurn):
        return checked(message, field)
    if not isinstance(message, Mapping):
        raise InputError(field, f"is a {type(message).__name__}", 'pass a message: {"role": ..., "content": ...}')
    unknown = sorted(set(message) - _KNOWN_KEYS - _KEPT_KEYS)
    if unknown:
        raise InputError(f"{field}.{unknown[0]}", "is not a known key", f"put it under metadata; known: {_listed()}")
    text, attachments = _content(message, field)
    meta = dict(_mapping(message.get("metadata", message.get("meta")), f"{field}.metadata"))
    meta |= {key: message[key] for key in _KEPT_KEYS if message.get(key) is not None}
    turn = NewTurn(
        role=parse_role(message.get("role", "user"), f"{field}.role"),
        text=text or _tool_calls_text(meta.get("tool_calls")),
        speaker=_text(message.get("speaker", message.get("name")), f"{field}.speaker"),
        time=parse_time(_first(message, "time", "timestamp", "created_at"), f"{field}.time", default_zone),
        session=_text(message.get("session"), f"{field}.session"),
        attachments=attachments + _attachments(message.get("attachments"), f"{field}.attachments"),
        meta=meta,
        source_id=_text(_first(message, "source_id", "id"), f"{field}.id"),
    )
    return checked(turn, field)


def checked(turn: NewTurn, field: str) -> NewTurn:
    """The turn with characters that no store can hold replaced one for one, so that offsets stay true.

    Raises:
        InputError: no text and no caption, or a text too long.
    """
    role = parse_role(turn.role, f"{field}.role")
    if not isinstance(turn.text, str):
        raise InputError(f"{field}.content", f"is a {type(turn.text).__name__}", "pass a string")
    if not turn.text.strip() and not any(a.caption or a.uri for a in turn.attachments):
        raise InputError(f"{field}.content", "is empty", "leave the message out, or give an attachment a caption")
    if len(turn.text) > MAX_CHARS:
        raise InputError(f"{field}.content", f"has {len(turn.text):,} characters", f"at most {MAX_CHARS:,}: split it")
    if turn.time is not None and turn.time.tzinfo is None:
        raise InputError(f"{field}.time", "has no timezone", "pass an aware datetime or an ISO 8601 string")
    reserved = sorted(_RESERVED_META & set(turn.meta))
    if reserved:
        raise InputError(f"{field}.metadata.{reserved[0]}", "is reserved", "pass it as an argument of add()")
    try:
        meta = json.loads(clean(json.dumps(dict(turn.meta), ensure_ascii=False)))
    except (TypeError, ValueError) as error:
        raise InputError(f"{field}.metadata", f"cannot be written as JSON: {error}") from error
    return NewTurn(
        role=role,
        text=clean(turn.text),
        speaker=clean(turn.speaker) if turn.speaker else None,
        time=parse_time(turn.time, f"{field}.time"),
        session=clean(turn.session) if turn.session else None,
        attachments=tuple(_clean_attachment(a) for a in turn.attachments),
        meta=meta,
        source_id=clean(turn.source_id) if turn.source_id else None,
    )


def clean(text: str) -> str:
    """NUL and lone surrogates as U+FFFD, one for one."""
    if text.isascii() and "\0" not in text:
        return text
    return "".join("\ufffd" if c == "\0" or "\ud800" <= c <= "\udfff" else c for c in text)


def parse_role(role: object, field: str) -> Role:
    """One of the four roles, aliases of other clients included.

    Raises:
        InputError: another one.
    """
    name = _ROLE_ALIASES.get(str(role).lower(), str(role).lower())
    if name not in ROLES:
        raise InputError(field, f"{role!r} is not a role", f"one of {', '.join(ROLES)}")
    return cast(Role, name)


def parse_time(value: object, field: str, default_zone: tzinfo = UTC) -> datetime | None:
    """A time from an aware or naive datetime, ISO 8601 or another written date, or seconds since 1970.

    A naive one is in `default_zone`.

    Raises:
        InputError: not a whole date, or one outside the years 2 to 9998.
    """
    if value is None or value == "":
        return None
    remedy = 'pass ISO 8601, like "2026-03-05T14:00:00Z"'
    try:
        if isinstance(value, bool):
            raise ValueError("a boolean")
        if isinstance(value, (int, float)):
            return datetime.fromtimestamp(float(value), UTC)
        if isinstance(value, datetime):
            parsed = value
        elif isinstance(value, str):
            parsed = _written(value)
        else:
            raise ValueError(f"a {type(value).__name__}")
        aware = parsed if parsed.tzinfo else parsed.replace(tzinfo=default_zone)
        # Kept in UTC, shown with its own offset: it must be a date in both.
        if not 1 < aware.astimezone(UTC).year < 9999:
            raise ValueError("outside the years 2 to 9998")
        return aware
    except (ValueError, OverflowError, OSError) as error:
        raise InputError(field, f"{value!r} is not a time ({error})", remedy) from error


def _written(value: str) -> datetime:
    try:
        return datetime.fromisoformat(value)
    except ValueError:
        if not any(c.isdigit() for c in value):
            raise
        first, second = (dateutil_parser.parse(value, default=default) for default in _DEFAULTS)
        if first.date() != second.date():
            # What is missing would be taken from today, another day each time.
            raise ValueError("not a whole date") from None
        return first


def _content(message: Mapping[str, Any], field: str) -> tuple[str, tuple[Attachment, ...]]:
    content = message.get("content", message.get("text"))
    if content is None:
        return "", ()
    if isinstance(content, str):
        return content, ()
    if not isinstance(content, Sequence):
        raise InputError(f"{field}.content", f"is a {type(content).__name__}", "pass a string or a list of parts")
    texts, attachments = [], []
    for i, part in enumerate(content):
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, Mapping) and isinstance(part.get("text"), str):
            texts.append(part["text"])
        elif isinstance(part, Mapping) and part.get("type"):
            attachments.append(_media_part(part))
        else:
            raise InputError(f"{field}.content[{i}]", "is neither a text nor a typed part")
    return "\n".join(texts), tuple(attachments)


def _media_part(part: Mapping[str, Any]) -> Attachment:
    kind = str(part["type"]).removesuffix("_url").removeprefix("input_")
    source = part.get(str(part["type"])) or {}
    uri = source if isinstance(source, str) else source.get("url") if isinstance(source, Mapping) else None
    # Inline bytes are not memory: what a picture shows comes as its caption.
    inline = isinstance(uri, str) and uri.startswith("data:")
    meta = {"inline_bytes": len(uri or "")} if inline else {}
    caption = part.get("caption") or part.get("alt")
    return Attachment(kind, None if inline else uri, str(caption) if caption else None, meta)


def _attachments(value: object, field: str) -> tuple[Attachment, ...]:
    if value is None:
        return ()
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise InputError(field, "must be a list of attachments")
    found = []
    for i, item in enumerate(value):
        if isinstance(item, Attachment):
            found.append(item)
            continue
        rest = dict(_mapping(item, f"{field}[{i}]"))
        kind, uri, caption = (_text(rest.pop(key, None), f"{field}[{i}].{key}") for key in ("kind", "uri", "caption"))
        meta = _mapping(rest.pop("meta", None), f"{field}[{i}].meta") or rest
        found.append(Attachment(kind or "image", uri, caption, meta))
    return tuple(found)


def _clean_attachment(attachment: Attachment) -> Attachment:
    return Attachment(
        clean(attachment.kind),
        clean(attachment.uri) if attachment.uri else None,
        clean(attachment.caption) if attachment.caption else None,
        json.loads(clean(json.dumps(dict(attachment.meta), ensure_ascii=False, default=str))),
    )


def _tool_calls_text(calls: object) -> str:
    if not isinstance(calls, Sequence) or isinstance(calls, str):
        return ""
    functions = [call.get("function", {}) for call in calls if isinstance(call, Mapping)]
    return "\n".join(f"{f.get('name', 'tool')}({f.get('arguments', '')})" for f in functions)


def _check_ids(turns: Sequence[NewTurn]) -> None:
    seen: dict[str, int] = {}
    for i, turn in enumerate(turns):
        if turn.source_id is None:
            continue
        first = seen.setdefault(turn.source_id, i)
        if first != i and turns[first].text != turn.text:
            raise InputError(f"messages[{i}].id", f"{turn.source_id!r} is also the id of messages[{first}]")


def _mapping(value: object, field: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InputError(field, f"is a {type(value).__name__}", "pass an object")
    return value


def _text(value: object, field: str) -> str | None:
    if value is None or isinstance(value, str):
        return value or None
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise InputError(field, f"is a {type(value).__name__}", "pass a string")


def _first(message: Mapping[str, Any], *keys: str) -> Any:
    return next((message[key] for key in keys if message.get(key) is not None), None)


def _listed() -> str:
    return ", ".join(sorted(_KNOWN_KEYS))
