"""Long-term memory for LLM agents: what is remembered and how it is found.

`intentmem.serving.open_memory` opens one with the usual encoder; this package needs neither torch nor a network.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .aio import AsyncMemory
    from .errors import IntentMemError
    from .memory import Memory
    from .types import Attachment, NewTurn

__all__ = ["AsyncMemory", "Attachment", "IntentMemError", "Memory", "NewTurn"]

_HOMES = {
    "AsyncMemory": "aio",
    "Attachment": "types",
    "IntentMemError": "errors",
    "Memory": "memory",
    "NewTurn": "types",
}


def __getattr__(name: str) -> Any:
    # Whoever needs an error or a value from a module below (the command line, for its help) does not load the rest.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
