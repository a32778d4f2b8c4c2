"""Everything that runs as a process, and the composition root: `open_memory` puts the parts together."""

from .compose import open_async_memory, open_memory
from .settings import Settings, explain_settings, load_settings

__all__ = ["Settings", "explain_settings", "load_settings", "open_async_memory", "open_memory"]
