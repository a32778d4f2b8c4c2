"""The composition root: settings become a `Memory` with the usual parts in its seams."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from intentmem.memory.errors import InputError, MissingExtraError

from .settings import EmbedderSettings, Settings, load_settings

if TYPE_CHECKING:
    from intentmem.memory.aio import AsyncMemory
    from intentmem.memory.memory import Memory
    from intentmem.memory.protocols import Embedder
    from intentmem.memory.store import Store

    from .llm.client import LLMClient

NEEDED = {
    "faiss": "faiss",
    "torch": "torch",
    "transformers": "transformers",
    "sentence_transformers": "sentence-transformers",
}
"""Modules that encoding and indexing need, with the names of their packages."""

_WITHOUT_MODEL = "hash"


def open_memory(path: str | Path | Settings | None = None, **overrides: Any) -> Memory:
    """Open a memory, created where there is none. No model is loaded before the first text is encoded.

    Args:
        path: folder of the memory; None takes it from the settings. Complete `Settings` are used as they are.
        overrides: groups of settings, like ``embedder={"profile": "hash"}`` or ``memory={"strict_namespaces": True}``.

    Raises:
        InputError: an unknown setting or unusable value.
        MissingExtraError: the profile needs packages that are not installed; names the install line.
        StoreError: the folder or file cannot be used.
    """
    from intentmem.memory.clock import SystemClock
    from intentmem.memory.deciders import BaselineDecider
    from intentmem.memory.memory import Memory
    from intentmem.memory.store import Store
    from intentmem.memory.write.extractive import ExtractiveWriter

    settings = settings_for(path, overrides)
    embedder = make_embedder(settings.embedder)
    served = "llm" in (settings.decider.kind, settings.writer.kind)
    client = make_client(settings) if served else None
    store = Store(settings.store.path.expanduser(), settings.store.busy_seconds)
    if client is not None:
        return _served_memory(settings, store, embedder, client)
    return Memory(
        store,
        embedder,
        BaselineDecider(),
        ExtractiveWriter(),
        SystemClock(),
        strict_namespaces=settings.memory.strict_namespaces,
    )


def make_client(settings: Settings) -> LLMClient:
    """A client of the served model of the settings. The caller closes it.

    Raises:
        InputError: no model is configured; names the setting, and what works without one.
        MissingExtraError: the packages of the `serve` extra are absent.
    """
    if settings.llm.base_url is None:
        raise InputError(
            "llm.base_url",
            "is not set: no model is served",
            "set it, or INTENTMEM_LLM__BASE_URL, like http://127.0.0.1:8000/v1; "
            "`intentmem search` and `intentmem context` find the evidence without a model",
        )
    if find_spec("openai") is None:
        raise MissingExtraError("openai", "serve")
    from .llm.client import LLMClient

    return LLMClient(settings.llm)


def _served_memory(settings: Settings, store: Store, embedder: Embedder, client: LLMClient) -> Memory:
    """A memory over a served model, which it closes. Questions are planned by rule where the model fails."""
    from intentmem.memory.clock import SystemClock
    from intentmem.memory.deciders import BaselineDecider
    from intentmem.memory.memory import Memory
    from intentmem.memory.write.extractive import ExtractiveWriter

    from .llm.wiring import LedgerPayer, model_parts

    decides, writes = settings.decider.kind == "llm", settings.writer.kind == "llm"
    baseline = BaselineDecider()
    fallback = baseline if settings.decider.on_bad_output == "baseline" else None
    parts = model_parts(client, store.calls, decides, writes, fallback, baseline)
    return Memory(
        store,
        embedder,
        parts.decider or baseline,
        parts.writer or ExtractiveWriter(),
        SystemClock(),
        strict_namespaces=settings.memory.strict_namespaces,
        planner=parts.planner,
        foreseer=parts.foresight,
        payer=LedgerPayer(client, store),
        on_close=client.close,
    )


def open_async_memory(path: str | Path | Settings | None = None, **overrides: Any) -> AsyncMemory:
    """As `open_memory`, every method awaitable."""
    from intentmem.memory.aio import AsyncMemory

    return AsyncMemory(open_memory(path, **overrides))


def settings_for(path: str | Path | Settings | None, overrides: dict[str, Any]) -> Settings:
    """The settings that `open_memory` would use.

    Raises:
        InputError: an unknown setting, an unusable value, or complete settings together with overrides.
    """
    if isinstance(path, Settings):
        if overrides:
            raise InputError(
                next(iter(overrides)), "was given together with complete settings", "pass one or the other"
            )
        return path
    if path is not None:
        overrides = {**overrides, "store": {**overrides.get("store", {}), "path": path}}
    return load_settings(overrides)


def make_embedder(settings: EmbedderSettings) -> Embedder:
    """The embedder of a profile, its model not loaded yet.

    Raises:
        InputError: an unknown profile.
        MissingExtraError: a package that it needs is absent.
    """
    for module, package in NEEDED.items():
        if find_spec(module) is None and (settings.profile != _WITHOUT_MODEL or module == "faiss"):
            raise MissingExtraError(package, "cpu")
    if settings.profile == _WITHOUT_MODEL:
        from intentmem.memory.hashing import HashEmbedder

        return HashEmbedder()
    from intentmem.distill.embedder import SentenceTransformerEmbedder
    from intentmem.distill.profiles import resolve_profile

    return SentenceTransformerEmbedder(resolve_profile(settings.profile), settings.device, settings.dtype)
