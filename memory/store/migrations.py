"""The schema, as numbered steps that are only ever appended to.

Each step runs in one transaction together with the record that it ran: a kill leaves the file at a whole version.
"""

from __future__ import annotations

import sqlite3
import time

from ..errors import StoreError

_DATA_MODEL = """
CREATE TABLE setting (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE namespace (
  ordinal INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE,
  epoch INTEGER NOT NULL DEFAULT 0, removals INTEGER NOT NULL DEFAULT 0, created REAL NOT NULL);
CREATE TABLE operation (
  id TEXT PRIMARY KEY, namespace INTEGER NOT NULL REFERENCES namespace(ordinal) ON DELETE CASCADE,
  key TEXT NOT NULL, digest TEXT NOT NULL, trajectory TEXT NOT NULL, status TEXT NOT NULL, stage TEXT NOT NULL,
  done_row INTEGER NOT NULL, last_row INTEGER NOT NULL, turns INTEGER NOT NULL, seen INTEGER NOT NULL DEFAULT 1,
  attempts INTEGER NOT NULL DEFAULT 0, error TEXT, created REAL NOT NULL, updated REAL NOT NULL,
  UNIQUE (namespace, key));
CREATE INDEX operation_open ON operation (status, created);
CREATE INDEX operation_latest ON operation (namespace, trajectory, created);
CREATE TABLE turn (
  row INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL,
  namespace INTEGER NOT NULL REFERENCES namespace(ordinal) ON DELETE CASCADE,
  trajectory TEXT NOT NULL, seq INTEGER NOT NULL, role TEXT NOT NULL, speaker TEXT,
  time REAL NOT NULL, utc_offset INTEGER NOT NULL, time_source TEXT NOT NULL, session TEXT,
  text TEXT NOT NULL, terms INTEGER NOT NULL, asks REAL NOT NULL,
  attachments TEXT NOT NULL, meta TEXT NOT NULL, source_id TEXT,
  digest BLOB NOT NULL, operation TEXT NOT NULL,
  UNIQUE (namespace, id), UNIQUE (namespace, trajectory, seq));
CREATE UNIQUE INDEX turn_source ON turn (namespace, trajectory, source_id) WHERE source_id IS NOT NULL;
CREATE INDEX turn_of_namespace ON turn (namespace, row);
CREATE INDEX turn_digest ON turn (namespace, digest);
CREATE INDEX turn_operation ON turn (operation, row);
CREATE TABLE scope (
  row INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL,
  namespace INTEGER NOT NULL REFERENCES namespace(ordinal) ON DELETE CASCADE,
  label TEXT NOT NULL, gist TEXT NOT NULL, parent TEXT, canonical TEXT, by_hand INTEGER NOT NULL DEFAULT 0,
  decided_by TEXT NOT NULL, UNIQUE (namespace, id));
CREATE TABLE label (
  row INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL,
  namespace INTEGER NOT NULL REFERENCES namespace(ordinal) ON DELETE CASCADE,
  kind TEXT NOT NULL, name TEXT NOT NULL, description TEXT NOT NULL, parent TEXT, canonical TEXT,
  origin TEXT NOT NULL, decided_by TEXT NOT NULL, UNIQUE (namespace, id));
CREATE TABLE intent (
  row INTEGER PRIMARY KEY AUTOINCREMENT,
  turn INTEGER NOT NULL UNIQUE REFERENCES turn(row) ON DELETE CASCADE,
  namespace INTEGER NOT NULL REFERENCES namespace(ordinal) ON DELETE CASCADE,
  scope TEXT NOT NULL, scope_probability REAL NOT NULL, move TEXT NOT NULL,
  events TEXT NOT NULL, entity_types TEXT NOT NULL, near TEXT NOT NULL,
  decided_by TEXT NOT NULL, by_hand INTEGER NOT NULL DEFAULT 0);
CREATE INDEX intent_of_namespace ON intent (namespace, row);
CREATE INDEX intent_of_scope ON intent (namespace, scope);
CREATE TABLE snippet (
  turn INTEGER PRIMARY KEY REFERENCES turn(row) ON DELETE CASCADE,
  namespace INTEGER NOT NULL REFERENCES namespace(ordinal) ON DELETE CASCADE,
  grounded TEXT NOT NULL, summary TEXT NOT NULL, refs TEXT NOT NULL, mentions TEXT NOT NULL, decided_by TEXT NOT NULL);
CREATE TABLE episode (
  row INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL,
  namespace INTEGER NOT NULL REFERENCES namespace(ordinal) ON DELETE CASCADE,
  trajectory TEXT NOT NULL, scope TEXT NOT NULL, first_seq INTEGER NOT NULL, last_seq INTEGER NOT NULL,
  summary TEXT NOT NULL, closed INTEGER NOT NULL, decided_by TEXT NOT NULL,
  UNIQUE (namespace, id));
CREATE INDEX episode_place ON episode (namespace, trajectory, first_seq);
CREATE TABLE record (
  id TEXT NOT NULL, namespace INTEGER NOT NULL REFERENCES namespace(ordinal) ON DELETE CASCADE,
  entity TEXT NOT NULL, entity_type TEXT, property TEXT NOT NULL, value TEXT NOT NULL, condition TEXT,
  modality TEXT NOT NULL, valid_time TEXT, speaker TEXT, episode TEXT, evidence TEXT NOT NULL,
  confidence REAL NOT NULL, decided_by TEXT NOT NULL, PRIMARY KEY (namespace, id));
CREATE INDEX record_key ON record (namespace, entity, property);
CREATE TABLE state (
  id TEXT NOT NULL, namespace INTEGER NOT NULL REFERENCES namespace(ordinal) ON DELETE CASCADE,
  key TEXT NOT NULL, version INTEGER NOT NULL, value TEXT NOT NULL, valid_from REAL, valid_to REAL,
  status TEXT NOT NULL, confidence REAL NOT NULL, evidence TEXT NOT NULL, decided_by TEXT NOT NULL,
  PRIMARY KEY (namespace, id), UNIQUE (namespace, key, version));
CREATE TABLE link (
  id TEXT NOT NULL, namespace INTEGER NOT NULL REFERENCES namespace(ordinal) ON DELETE CASCADE,
  source TEXT NOT NULL, target TEXT NOT NULL, type TEXT NOT NULL, direction TEXT NOT NULL,
  confidence REAL NOT NULL, trust TEXT NOT NULL, evidence TEXT NOT NULL, decided_by TEXT NOT NULL,
  PRIMARY KEY (namespace, id));
CREATE TABLE embedding (
  row INTEGER PRIMARY KEY AUTOINCREMENT,
  namespace INTEGER NOT NULL REFERENCES namespace(ordinal) ON DELETE CASCADE,
  view TEXT NOT NULL, fingerprint TEXT NOT NULL, owner INTEGER NOT NULL, vector BLOB NOT NULL,
  UNIQUE (namespace, view, fingerprint, owner));
CREATE TABLE progress (
  namespace INTEGER NOT NULL REFERENCES namespace(ordinal) ON DELETE CASCADE, key TEXT NOT NULL, value TEXT NOT NULL,
  PRIMARY KEY (namespace, key)) WITHOUT ROWID;
CREATE TABLE usage (
  namespace INTEGER NOT NULL REFERENCES namespace(ordinal) ON DELETE CASCADE,
  operation TEXT NOT NULL, task TEXT NOT NULL, decider TEXT NOT NULL, calls INTEGER NOT NULL,
  items INTEGER NOT NULL, tokens INTEGER NOT NULL, seconds REAL NOT NULL,
  PRIMARY KEY (namespace, operation, task, decider)) WITHOUT ROWID;
CREATE TABLE tombstone (
  namespace INTEGER NOT NULL, digest BLOB NOT NULL, created REAL NOT NULL,
  PRIMARY KEY (namespace, digest)) WITHOUT ROWID;
CREATE VIRTUAL TABLE lexical USING fts5 (text, meta, content='', tokenize='ascii');
CREATE VIRTUAL TABLE lexical_terms USING fts5vocab (lexical, 'instance');
"""

_MODEL_CALLS = """
CREATE TABLE model_call (
  turn INTEGER NOT NULL REFERENCES turn(row) ON DELETE CASCADE,
  namespace INTEGER NOT NULL REFERENCES namespace(ordinal) ON DELETE CASCADE,
  key TEXT NOT NULL, result TEXT NOT NULL, created REAL NOT NULL,
  PRIMARY KEY (turn, key)) WITHOUT ROWID;
CREATE INDEX model_call_of_namespace ON model_call (namespace);
"""

_TRACES = """
CREATE TABLE trace (
  row INTEGER PRIMARY KEY AUTOINCREMENT,
  namespace INTEGER NOT NULL REFERENCES namespace(ordinal) ON DELETE CASCADE,
  key TEXT NOT NULL, task TEXT NOT NULL, task_hash TEXT NOT NULL, teacher TEXT NOT NULL,
  turn INTEGER NOT NULL REFERENCES turn(row) ON DELETE CASCADE, reach INTEGER NOT NULL,
  body TEXT NOT NULL, options TEXT NOT NULL, created REAL NOT NULL, UNIQUE (namespace, key));
CREATE INDEX trace_of_turn ON trace (turn);
CREATE TABLE trace_options (key TEXT PRIMARY KEY, body TEXT NOT NULL) WITHOUT ROWID;
"""

_TURN_LABELS = """
CREATE TABLE turn_label (
  turn INTEGER NOT NULL REFERENCES turn(row) ON DELETE CASCADE,
  namespace INTEGER NOT NULL REFERENCES namespace(ordinal) ON DELETE CASCADE,
  task TEXT NOT NULL, label TEXT NOT NULL, probability REAL NOT NULL, decided_by TEXT NOT NULL,
  PRIMARY KEY (turn, task, label)) WITHOUT ROWID;
CREATE INDEX turn_label_named ON turn_label (namespace, task, label);
"""

_STATES = """
ALTER TABLE record ADD COLUMN entity_key TEXT NOT NULL DEFAULT '';
ALTER TABLE record ADD COLUMN property_key TEXT NOT NULL DEFAULT '';
ALTER TABLE record ADD COLUMN condition_key TEXT NOT NULL DEFAULT '';
ALTER TABLE record ADD COLUMN relation INTEGER NOT NULL DEFAULT 0;
ALTER TABLE record ADD COLUMN plural INTEGER NOT NULL DEFAULT 0;
CREATE INDEX record_place ON record (namespace, property_key, entity_key, condition_key);
CREATE TABLE record_evidence (
  namespace INTEGER NOT NULL REFERENCES namespace(ordinal) ON DELETE CASCADE,
  record TEXT NOT NULL, turn TEXT NOT NULL, first INTEGER, last INTEGER, states INTEGER NOT NULL, claim TEXT NOT NULL,
  PRIMARY KEY (namespace, record, turn),
  FOREIGN KEY (namespace, record) REFERENCES record(namespace, id) ON DELETE CASCADE,
  FOREIGN KEY (namespace, turn) REFERENCES turn(namespace, id) ON DELETE CASCADE) WITHOUT ROWID;
CREATE INDEX record_evidence_turn ON record_evidence (namespace, turn);
CREATE TABLE entity_alias (
  namespace INTEGER NOT NULL REFERENCES namespace(ordinal) ON DELETE CASCADE,
  alias TEXT NOT NULL, target TEXT NOT NULL, decided_by TEXT NOT NULL, PRIMARY KEY (namespace, alias)) WITHOUT ROWID;
CREATE TABLE state_choice (
  namespace INTEGER NOT NULL, record TEXT NOT NULL, fact TEXT NOT NULL, operation TEXT NOT NULL,
  decided_by TEXT NOT NULL, PRIMARY KEY (namespace, record, fact),
  FOREIGN KEY (namespace, record) REFERENCES record(namespace, id) ON DELETE CASCADE) WITHOUT ROWID;
ALTER TABLE state ADD COLUMN entity TEXT NOT NULL DEFAULT '';
ALTER TABLE state ADD COLUMN property TEXT NOT NULL DEFAULT '';
ALTER TABLE state ADD COLUMN condition TEXT NOT NULL DEFAULT '';
ALTER TABLE state ADD COLUMN said REAL NOT NULL DEFAULT 0;
ALTER TABLE state ADD COLUMN modality TEXT NOT NULL DEFAULT 'asserted';
ALTER TABLE state ADD COLUMN reason TEXT NOT NULL DEFAULT '';
ALTER TABLE state ADD COLUMN records TEXT NOT NULL DEFAULT '[]';
ALTER TABLE state ADD COLUMN supersedes TEXT NOT NULL DEFAULT '';
ALTER TABLE state ADD COLUMN rival TEXT NOT NULL DEFAULT '';
CREATE INDEX state_status ON state (namespace, status);
"""

_RECORDED = """
ALTER TABLE episode ADD COLUMN recorded INTEGER NOT NULL DEFAULT 0;
CREATE INDEX episode_unrecorded ON episode (namespace) WHERE closed = 1 AND recorded <= 0;
"""

_LINKED = """
DROP TABLE link;
CREATE TABLE link (
  id TEXT NOT NULL, namespace INTEGER NOT NULL REFERENCES namespace(ordinal) ON DELETE CASCADE,
  source TEXT NOT NULL, target TEXT NOT NULL, type TEXT NOT NULL, direction TEXT NOT NULL,
  confidence REAL NOT NULL, trust TEXT NOT NULL, evidence TEXT NOT NULL, decided_by TEXT NOT NULL,
  PRIMARY KEY (namespace, id),
  FOREIGN KEY (namespace, source) REFERENCES episode(namespace, id) ON DELETE CASCADE,
  FOREIGN KEY (namespace, target) REFERENCES episode(namespace, id) ON DELETE CASCADE);
CREATE INDEX link_source ON link (namespace, source);
CREATE INDEX link_target ON link (namespace, target);
ALTER TABLE episode ADD COLUMN linked INTEGER NOT NULL DEFAULT 0;
CREATE INDEX episode_unlinked ON episode (namespace) WHERE closed = 1 AND linked <= 0;
CREATE TABLE episode_key (
  namespace INTEGER NOT NULL REFERENCES namespace(ordinal) ON DELETE CASCADE,
  key TEXT NOT NULL, time REAL NOT NULL, place INTEGER NOT NULL, episode TEXT NOT NULL,
  PRIMARY KEY (namespace, key, time, place, episode),
  FOREIGN KEY (namespace, episode) REFERENCES episode(namespace, id) ON DELETE CASCADE) WITHOUT ROWID;
CREATE INDEX episode_key_of ON episode_key (namespace, episode);
"""

MIGRATIONS: tuple[str, ...] = (_DATA_MODEL, _MODEL_CALLS, _TRACES, _TURN_LABELS, _STATES, _RECORDED, _LINKED)
"""SQL of version 1, 2, ...: append only."""


def migrate(connection: sqlite3.Connection) -> int:
    """Bring a file to the newest version; returns it.

    Raises:
        StoreError: the file was written by a newer release.
    """
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.execute("CREATE TABLE IF NOT EXISTS migration (version INTEGER PRIMARY KEY, ran REAL NOT NULL)")
        done: int = connection.execute("SELECT coalesce(max(version), 0) FROM migration").fetchone()[0]
        connection.execute("COMMIT")
    except BaseException:
        roll_back(connection)
        raise
    if done > len(MIGRATIONS):
        raise StoreError(f"the memory file has schema {done}, this release knows {len(MIGRATIONS)}: upgrade intentmem")
    for version in range(done + 1, len(MIGRATIONS) + 1):
        _step(connection, version)
    return len(MIGRATIONS)


def _step(connection: sqlite3.Connection, version: int) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Another process may have run the step while this one waited for the lock.
        if not connection.execute("SELECT 1 FROM migration WHERE version = ?", (version,)).fetchone():
            for statement in _statements(MIGRATIONS[version - 1]):
                connection.execute(statement)
            connection.execute("INSERT INTO migration VALUES (?, ?)", (version, time.time()))
        connection.execute("COMMIT")
    except BaseException:
        roll_back(connection)
        raise


def roll_back(connection: sqlite3.Connection) -> None:
    """Undo the transaction, if there still is one: on a full disk SQLite has undone it by itself."""
    if connection.in_transaction:
        connection.execute("ROLLBACK")


def _statements(script: str) -> list[str]:
    """Split a script into statements; `executescript` would commit the transaction around it."""
    statements, current = [], ""
    for line in script.splitlines():
        current += line + "\n"
        if sqlite3.complete_statement(current):
            statements.append(current.strip())
            current = ""
    return [s for s in statements if s]
