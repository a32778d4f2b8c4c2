"""Where everything is kept: SQLite is the truth, FTS5 finds words in it, FAISS is a cache of its vectors."""

from .store import Store

__all__ = ["Store"]
