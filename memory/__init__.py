"""Long-term memory for LLM agents: what is remembered and how it is found.

`intentmem.serving.open_memory` opens one with the usual encoder; this package needs neither torch nor a network.
"""

from .aio import AsyncMemory
from .errors import IntentMemError
from .memory import Memory
from .types import Attachment, NewTurn

__all__ = ["AsyncMemory", "Attachment", "IntentMemError", "Memory", "NewTurn"]
