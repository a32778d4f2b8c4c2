"""Looking at what is stored, and erasing it without trace."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from datetime import UTC, datetime
from typing import Any

from .addressing import Address
from .filtering import selected_turns
from .protocols import Embedder
from .store import Store
from .store.embeddings import TURN
from .types import Episode, Filters, Scope, Turn
from .write.lexicon import label_names


def resolved_scopes(store: Store, namespace: int) -> dict[str, Scope]:
    """Every scope id with the scope it now stands for, merges followed."""
    scopes = {scope.id: scope for scope in store.labels.scopes(namespace).values()}
    return {identity: scopes[end] for identity, (end, _) in store.labels.scope_names(namespace).items()}


def scopes(store: Store, namespace: int) -> dict[str, Any]:
    """Scopes in order of first turn, each with its gist, number of turns, span of time and number of episodes."""
    resolved = resolved_scopes(store, namespace)
    found = store.database.read(
        "SELECT i.scope, count(*) AS turns, min(t.time) AS first, max(t.time) AS last, min(t.row) AS row FROM intent i"
        " JOIN turn t ON t.row = i.turn WHERE i.namespace = ? GROUP BY i.scope ORDER BY min(t.row)",
        (namespace,),
    )
    episodes: dict[str, int] = defaultdict(int)
    for episode in store.labels.episodes(namespace):
        if episode.scope in resolved:
            episodes[resolved[episode.scope].id] += 1
    rows: dict[str, dict[str, Any]] = {}
    for row in found:
        scope = resolved.get(row["scope"])
        if scope is None:
            continue
        entry = rows.setdefault(
            scope.id,
            {"id": scope.id, "label": scope.label, "gist": scope.gist, "turns": 0, "episodes": episodes[scope.id]}
            | {"first": row["first"], "last": row["last"], "by_hand": scope.by_hand},
        )
        entry["turns"] += row["turns"]
        entry["first"], entry["last"] = min(entry["first"], row["first"]), max(entry["last"], row["last"])
    return {"results": [r | {"first": _iso(r["first"]), "last": _iso(r["last"])} for r in rows.values()]}


def timeline(store: Store, namespace: int, scope: str | None) -> dict[str, Any]:
    """Episodes in time order with their scope's name and summary; of one scope, by name or id, or of all."""
    resolved = resolved_scopes(store, namespace)
    entries = []
    for episode in store.labels.episodes(namespace):
        of = resolved.get(episode.scope)
        if of is None or (scope is not None and scope not in (of.id, of.label)):
            continue
        turns = store.turns.span(namespace, episode.trajectory, episode.first_seq, episode.last_seq)
        if turns:
            entries.append(_entry(episode, of, turns))
    return {"results": sorted(entries, key=lambda e: (e["first"], e["trajectory"], e["first_seq"]))}


def _entry(episode: Episode, scope: Scope, turns: list[Turn]) -> dict[str, Any]:
    return {
        "id": episode.id,
        "scope": scope.label,
        "scope_id": scope.id,
        "trajectory": episode.trajectory,
        "session": turns[0].session,
        "first": turns[0].time.astimezone(UTC).isoformat(),
        "last": turns[-1].time.astimezone(UTC).isoformat(),
        "first_seq": episode.first_seq,
        "last_seq": episode.last_seq,
        "turns": len(turns),
        "summary": episode.summary,
        "open": not episode.closed,
    }


def scope_history(store: Store, namespace: int, turn: Turn) -> list[Turn]:
    """The turns of the scope that a turn belongs to, in time order; the turn alone where it has no scope yet."""
    intents = store.labels.intents(namespace, turns=[turn.row])
    if not intents:
        return [turn]
    resolved = resolved_scopes(store, namespace)
    mine = resolved[intents[0][2].scope.id].id
    members = [identity for identity, scope in resolved.items() if scope.id == mine]
    marks = ",".join("?" * len(members))
    rows = store.database.read(
        f"SELECT turn FROM intent WHERE namespace = ? AND scope IN ({marks})", (namespace, *members)
    )
    return sorted(store.turns.by_rows(namespace, [row[0] for row in rows]).values(), key=lambda t: (t.time, t.row))


def vocabulary(store: Store, namespace: int, kind: str) -> dict[str, Any]:
    """Labels of one kind by number of turns, most first; properties by number of records."""
    if kind == "property":
        counted = store.records.counts(namespace)
        most_first = sorted(counted, key=lambda name: (-counted[name], name))
        return {"results": [{"label": name, "records": counted[name]} for name in most_first]}
    names = label_names(store.labels.labels(namespace))
    counts: dict[str, int] = defaultdict(int)
    for _, _, intent in store.labels.intents(namespace):
        for label in intent.events if kind == "event" else intent.entity_types:
            counts[names.get(label.id, label.id)] += 1
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return {"results": [{"label": name, "turns": n} for name, n in ordered]}


def status(store: Store, embedder: Embedder, names: list[str]) -> dict[str, Any]:
    """State of namespaces: what is stored, what is embedded, what is pending or failed, what it cost."""
    return {
        "path": str(store.folder),
        "schema": store.database.version,
        "namespaces": [_namespace_status(store, name) for name in names],
        "index_rebuilds": store.embeddings.rebuilt,
    }


def _namespace_status(store: Store, name: str) -> dict[str, Any]:
    ordinal = store.namespaces.ordinal(name)
    turns, vectors = store.turns.count(ordinal), store.embeddings.count(ordinal, TURN)
    operations = store.operations.counts(ordinal)
    return {
        "namespace": name,
        "turns": turns,
        "embedded": vectors,
        "labelled": int(store.database.read("SELECT count(*) FROM intent WHERE namespace = ?", (ordinal,))[0][0]),
        # A search on the others is by words only until they are embedded.
        "degraded": vectors < turns,
        "trajectories": store.turns.trajectories(ordinal),
        "scopes": len({scope.id for scope in resolved_scopes(store, ordinal).values()}),
        "episodes": len(store.labels.episodes(ordinal)),
        "operations": operations,
        "failures": [
            {"id": op.id, "stage": op.stage, "error": op.error} for op in store.operations.failures(ordinal)[:20]
        ],
        "embedder": store.embeddings.active(ordinal),
        "usage": store.operations.usage(ordinal),
    }


_WHOLE_NAMESPACE = [
    "turn",
    "intent",
    "snippet",
    "episode",
    "scope",
    "label",
    "record",
    "record_evidence",
    "entity_alias",
    "state",
    "state_choice",
    "link",
    "episode_key",
    "embedding",
    "operation",
    "model_call",
    "usage",
    "progress",
    "tombstone",
]


def erase(store: Store, namespace: int, place: Address) -> tuple[dict[str, Any], list[str]]:
    """Remove a namespace, or a session or trajectory of it, from every place.

    Returns a report that counts each place, and the ids of the scopes left without their wording.
    """
    sessions = None if place.session is None or place.whole_run else (place.session,)
    trajectories = None if place.trajectory is None else (place.trajectory,)
    part = sessions is not None or trajectories is not None
    with store.database.write() as connection:
        before = _row_counts(store, namespace)
        # Read within the transaction: what arrives later is not part of it.
        turns = selected_turns(store, namespace, Filters(trajectories=trajectories, sessions=sessions))
        worded = store.remove_turns(connection, namespace, turns, bury=False)
        if not part:
            connection.execute("DELETE FROM tombstone WHERE namespace = ?", (namespace,))
            connection.execute("DELETE FROM namespace WHERE ordinal = ?", (namespace,))
        else:
            _forget_labels(connection, namespace)
    files = store.embeddings.forget(namespace)
    store.database.compact()
    after = _row_counts(store, namespace)
    report = {
        "namespace": place.namespace,
        "trajectory": place.trajectory,
        "session": place.session,
        "removed": {table: before[table] - after[table] for table in before},
        "lexical_documents": len(turns),
        "index_files": files,
        "compacted": ["memory.sqlite3", "memory.sqlite3-wal"],
        "not_covered": "exports and backups made earlier lie where they were written",
    }
    return report, worded


def _forget_labels(connection: sqlite3.Connection, namespace: int) -> None:
    """Drop grown labels that no turn carries any more: they were worded from turns that are gone."""
    connection.execute(
        "DELETE FROM label WHERE namespace = :n AND origin = 'grown' AND id NOT IN ("
        " SELECT json_extract(l.value, '$[0]') FROM intent i, json_each(i.events) l WHERE i.namespace = :n UNION"
        " SELECT json_extract(l.value, '$[0]') FROM intent i, json_each(i.entity_types) l WHERE i.namespace = :n)"
        " AND NOT EXISTS (SELECT 1 FROM label c WHERE c.namespace = :n AND label.id IN (c.canonical, c.parent))",
        {"n": namespace},
    )


def _row_counts(store: Store, namespace: int) -> dict[str, int]:
    return {
        table: int(store.database.read(f"SELECT count(*) FROM {table} WHERE namespace = ?", (namespace,))[0][0])
        for table in _WHOLE_NAMESPACE
    }


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()
