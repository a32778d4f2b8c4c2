"""Filters on stored turns: names resolved to ids, and the turns that match, without a search."""

from __future__ import annotations

from dataclasses import replace

from .errors import InputError
from .store import Store
from .types import Filters, Intent, Scored, Turn
from .write.lexicon import label_names

_PAGE = 500


def resolved(store: Store, namespace: int, filters: Filters) -> Filters:
    """Filters with names of scopes and labels as the ids they stand for now, merges followed.

    Raises:
        InputError: a labeler that has labelled nothing here.
    """
    if filters.labels is not None:
        filters = replace(filters, labels=None, rows=_rows_labelled(store, namespace, filters.labels))
    if filters.scopes is None and filters.events is None and filters.entity_types is None:
        return filters
    scopes = store.labels.scope_names(namespace)
    labels = label_names(store.labels.labels(namespace))
    merged = store.labels.merged(namespace)
    return replace(
        filters,
        scopes=_ids(
            filters.scopes, {i: name for i, (_, name) in scopes.items()}, {i: end for i, (end, _) in scopes.items()}
        ),
        events=_ids(filters.events, labels, merged),
        entity_types=_ids(filters.entity_types, labels, merged),
    )


def _rows_labelled(store: Store, namespace: int, wanted: tuple[tuple[str, tuple[str, ...]], ...]) -> frozenset[int]:
    known = store.turn_labels.known(namespace)
    for task, _ in wanted:
        if task not in known:
            raise InputError(
                f"labels.{task}", "has labelled no turn here", f"labelers that have: {', '.join(known) or 'none'}"
            )
    return frozenset(set.intersection(*(store.turn_labels.rows_with(namespace, *one) for one in wanted)))


def _ids(names: tuple[str, ...] | None, known: dict[str, str], merged: dict[str, str]) -> tuple[str, ...] | None:
    if names is None:
        return None
    wanted = {name.casefold() for name in names}
    return tuple({merged.get(i, i) for i, name in known.items() if i in names or name.casefold() in wanted})


def selected_turns(store: Store, namespace: int, filters: Filters, before_row: int | None = None) -> list[Turn]:
    """Turns that match filters, and come before a row where one is given, in order of arrival."""
    filters = resolved(store, namespace, filters)
    by_intent = filters.scopes is not None or filters.events is not None or filters.entity_types is not None
    merged = store.labels.merged(namespace) if by_intent else {}
    intents = {row: intent for _, row, intent in store.labels.intents(namespace)} if by_intent else {}
    found: list[Turn] = []
    row = 0
    while page := store.turns.after(namespace, row, _PAGE):
        row = page[-1].row
        found += [
            turn
            for turn in page
            if (before_row is None or turn.row < before_row)
            and _matches(turn, filters)
            and (not by_intent or _labelled(intents.get(turn.row), filters, merged))
        ]
    return found


def _matches(turn: Turn, f: Filters) -> bool:
    return (
        (f.rows is None or turn.row in f.rows)
        and (f.roles is None or turn.role in f.roles)
        and (f.speakers is None or turn.speaker in f.speakers)
        and (f.trajectories is None or turn.trajectory in f.trajectories)
        and (f.sessions is None or turn.session in f.sessions)
        and (f.since is None or turn.time >= f.since)
        and (f.until is None or turn.time < f.until)
        and (f.as_of is None or turn.time <= f.as_of)
    )


def _labelled(intent: Intent | None, f: Filters, merged: dict[str, str]) -> bool:
    return (
        intent is not None
        and (f.scopes is None or merged.get(intent.scope.id, intent.scope.id) in f.scopes)
        and (f.events is None or _carries(intent.events, f.events, merged))
        and (f.entity_types is None or _carries(intent.entity_types, f.entity_types, merged))
    )


def _carries(labels: tuple[Scored, ...], wanted: tuple[str, ...], merged: dict[str, str]) -> bool:
    return any(merged.get(label.id, label.id) in wanted for label in labels)
