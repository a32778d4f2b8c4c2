"""Everything that runs as a process, and the composition root: `open_memory` puts the parts together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .compose import open_async_memory, open_memory
    from .settings import Settings, explain_settings, load_settings

__all__ = ["Settings", "explain_settings", "load_settings", "open_async_memory", "open_memory"]


def __getattr__(name: str) -> Any:
    # The command line lives below this package and has to answer `--help` before anything is loaded.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import compose, settings

    return getattr(compose if name.startswith("open_") else settings, name)
