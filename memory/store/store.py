"""The store as one object: a SQLite file, the words and vectors over it, and what removes from all of them at once."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock

from ..errors import StoreError
from ..types import Reference, Turn
from .calls import ModelCalls
from .database import Database
from .embeddings import Embeddings
from .episodes import Episodes
from .labels import Labels
from .lexical import LexicalIndex, fold, terms
from .links import Links
from .namespaces import Namespaces
from .operations import Operations
from .record_index import RecordIndex
from .records import Records
from .states import StateTable
from .traces import TraceRows
from .turn_labels import TurnLabels
from .turns import Turns, words_about

_SENTENCE = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")
_QUOTED = re.compile(r"[\"“„«「『]([^\"“”„«»「」『』]+)[\"”“»」』]|(?<!\w)'([^']+)'(?!\w)|[:：]\s*([^\n]+)")
_EDGES = " \t.,;:!?…\"'“”„«»「」『』。，！？：；"
_PAGE = 500
_PROBE = "Running agencies' happily generalised organisations; naïve Ünïcode café 12.5% 北京大学 東京 서울 don't"
"""Words that a change of the stemmer or the tokenizer would cut otherwise."""
_MIN_QUOTE = 12
"""Bytes from which a part of a text is recognised when it is quoted: shorter ones are said by chance."""


class Store:
    """Everything under one folder: `memory.sqlite3`, its log, the index generations and the locks of its workers.

    Args:
        folder: where it all lives; created where absent.
        busy_seconds: how long a write waits for another process.

    Raises:
        StoreError: the folder or file cannot be used.
    """

    def __init__(self, folder: Path, busy_seconds: float = 60.0) -> None:
        self.folder = folder
        self.database = Database(folder / "memory.sqlite3", busy_seconds)
        self.lexical = LexicalIndex(self.database)
        self.namespaces = Namespaces(self.database)
        self.turns = Turns(self.database, self.lexical)
        self.labels = Labels(self.database)
        self.operations = Operations(self.database)
        self.records = Records(self.database)
        self.record_index = RecordIndex(self.database)
        self.states = StateTable(self.database, self.records)
        self.calls = ModelCalls(self.database)
        self.traces = TraceRows(self.database)
        self.turn_labels = TurnLabels(self.database)
        self.episodes = Episodes(self.database)
        self.links = Links(self.database)
        self.embeddings = Embeddings(self.database, self.namespaces, folder / "indexes")
        self._guard = threading.Lock()
        self._working: dict[int, threading.Lock] = {}
        self._salt = self._secret("tombstone_salt")
        self._match_words()

    @contextmanager
    def working(self, namespace: int) -> Iterator[None]:
        """Held by the one worker, of all threads and processes, that labels a namespace.

        Labelling is online: each decision depends on the one before it. Nothing else waits for this lock.
        """
        with self._guard:
            mine = self._working.setdefault(namespace, threading.Lock())
        lock = FileLock(self.folder / "locks" / f"{namespace}.lock")
        with mine:
            try:
                (self.folder / "locks").mkdir(exist_ok=True)
                lock.acquire()
            except OSError as error:
                raise StoreError(f"cannot lock {lock.lock_file}: {error}: check the folder's permissions") from error
            try:
                yield
            finally:
                lock.release()

    def _match_words(self) -> None:
        """Index all words anew where this release, or the stemmer it found, cuts text otherwise than the file's."""
        cut = hashlib.sha256(" ".join(terms(_PROBE)).encode()).hexdigest()
        found = self.database.read("SELECT value FROM setting WHERE key = 'terms'")
        if found and found[0]["value"] == cut:
            return
        with self.database.write() as connection:
            connection.execute("INSERT OR REPLACE INTO setting VALUES ('terms', ?)", (cut,))
            if found:
                self.lexical.clear(connection)
                for namespace in map(self.namespaces.ordinal, self.namespaces.names()):
                    row = 0
                    while page := self.turns.after(namespace, row, _PAGE):
                        row = page[-1].row
                        self.index_words(connection, namespace, page)

    def index_words(self, connection: sqlite3.Connection, namespace: int, turns: Sequence[Turn]) -> None:
        """Index the words of turns that are stored but not in the index, with what grounding added to them."""
        for turn in turns:
            words = words_about(turn.speaker, turn.time)
            self.lexical.add(connection, namespace, turn.row, turn.searchable_text, words)
        for row, snippet in self.labels.snippets(namespace, [turn.row for turn in turns]).items():
            if snippet.references:
                self.lexical.add(connection, namespace, -row, grounding_words(snippet.references))

    def remove_turns(
        self, connection: sqlite3.Connection, namespace: int, turns: Sequence[Turn], bury: bool
    ) -> list[str]:
        """Remove turns with their words, vectors, labels and snippets, and what only they supported.

        What was worded from them and from others loses its wording: summaries of episodes, names and gists of scopes.
        Returns the ids of those scopes, which the caller may have worded anew.

        `bury` keeps a keyed digest of what was said, so that the text is not stored again from a quotation.
        """
        worded = self._unword(connection, namespace, turns)
        self.links.unlink(connection, namespace, [turn.row for turn in turns])
        grounded = self.labels.snippets(namespace, [turn.row for turn in turns])
        claimed = self.records.of_turns(namespace, [turn.id for turn in turns])
        with self.states.changing(connection, namespace, claimed.values()):
            for turn in turns:
                references = grounded[turn.row].references if turn.row in grounded else ()
                self._remove_turn(connection, namespace, turn, references, bury)
            self.records.prune(connection, namespace, claimed)
        self._remove_orphans(connection, namespace)
        self.traces.remove_orphans(connection)
        self.namespaces.bump(connection, namespace, removed=True)
        return worded

    def _remove_turn(
        self, connection: sqlite3.Connection, namespace: int, turn: Turn, references: Sequence[Reference], bury: bool
    ) -> None:
        if references:
            self.lexical.remove(connection, namespace, -turn.row, grounding_words(references))
        if bury:
            for digest in {self._buried(namespace, part) for part in [turn.text, *quotable(turn.text)]}:
                connection.execute(
                    "INSERT OR REPLACE INTO tombstone VALUES (?, ?, ?)", (namespace, digest, time.time())
                )
        connection.execute(
            "DELETE FROM embedding WHERE namespace = ? AND view IN ('turn', 'grounded', 'scope') AND owner = ?",
            (namespace, turn.row),
        )
        self.traces.remove_quoting(connection, namespace, turn)
        self.turns.remove(connection, namespace, turn)

    def _unword(self, connection: sqlite3.Connection, namespace: int, turns: Sequence[Turn]) -> list[str]:
        for turn in turns:
            connection.execute(
                "UPDATE episode SET summary = ''"
                " WHERE namespace = ? AND trajectory = ? AND ? BETWEEN first_seq AND last_seq",
                (namespace, turn.trajectory, turn.seq),
            )
        intents = self.labels.intents(namespace, turns=[turn.row for turn in turns])
        scopes = sorted({intent.scope.id for _, _, intent in intents})
        for scope in scopes:
            connection.execute(
                "UPDATE scope SET gist = '', label = CASE WHEN by_hand THEN label ELSE 'scope ' || row END"
                " WHERE namespace = ? AND id = ?",
                (namespace, scope),
            )
        return scopes

    def _remove_orphans(self, connection: sqlite3.Connection, namespace: int) -> None:
        connection.execute(
            "DELETE FROM episode WHERE namespace = :n AND NOT EXISTS (SELECT 1 FROM turn t WHERE t.namespace = :n"
            " AND t.trajectory = episode.trajectory AND t.seq BETWEEN episode.first_seq AND episode.last_seq)",
            {"n": namespace},
        )
        # The numbers of removed turns may be given out again: no episode reaches beyond its own.
        connection.execute(
            "UPDATE episode SET last_seq = (SELECT max(seq) FROM turn t WHERE t.namespace = :n"
            " AND t.trajectory = episode.trajectory AND t.seq BETWEEN episode.first_seq AND episode.last_seq)"
            " WHERE namespace = :n",
            {"n": namespace},
        )
        connection.execute(
            "DELETE FROM scope WHERE namespace = :n AND by_hand = 0"
            " AND NOT EXISTS (SELECT 1 FROM intent i WHERE i.namespace = :n AND i.scope = scope.id)"
            " AND NOT EXISTS (SELECT 1 FROM scope c WHERE c.namespace = :n AND scope.id IN (c.canonical, c.parent))",
            {"n": namespace},
        )
        connection.execute(
            "DELETE FROM operation WHERE namespace = :n"
            " AND NOT EXISTS (SELECT 1 FROM turn WHERE turn.operation = operation.id)",
            {"n": namespace},
        )

    def orphans(self, namespace: int) -> dict[str, int]:
        """Rows that hang on nothing, by table: all zero in a sound file."""
        count = "SELECT count(*) FROM"
        queries = {
            "embedding": f"{count} embedding e WHERE e.namespace = ? AND e.view IN ('turn', 'grounded', 'scope')"
            " AND NOT EXISTS (SELECT 1 FROM turn t WHERE t.row = e.owner AND t.namespace = e.namespace)",
            "intent": f"{count} intent i WHERE i.namespace = ? AND NOT EXISTS (SELECT 1 FROM scope s"
            " WHERE s.namespace = i.namespace AND s.id = i.scope)",
            "record": f"{count} record r WHERE r.namespace = ? AND NOT EXISTS (SELECT 1 FROM record_evidence e"
            " WHERE e.namespace = r.namespace AND e.record = r.id AND e.states = 1)",
            "state": f"{count} state s WHERE s.namespace = ? AND EXISTS (SELECT 1 FROM json_each(s.records) j"
            " WHERE j.value NOT IN (SELECT id FROM record r WHERE r.namespace = s.namespace))",
            "link": f"{count} link l WHERE l.namespace = ? AND EXISTS (SELECT 1 FROM json_each(l.evidence) j"
            " WHERE j.value NOT IN (SELECT id FROM turn t WHERE t.namespace = l.namespace))",
            "episode": f"{count} episode e WHERE e.namespace = ? AND NOT EXISTS (SELECT 1 FROM turn t WHERE"
            " t.namespace = e.namespace AND t.trajectory = e.trajectory AND t.seq BETWEEN e.first_seq AND e.last_seq)",
        }
        return {table: int(self.database.read(sql, (namespace,))[0][0]) for table, sql in queries.items()}

    def is_buried(self, namespace: int, text: str) -> bool:
        """Whether this text was deleted from the namespace."""
        found = self.database.read(
            "SELECT 1 FROM tombstone WHERE namespace = ? AND digest = ?", (namespace, self._buried(namespace, text))
        )
        return bool(found)

    def has_tombstones(self, namespace: int) -> bool:
        """Whether anything was ever deleted from the namespace."""
        return bool(self.database.read("SELECT 1 FROM tombstone WHERE namespace = ? LIMIT 1", (namespace,)))

    def unbury(self, connection: sqlite3.Connection, namespace: int, text: str) -> None:
        """Forget that a text was deleted: its user has said it again."""
        for part in {text, *quotable(text)}:
            connection.execute(
                "DELETE FROM tombstone WHERE namespace = ? AND digest = ?", (namespace, self._buried(namespace, part))
            )

    def _buried(self, namespace: int, text: str) -> bytes:
        # Keyed, so that the file does not confirm a guess of what was deleted to one who has only the digests.
        message = f"{namespace}\0{' '.join(fold(text).split()).strip(_EDGES)}".encode("utf-8", "replace")
        return hmac.new(self._salt, message, hashlib.sha256).digest()[:16]

    def _secret(self, key: str) -> bytes:
        with self.database.write() as connection:
            connection.execute("INSERT OR IGNORE INTO setting VALUES (?, ?)", (key, secrets.token_hex(32)))
        return bytes.fromhex(self.database.read("SELECT value FROM setting WHERE key = ?", (key,))[0][0])

    def close(self) -> None:
        """Save the indexes and close the file. A second time does nothing."""
        try:
            if not self.database.closed:
                self.embeddings.flush()
        finally:
            self.database.close()


def quotable(text: str) -> list[str]:
    """The parts of a text that may be a quotation, longest first: its sentences and lines, and within them what stands
    in quotation marks or after a colon.
    """
    sentences = _SENTENCE.split(text)
    marked = [part for match in _QUOTED.finditer(text) for part in match.groups() if part]
    parts = {part.strip() for part in [*sentences, *marked, *(s for part in marked for s in _SENTENCE.split(part))]}
    return sorted((part for part in parts if len(part.encode("utf-8", "replace")) >= _MIN_QUOTE), key=len, reverse=True)


def grounding_words(references: Sequence[Reference]) -> str:
    """The words that grounding adds to a turn: the targets of its references."""
    return " ".join(reference.target for reference in references)
