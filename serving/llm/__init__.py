"""A served language model: its client, and an embedder that is served. The `serve` extra holds what they need."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .server_settings import ServerSettings
from .settings import LLMSettings, RemoteEmbedderSettings

if TYPE_CHECKING:
    from .budget import Budget, durable_ledger
    from .client import LLMClient
    from .embedder import RemoteEmbedder
    from .requests import (
        Capabilities,
        Choice,
        ChoiceRequest,
        JsonRequest,
        LLMError,
        TextRequest,
        Usage,
        UsageEvent,
        lettered,
    )
    from .server import VllmServer

_HOMES = {
    "Budget": "budget",
    "Capabilities": "requests",
    "Choice": "requests",
    "ChoiceRequest": "requests",
    "JsonRequest": "requests",
    "LLMClient": "client",
    "LLMError": "requests",
    "RemoteEmbedder": "embedder",
    "TextRequest": "requests",
    "Usage": "requests",
    "UsageEvent": "requests",
    "VllmServer": "server",
    "durable_ledger": "budget",
    "lettered": "requests",
}

__all__ = [
    "Budget",
    "Capabilities",
    "Choice",
    "ChoiceRequest",
    "JsonRequest",
    "LLMClient",
    "LLMError",
    "LLMSettings",
    "RemoteEmbedder",
    "RemoteEmbedderSettings",
    "ServerSettings",
    "TextRequest",
    "Usage",
    "UsageEvent",
    "VllmServer",
    "durable_ledger",
    "lettered",
]


def __getattr__(name: str) -> Any:
    # The settings are read by every command; the client and its packages only by those that use a model.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
