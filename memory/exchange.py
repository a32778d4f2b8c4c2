"""A namespace as JSONL and back: turns, labels, intents, snippets, episodes, vectors. Nothing is decided again.

The first line is a header with the format's version and the number of lines of each kind; a file that ends early is
refused as a whole.
"""

from __future__ import annotations

import base64
import json
import os
import secrets
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .errors import InputError, StoreError
from .store import Store
from .store.operations import Operation

FORMAT = "intentmem-export"
VERSION = 1
_TABLES = (
    *("label", "scope", "turn", "intent", "snippet", "episode", "record", "state", "link", "tombstone", "turn_label"),
    *("record_evidence", "entity_alias", "state_choice", "episode_key"),
)
_WITHOUT_ID = ("tombstone", "record_evidence", "entity_alias", "state_choice", "episode_key")
_HANGS_ON_TURN = {
    "intent": "turn",
    "snippet": "turn",
    "turn_label": "turn",
    "embedding": "owner",
    "episode_key": "place",
}
_NUMBERED = ("label", "scope", "turn", "intent", "episode", "embedding")
_BATCH = 500


def export(store: Store, namespace: int, path: Path) -> dict[str, int]:
    """Write the file under another name first and rename it: it is there whole, or not at all.

    Raises:
        StoreError: the file cannot be written.
    """
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with store.database.snapshot():
            counts = _write(store, namespace, partial)
        partial.replace(path)
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error}") from error
    finally:
        partial.unlink(missing_ok=True)
    return counts


def _write(store: Store, namespace: int, path: Path) -> dict[str, int]:
    fingerprint = store.embeddings.active(namespace)
    counts = Counter(kind for kind, _ in _exported(store, namespace, fingerprint))
    header = {"format": FORMAT, "version": VERSION, "fingerprint": fingerprint, "counts": dict(counts)}
    with path.open("x", encoding="utf-8", newline="\n") as file:
        file.write(json.dumps(header) + "\n")
        for kind, row in _exported(store, namespace, fingerprint):
            file.write(json.dumps({"table": kind, **row}, ensure_ascii=False) + "\n")
        file.flush()
        os.fsync(file.fileno())
    return dict(counts)


def import_(store: Store, namespace: int, path: Path) -> dict[str, int]:
    """Read an export into a namespace in one transaction; what is there already (by id) is left as it is.

    Raises:
        InputError: not an export, of a newer version, cut short, or for a trajectory that holds other turns; nothing
            is stored.
    """
    header, rows = _read(path)
    if store.embeddings.active(namespace) not in (None, header["fingerprint"]):
        rows = [row for row in rows if row["table"] != "embedding"]
    counts: Counter[str] = Counter()
    with store.database.write() as connection:
        if header["fingerprint"] and store.embeddings.active(namespace) is None:
            store.namespaces.set_progress(connection, namespace, "fingerprint", header["fingerprint"])
        fresh: dict[int, int] = {}
        for number, row in enumerate(rows, start=2):
            if row["table"] == "state":
                # They follow from the records, those that are here already included.
                continue
            try:
                counts[row["table"]] += _put(connection, namespace, dict(row), fresh)
            except sqlite3.IntegrityError as error:
                raise InputError(
                    "path",
                    f"{path} line {number} clashes with what is stored ({error})",
                    "import into an empty namespace",
                ) from error
            except (KeyError, TypeError, sqlite3.Error) as error:
                raise InputError(
                    "path", f"{path} line {number} is not a valid {row.get('table')} line: {error!r}"
                ) from error
        if counts["record"]:
            store.states.rebuild(connection, namespace)
        store.index_words(connection, namespace, list(store.turns.by_rows(namespace, fresh.values()).values()))
        _open_operation(store, connection, namespace, list(fresh.values()))
        store.namespaces.bump(connection, namespace)
    return {kind: n for kind, n in counts.items() if n}


def _exported(store: Store, namespace: int, fingerprint: str | None) -> Iterator[tuple[str, dict[str, Any]]]:
    for table in _TABLES:
        # In order of arrival: the rows are numbered anew when they are read.
        order = "row" if table in _NUMBERED else "1, 2, 3"
        for row in store.database.read(f"SELECT * FROM {table} WHERE namespace = ? ORDER BY {order}", (namespace,)):
            yield table, _encoded(row)
    for row in store.database.read(
        "SELECT row, view, owner, fingerprint, vector FROM embedding WHERE namespace = ? AND fingerprint = ?"
        " AND view IN ('turn', 'grounded') ORDER BY row",
        (namespace, fingerprint),
    ):
        yield "embedding", _encoded(row)


def _encoded(row: sqlite3.Row) -> dict[str, Any]:
    return {
        key: {"base64": base64.b64encode(value).decode()} if isinstance(value, bytes) else value
        for key, value in zip(row.keys(), row, strict=True)
        if key != "namespace"
    }


def _decoded(value: dict[str, Any]) -> Any:
    return base64.b64decode(value["base64"]) if value.keys() == {"base64"} else value


def _read(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    try:
        # Not splitlines(): a turn may hold other characters that end lines.
        lines = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
        header = json.loads(lines[0])
        if header.get("format") != FORMAT:
            raise ValueError("the first line is not an export's header")
        if header["version"] > VERSION:
            raise InputError("path", f"{path} is an export of version {header['version']}", "upgrade intentmem")
        rows = [json.loads(line, object_hook=_decoded) for line in lines[1:]]
        counted = Counter(row["table"] for row in rows)
    except (OSError, ValueError, IndexError, AttributeError, KeyError, TypeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError("path", f"{path} is not a whole intentmem export: {error}", "export again") from error
    if counted != Counter(header["counts"]):
        raise InputError("path", f"{path} is cut short: {sum(header['counts'].values())} lines were written")
    if set(counted) - {*_TABLES, "embedding"}:
        raise InputError("path", f"{path} holds lines of an unknown kind")
    return header, rows


def _put(connection: sqlite3.Connection, namespace: int, row: dict[str, Any], fresh: dict[int, int]) -> int:
    """Insert one line; returns 1 where it was new. `fresh` maps the integer rows of exported turns to ours."""
    table = row.pop("table")
    old = row.pop("row") if table in _NUMBERED else 0
    if table in _HANGS_ON_TURN:
        column = _HANGS_ON_TURN[table]
        if row[column] not in fresh:
            return 0
        row[column] = fresh[row[column]]
    elif "id" in row:
        found = connection.execute(f"SELECT 1 FROM {table} WHERE namespace = ? AND id = ?", (namespace, row["id"]))
        if found.fetchone():
            return 0
    if not all(key.isidentifier() for key in row):
        raise KeyError("a column name")
    columns, marks = ", ".join(["namespace", *row]), ", ".join("?" * (len(row) + 1))
    verb = "INSERT OR IGNORE" if table in _WITHOUT_ID else "INSERT"
    cursor = connection.execute(f"{verb} INTO {table} ({columns}) VALUES ({marks})", (namespace, *row.values()))
    if table == "turn":
        fresh[old] = int(cursor.lastrowid or 0)
    return 1


def _open_operation(store: Store, connection: sqlite3.Connection, namespace: int, rows: list[int]) -> None:
    """What the export had no vectors or labels of is done by the pipeline, under an operation of its own."""
    if not rows:
        return
    identity, now = f"op_{secrets.token_hex(8)}", time.time()
    store.operations.open(
        connection,
        Operation(
            identity, namespace, identity, "", "", "pending", "stored", 0, max(rows), len(rows), 1, 0, None, now, now
        ),
    )
    connection.executemany(
        "UPDATE turn SET operation = ? WHERE row = ? AND namespace = ?", [(identity, row, namespace) for row in rows]
    )
