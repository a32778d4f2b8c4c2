"""One SQLite file: WAL, one writer at a time, foreign errors translated here and nowhere else."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import BusyError, StoreError
from .migrations import migrate, roll_back

_PATIENCE = 0.05


class Database:
    """Connections to one memory file.

    Every thread reads over a connection of its own. Writes are serialised: within the process by a lock, between
    processes by `BEGIN IMMEDIATE` and the busy time-out. No transaction is held across a model call.

    Args:
        path: the SQLite file; its folder is created.
        busy_seconds: how long a write waits for another process.
    """

    def __init__(self, path: Path, busy_seconds: float = 60.0) -> None:
        self.path = path
        self._busy_seconds = busy_seconds
        self._local = threading.local()
        self._all: dict[threading.Thread, sqlite3.Connection] = {}
        self._guard = threading.Lock()
        self._writing = threading.RLock()
        self._closed = False
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"cannot create {path.parent}: {error}") from error
        try:
            with translated(path):
                self.version = migrate(self.connection)
        except BaseException:
            self.close()
            raise

    @property
    def connection(self) -> sqlite3.Connection:
        """This thread's connection, for reading."""
        found: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if found is None:
            with self._guard:
                if self._closed:
                    raise StoreError(f"{self.path} is closed")
                for thread in [thread for thread in self._all if not thread.is_alive()]:
                    self._all.pop(thread).close()
                found = self._all[threading.current_thread()] = self._connect()
            self._local.connection = found
        return found

    def _connect(self) -> sqlite3.Connection:
        with translated(self.path):
            connection = sqlite3.connect(
                self.path, timeout=self._busy_seconds, isolation_level=None, check_same_thread=False
            )
            connection.row_factory = sqlite3.Row
            try:
                self._set_up(connection)
            except BaseException:
                connection.close()
                raise
            return connection

    def _set_up(self, connection: sqlite3.Connection) -> None:
        deadline = time.monotonic() + self._busy_seconds
        while True:
            try:
                connection.execute("PRAGMA journal_mode=WAL")
                break
            except sqlite3.OperationalError as error:
                # The switch of a new file ignores the busy time-out.
                if "locked" not in str(error) or time.monotonic() > deadline:
                    raise
                time.sleep(_PATIENCE)
        # An acknowledged turn survives a power cut, not only a killed process.
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA foreign_keys=ON")
        connection.execute("PRAGMA secure_delete=ON")
        connection.execute("PRAGMA temp_store=MEMORY")

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """One short write transaction: committed as a whole, or rolled back."""
        with self._writing, translated(self.path):
            connection = self.connection
            if connection.in_transaction:
                yield connection
                return
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                roll_back(connection)
                raise

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """All reads of this thread within it see the file as it was at the first of them."""
        with translated(self.path):
            self.connection.execute("BEGIN")
            try:
                yield
            finally:
                roll_back(self.connection)

    def read(self, sql: str, parameters: Sequence[Any] | Mapping[str, Any] = ()) -> list[sqlite3.Row]:
        """All rows of one query."""
        with translated(self.path):
            return self.connection.execute(sql, parameters).fetchall()

    def compact(self) -> None:
        """Return freed pages to the disk, so that erased text is in neither the file nor its log.

        Raises:
            BusyError: another process kept reading; the log still holds old pages. Compact again.
        """
        deadline = time.monotonic() + self._busy_seconds
        with self._writing, translated(self.path):
            self.connection.execute("INSERT INTO lexical(lexical) VALUES ('optimize')")
            self.connection.execute("VACUUM")
            while self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
                if time.monotonic() > deadline:
                    raise BusyError(f"{self.path}: its log is still read by another process: compact again")
                time.sleep(_PATIENCE)

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    def close(self) -> None:
        """Close every connection; using the database afterwards raises."""
        with self._guard:
            self._closed = True
            for connection in self._all.values():
                connection.close()
            self._all.clear()
        self._local = threading.local()


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into ours, each with the remedy."""
    try:
        yield
    except sqlite3.OperationalError as error:
        text = str(error)
        if "locked" in text or "busy" in text:
            raise BusyError(
                f"{path} is held by another process ({text}): retry, or raise store.busy_seconds"
            ) from error
        if "readonly" in text or "unable to open" in text:
            raise StoreError(f"cannot write {path} ({text}): check its permissions and folder") from error
        if "full" in text:
            raise StoreError(f"no space left for {path} ({text}): free some; nothing was half-written") from error
        raise StoreError(f"{path}: {text}") from error
    except sqlite3.ProgrammingError as error:
        if "closed" in str(error):
            raise StoreError(f"{path} is closed") from error
        raise
    except sqlite3.DatabaseError as error:
        if isinstance(error, sqlite3.IntegrityError):
            raise
        raise StoreError(
            f"{path} is not a usable memory file ({error}): restore it from an export or a copy"
        ) from error
