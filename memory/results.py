"""What the facade returns: plain dictionaries that are JSON as they stand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any, NotRequired, TypedDict

from .errors import InputError, NotFoundError
from .read.needs import Verdict
from .store import Store
from .store.operations import Operation
from .types import Intent, NewTurn, Scored, Snippet, Turn
from .write.intake import Receipt
from .write.lexicon import label_names
from .write.messages import checked


class OperationResult(TypedDict):
    """State of a write: "pending" and "failed" ones are searchable as raw text; `seen` counts repeated deliveries."""

    id: str
    status: str
    stage: str
    turns: int
    seen: int
    attempts: int
    error: str | None


class TurnResult(TypedDict):
    """One turn. `memory` is its text (mem0's name for it); times are ISO 8601 with their own offset."""

    id: str
    memory: str
    role: str
    speaker: str | None
    created_at: str
    time_source: str
    namespace: str
    trajectory: str
    session: str | None
    seq: int
    source_id: str | None
    metadata: dict[str, Any]
    attachments: list[dict[str, Any]]
    scope: str | None
    scope_id: str | None
    events: list[dict[str, Any]]
    entity_types: list[dict[str, Any]]
    labels: dict[str, list[dict[str, Any]]]
    grounded: str | None
    summary: str | None
    decided_by: dict[str, str]
    score: NotRequired[float]
    explain: NotRequired[dict[str, Any]]


class AddResult(TypedDict):
    """Acknowledgement of `add`. `status` is that of the operation, or "empty" where there was nothing new to keep."""

    results: list[dict[str, Any]]
    operation: OperationResult | None
    status: str
    duplicates: int
    suppressed: int
    usage: list[dict[str, str | int | float]]
    warnings: list[str]


class GroupResult(TypedDict):
    """A session, episode or scope with its best turns."""

    id: str
    label: str
    score: float
    turns: list[TurnResult]


class SearchResult(TypedDict):
    """Hits, best first; scores are comparable within one result only, higher is better."""

    results: list[Any]
    query: str
    recipe: str
    warnings: list[str]
    usage: dict[str, float]
    plan: NotRequired[dict[str, Any]]
    reading: NotRequired[dict[str, Any]]


class ContextResult(TypedDict):
    """Context for a model. `text` is quoted data; `turns` are the ids in it, in its order; `tokens` as counted.

    answerable: whether the words of each thing that the question asks for were found said together: "covered",
    "partial" where some are not, "missing" where something is not said at all, or only in other words. None for recipes
    that do not look into it.
    """

    text: str
    turns: list[str]
    tokens: int
    budget: int
    tokenizer: str
    truncated: bool
    answerable: Verdict | None
    warnings: list[str]
    explain: NotRequired[dict[str, Any]]


class ListResult(TypedDict):
    """A page of turns and how many there are in all."""

    results: list[TurnResult]
    total: int


def completed(turn: NewTurn, metadata: dict[str, Any] | None, time: datetime | None, session: str | None) -> NewTurn:
    """A turn with what the call said of all of its turns; what the turn says itself wins.

    Raises:
        InputError: the call's metadata cannot be stored.
    """
    if metadata is not None and not isinstance(metadata, Mapping):
        raise InputError("metadata", f"is a {type(metadata).__name__}", "pass an object")
    whole = replace(
        turn,
        meta={**(metadata or {}), **turn.meta},
        time=turn.time or time,
        session=turn.session or session,
    )
    return checked(whole, "messages") if metadata else whole


def operation(found: Operation) -> OperationResult:
    """An operation as JSON."""
    return {
        "id": found.id,
        "status": found.status,
        "stage": found.stage,
        "turns": found.turns,
        "seen": found.seen,
        "attempts": found.attempts,
        "error": found.error,
    }


def added(store: Store, namespace: int, receipt: Receipt) -> AddResult:
    """The acknowledgement of a receipt."""
    state = receipt.operation
    if state is not None:
        with suppress(NotFoundError):  # deleted meanwhile, with its turns
            state = store.operations.get(namespace, state.id)
    turns = store.turns.by_rows(namespace, receipt.rows)
    return {
        "results": [
            {"id": turns[row].id, "memory": turns[row].text, "event": "ADD"} for row in receipt.rows if row in turns
        ],
        "operation": operation(state) if state else None,
        "status": state.status if state else "empty",
        "duplicates": receipt.duplicates,
        "suppressed": receipt.suppressed,
        "usage": store.operations.usage(namespace, state.id) if state else [],
        "warnings": [*receipt.warnings, *([f"stored, not labelled: {state.error}"] if state and state.error else [])],
    }


def turns(store: Store, namespace: int, found: Sequence[Turn]) -> list[TurnResult]:
    """Turns with their intents and snippets."""
    rows = [turn.row for turn in found]
    intents = {row: intent for _, row, intent in store.labels.intents(namespace, turns=rows)}
    snippets = store.labels.snippets(namespace, rows)
    scopes = store.labels.scope_names(namespace) if intents else {}
    names = label_names(store.labels.labels(namespace))
    own = store.turn_labels.of(namespace, rows)
    return [
        _turn(turn, intents.get(turn.row), snippets.get(turn.row), scopes, names, _own(own.get(turn.row, {})))
        for turn in found
    ]


def _turn(
    turn: Turn,
    intent: Intent | None,
    snippet: Snippet | None,
    scopes: Mapping[str, tuple[str, str]],
    names: Mapping[str, str],
    own: dict[str, list[dict[str, Any]]],
) -> TurnResult:
    scope_id, scope = scopes.get(intent.scope.id, (None, None)) if intent else (None, None)
    return {
        "id": turn.id,
        "memory": turn.text,
        "role": turn.role,
        "speaker": turn.speaker,
        "created_at": turn.time.isoformat(),
        "time_source": turn.time_source,
        "namespace": turn.namespace,
        "trajectory": turn.trajectory,
        "session": turn.session,
        "seq": turn.seq,
        "source_id": turn.source_id,
        "metadata": dict(turn.meta),
        "attachments": [
            {"kind": a.kind, "uri": a.uri, "caption": a.caption, "meta": dict(a.meta)} for a in turn.attachments
        ],
        "scope": scope,
        "scope_id": scope_id,
        "events": _named(intent.events, names) if intent else [],
        "entity_types": _named(intent.entity_types, names) if intent else [],
        "labels": own,
        "grounded": snippet.grounded if snippet else None,
        "summary": snippet.summary if snippet else None,
        "decided_by": dict(intent.decided_by) if intent else {},
    }


def _own(given: Mapping[str, Sequence[Scored]]) -> dict[str, list[dict[str, Any]]]:
    return {
        task: [{"label": one.id, "probability": one.probability} for one in labels] for task, labels in given.items()
    }


def _named(labels: Sequence[Scored], names: Mapping[str, str]) -> list[dict[str, Any]]:
    return [{"label": names.get(item.id, item.id), "id": item.id, "probability": item.probability} for item in labels]
