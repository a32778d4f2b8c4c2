"""The composition root: settings become a `Memory` with the usual parts in its seams."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from intentmem.memory.errors import InputError, MissingExtraError

from .settings import EmbedderSettings, Settings, load_settings

if TYPE_CHECKING:
    from intentmem.distill.artifacts import Artifact
    from intentmem.distill.runtime import ServedStudents
    from intentmem.memory.aio import AsyncMemory
    from intentmem.memory.memory import Memory
    from intentmem.memory.protocols import Decider, Embedder
    from intentmem.memory.read.budget import Budget
    from intentmem.memory.store import Store
    from intentmem.memory.write.labelers import Labeler

    from .llm.client import LLMClient
    from .llm.embedder import RemoteEmbedder

NEEDED = {
    "faiss": "faiss",
    "torch": "torch",
    "transformers": "transformers",
    "sentence_transformers": "sentence-transformers",
}
"""Modules that encoding and indexing need, with the names of their packages."""

_WITHOUT_MODEL, _REMOTE = "hash", "remote"
_WITHOUT_TORCH = (_WITHOUT_MODEL, _REMOTE)


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
    from intentmem.memory.memory import Memory
    from intentmem.memory.store import Store
    from intentmem.memory.write.extractive import ExtractiveWriter

    settings = settings_for(path, overrides)
    embedder = make_embedder(settings.embedder)
    served = settings.decider.kind in ("llm", "cascade") or settings.writer.kind == "llm"
    client = make_client(settings) if served else None
    store = Store(settings.store.path.expanduser(), settings.store.busy_seconds)
    if client is not None:
        return _served_memory(settings, store, embedder, client)
    decider = make_decider(settings, embedder, None)
    return Memory(
        store,
        embedder,
        decider,
        ExtractiveWriter(getattr(decider, "span_reader", None)),
        SystemClock(),
        strict_namespaces=settings.memory.strict_namespaces,
        turn_space=lambda: getattr(decider, "turn_space", None),
        labelers=_labelers(settings, embedder, decider),
        record_late=_late(settings),
        on_close=_closing(embedder),
        budget=_budget(settings),
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


def open_served(settings: Settings, client: LLMClient) -> Memory:
    """A memory over a client that is there already, which it closes; decider and writer as the settings say.

    Raises:
        InputError, MissingExtraError, StoreError: as for `open_memory`.
    """
    from intentmem.memory.store import Store

    store = Store(settings.store.path.expanduser(), settings.store.busy_seconds)
    return _served_memory(settings, store, make_embedder(settings.embedder), client)


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
    decider = parts.decider or make_decider(settings, embedder, client, store)
    return Memory(
        store,
        embedder,
        decider,
        parts.writer or ExtractiveWriter(getattr(decider, "span_reader", None)),
        SystemClock(),
        strict_namespaces=settings.memory.strict_namespaces,
        turn_space=lambda: getattr(decider, "turn_space", None),
        labelers=_labelers(settings, embedder, decider),
        record_late=_late(settings),
        planner=parts.planner,
        foreseer=parts.foresight if decides or writes else None,
        payer=LedgerPayer(client, store),
        on_close=_closing(client, embedder),
        budget=_budget(settings),
    )


def make_decider(
    settings: Settings, embedder: Embedder, client: LLMClient | None, store: Store | None = None
) -> Decider:
    """What decides, as the settings say; no model is loaded before the first decision.

    One that decides about scopes in a space of its own has it as `turn_space`.

    Args:
        client: of the served model, for "llm" and "cascade".
        store: where the teacher's answers are kept; None keeps none.

    Raises:
        InputError: students are asked for that do not fit the embedder, or a model that is not there.
        ArtifactError: a student in use is incomplete or altered.
    """
    from intentmem.memory.deciders import BaselineDecider

    kind = settings.decider.kind
    if kind == "llm":
        return _teacher(client, store)
    if kind == "baseline":
        return BaselineDecider()
    students = _students(settings, embedder, required=kind == "student")
    if kind != "cascade":
        return students or BaselineDecider()
    return _cascade(settings, students or BaselineDecider(), _teacher(client, store), store)


def _students(settings: Settings, embedder: Embedder, required: bool) -> ServedStudents | None:
    """The students of the registry over the embedder's own encoder; None where none fits and none is required."""
    if find_spec("torch") is None or settings.embedder.profile in _WITHOUT_TORCH:
        if required:
            raise InputError(
                "decider.kind",
                f"student: the embedder {settings.embedder.profile!r} has no encoder that students could work on",
                'use embedder.profile = "embedded", or decider.kind = "baseline"',
            )
        return None
    from intentmem.distill.embedder import SentenceTransformerEmbedder
    from intentmem.distill.registry import Registry
    from intentmem.distill.runtime import ServedStudents
    from intentmem.memory.deciders import BaselineDecider

    assert isinstance(embedder, SentenceTransformerEmbedder)
    made = ServedStudents(
        Registry(settings.students.registry),
        lambda: embedder.backbone,
        BaselineDecider(),
        settings.students.threads,
        weights=None if required else embedder.fingerprint.weights,
    )
    if made.artifacts or not required:
        return made if made.artifacts else None
    raise InputError("decider.kind", "student: there are none", "train some: `intentmem distill train`")


def _budget(settings: Settings) -> Budget:
    """Where the reading of one question ends."""
    from intentmem.memory.read.budget import Budget

    read = settings.read
    return Budget(read.rounds, read.candidates, read.tokens, read.milliseconds, read.calls, read.reranked)


def _late(settings: Settings) -> bool:
    """Whether records wait until somebody asks for them."""
    chosen = settings.memory.records
    return settings.writer.kind != "llm" if chosen == "auto" else chosen == "read"


def _labelers(settings: Settings, embedder: Embedder, decider: Decider) -> list[Labeler]:
    """Labelers of the user's own tasks, whoever decides the built-in ones."""
    if find_spec("torch") is None or settings.embedder.profile in _WITHOUT_TORCH:
        return []
    from intentmem.distill.labelers import own_labelers
    from intentmem.distill.registry import Registry
    from intentmem.distill.runtime import ServedStudents
    from intentmem.memory.tasks import TASKS

    if set(Registry(settings.students.registry).current()) <= set(TASKS):
        return []  # nothing is read at a start that has no use for it
    students = decider if isinstance(decider, ServedStudents) else _students(settings, embedder, required=False)
    return own_labelers(students, students.artifacts) if students is not None else []


def _teacher(client: LLMClient | None, store: Store | None) -> Decider:
    if client is None:
        raise InputError("decider.kind", "needs a served model", "set llm.base_url")
    from .llm.asking import Asker
    from .llm.deciders import LLMDecider

    return LLMDecider(Asker(client, None if store is None else store.calls))


def _cascade(settings: Settings, student: Decider, teacher: Decider, store: Store | None) -> Decider:
    from intentmem.distill.audit import Audit, AuditPlan
    from intentmem.distill.cascade import CascadeDecider
    from intentmem.distill.recording import into_store
    from intentmem.memory.deciders import BaselineDecider

    wanted = settings.students
    plan = AuditPlan(wanted.audit_rate, wanted.audit_window, wanted.audit_agreement)
    keep = None if store is None else into_store(store)
    return CascadeDecider(
        student,
        teacher,
        thresholds_of(getattr(student, "artifacts", ()), wanted.agreement),
        None if keep is None else lambda trace: keep([trace]) if trace.turn else None,
        budget=wanted.escalations,
        audit=Audit(wanted.registry.expanduser() / "audit.json", plan),
        baseline=BaselineDecider(),
        prompts=getattr(teacher, "prompts", None),
    )


def thresholds_of(artifacts: Sequence[Artifact], agreement: float) -> dict[str, float]:
    """By task, the confidence from which a student's agreement is certain; tasks without one are left out."""
    from intentmem.distill.artifacts import threshold_of

    found = {artifact.task.name: threshold_of(artifact, agreement) for artifact in artifacts}
    return {task: threshold.value for task, threshold in found.items() if threshold is not None}


def _remote_embedder(settings: EmbedderSettings) -> RemoteEmbedder:
    if settings.base_url is None:
        raise InputError(
            "embedder.base_url",
            "is not set: the profile remote needs a server",
            "set it, or INTENTMEM_EMBEDDER__BASE_URL, like http://127.0.0.1:8001/v1",
        )
    if find_spec("openai") is None:
        raise MissingExtraError("openai", "serve")
    from .llm.embedder import RemoteEmbedder

    return RemoteEmbedder(settings)


def _closing(*parts: object) -> Callable[[], None]:
    """What closes the parts that hold a connection."""

    def close() -> None:
        for part in parts:
            if callable(found := getattr(part, "close", None)):
                found()

    return close


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
        if find_spec(module) is None and (settings.profile not in _WITHOUT_TORCH or module == "faiss"):
            raise MissingExtraError(package, "cpu")
    if settings.profile == _REMOTE:
        return _remote_embedder(settings)
    if settings.profile == _WITHOUT_MODEL:
        from intentmem.memory.hashing import HashEmbedder

        return HashEmbedder()
    from intentmem.distill.embedder import SentenceTransformerEmbedder
    from intentmem.distill.profiles import resolve_profile

    return SentenceTransformerEmbedder(resolve_profile(settings.profile), settings.device, settings.dtype)
