"""Who is measured: a registry of factories, so that a decider of the user's own is one more subject.

``register("mine", lambda context: Subject("mine", MyDecider(), {"model": "mine"}))`` adds one.
"""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable, Mapping, MutableMapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import SecretStr

from intentmem.memory.clock import SystemClock
from intentmem.memory.deciders import BaselineDecider
from intentmem.memory.errors import InputError, MissingExtraError
from intentmem.memory.memory import Memory
from intentmem.memory.protocols import Decider, Embedder
from intentmem.memory.store import Store
from intentmem.memory.write.extractive import ExtractiveWriter
from intentmem.serving.settings import Settings

if TYPE_CHECKING:
    from intentmem.serving.llm.client import LLMClient
    from intentmem.serving.llm.settings import LLMSettings

STAND_IN = "stand-in"
_VERSION_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Context:
    """What factories make subjects from.

    concurrency: requests in flight at most. options: what the settings do not hold, see `LatencyPlan.options`.
    """

    settings: Settings
    embedder: Embedder
    concurrency: int = 16
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Subject:
    """Somebody who decides.

    Args:
        name: as it stands in reports; decider: what is asked.
        about: model, server, versions and flags, for the report; never a key.
        client: of the served model that it calls; None for none.
        space: vectors that it tells scopes apart in; None for the embedder's.
        served: whether every decision is a served model's, so that turns are asked about ahead.
        closers: called when it is not needed any more.
    """

    name: str
    decider: Decider
    about: Mapping[str, Any]
    client: LLMClient | None = None
    space: Embedder | None = None
    served: bool = False
    closers: tuple[Callable[[], None], ...] = ()

    def memory(self, folder: Path, embedder: Embedder) -> Memory:
        """An empty memory over it. Texts are extractive, so that subjects differ in who decides and in nothing else."""
        store, decider, foresight, planner = Store(folder), self.decider, None, None
        if self.served and self.client is not None:
            from intentmem.serving.llm.wiring import model_parts

            parts = model_parts(self.client, store.calls, decides=True, writes=False)
            decider, planner, foresight = parts.decider or decider, parts.planner, parts.foresight
        return Memory(
            store,
            embedder,
            decider,
            ExtractiveWriter(),
            SystemClock(),
            planner=planner,
            foreseer=foresight,
            turn_space=lambda: self.space,
        )

    def close(self) -> None:
        """Release what it holds."""
        for close in self.closers:
            close()


Factory = Callable[[Context], Subject]
SUBJECTS: MutableMapping[str, Factory] = {}
"""Factories by the name of the subject."""


def register(name: str, factory: Factory) -> None:
    """Add a subject, or put another in the place of one."""
    SUBJECTS[name] = factory


def make_subject(name: str, context: Context) -> Subject:
    """A fresh subject: nothing of it is loaded or connected yet.

    Raises:
        InputError: no such subject, or a setting that it needs is missing.
        MissingExtraError: packages that it needs are not installed.
    """
    if name not in SUBJECTS:
        raise InputError("subjects", f"{name!r} is unknown", f"known: {', '.join(SUBJECTS)}")
    return SUBJECTS[name](context)


def make_decider(name: str, context: Context) -> Decider:
    """The decider of a subject alone; whoever takes it closes nothing."""
    return make_subject(name, context).decider


def _baseline(context: Context) -> Subject:
    return Subject("baseline", BaselineDecider(), {"model": "rules and cosines", "runs": "in this process"})


def _students(context: Context) -> Subject:
    decider = _composed(context, "student")
    return Subject("students", decider, _told_of(decider), space=getattr(decider, "turn_space", None))


def _cascade(context: Context) -> Subject:
    """Students over a served model, each task at the threshold that its calibration chose; nothing is audited."""
    from intentmem.serving.compose import thresholds_of

    students = _composed(context, "student")
    served = make_subject(str(context.options.get("cascade_teacher") or "vllm"), context)
    decider = _composed(context, "cascade", served.client)
    agreement = context.settings.students.agreement
    told: dict[str, Any] = {
        **_told_of(students),
        "model": served.about.get("model"),
        "target_agreement": agreement,
        "thresholds": thresholds_of(getattr(students, "artifacts", ()), agreement),
        "teacher": dict(served.about),
    }
    if "stand_in" in served.about:
        told["stand_in"] = served.about["stand_in"]
    space = getattr(decider, "turn_space", None) or getattr(students, "turn_space", None)
    return Subject("cascade", decider, told, served.client, space, closers=served.closers)


def _composed(context: Context, kind: str, client: LLMClient | None = None) -> Decider:
    from intentmem.serving.compose import make_decider as composed

    settings = context.settings
    given = {
        "decider": settings.decider.model_copy(update={"kind": kind}),
        "students": settings.students.model_copy(update={"audit_rate": 0.0}),
    }
    return composed(settings.model_copy(update=given), context.embedder, client)


def _told_of(students: Decider) -> dict[str, Any]:
    versions = {artifact.task.name: artifact.manifest.version for artifact in getattr(students, "artifacts", ())}
    return {"model": "students", "versions": versions, "runs": "in this process"}


def _vllm(context: Context) -> Subject:
    settings = context.settings.llm
    if settings.base_url is None:
        raise InputError("llm.base_url", "is not set: subject vllm has no server", "--vllm-url, or set it")
    about = {
        "flags": context.options.get("server_flags") or context.settings.server.model_dump(mode="json"),
        "flags_are": "as told by --server-flags"
        if context.options.get("server_flags")
        else "the settings, group server",
    }
    return _served("vllm", settings, context, about)


def _api(context: Context) -> Subject:
    url, key = context.options.get("api_url"), context.options.get("api_key")
    if not url:
        raise InputError("api_url", "is not set: subject api has no server", "--api-url, like https://host/v1")
    given = {"base_url": url, "model": context.options.get("api_model"), "api_key": SecretStr(key) if key else None}
    return _served("api", _with(context.settings.llm, given), context, {"flags": "not told by an API"})


def _stand_in(context: Context) -> Subject:
    from .stand_in import MODEL, StandInServer

    delay = float(context.options.get("delay_ms") or 0) / 1000
    server = StandInServer(
        delay, token_delay=float(context.options.get("token_delay_ms") or 0) / 1000,
        thinking=bool(context.options.get("thinking")), fail_every=int(context.options.get("fail_every") or 0),
    )  # fmt: skip
    settings = _with(context.settings.llm, {"base_url": server.url, "model": MODEL, "api_key": None})
    about = {"stand_in": "a stand-in with a set delay: no model, its answers mean nothing", "flags": {"delay_s": delay}}
    return _served(STAND_IN, settings, context, about, server.close)


def _with(settings: LLMSettings, given: Mapping[str, Any]) -> LLMSettings:
    try:
        return type(settings)(**{**settings.model_dump(), **given})
    except ValueError as error:
        raise InputError("api_url", f"{given['base_url']!r} is no base URL", "like https://host/v1") from error


def _served(
    name: str, settings: LLMSettings, context: Context, about: Mapping[str, Any], *closers: Callable[[], None]
) -> Subject:
    try:
        import openai
    except ImportError as error:
        raise MissingExtraError("openai", "serve") from error
    from intentmem.serving.llm.asking import Asker
    from intentmem.serving.llm.client import LLMClient
    from intentmem.serving.llm.deciders import LLMDecider

    settings = settings.model_copy(update={"max_concurrency": max(settings.max_concurrency, context.concurrency)})
    client = LLMClient(settings)
    told = {
        "model": client.name.removeprefix("llm:"),
        "server": settings.base_url,
        "server_version": _version(settings.base_url or "") if name != "api" else None,
        "client": f"openai {openai.__version__}",
        "max_concurrency": settings.max_concurrency,
        "temperature": settings.temperature,
        "thinking": settings.thinking,
        "max_retries": settings.max_retries,
    }
    decider = LLMDecider(Asker(client))
    return Subject(name, decider, {**told, **about}, client, served=True, closers=(client.close, *closers))


def _version(base_url: str) -> str | None:
    """What vLLM says at `/version`; None where nothing is said."""
    with suppress(OSError, ValueError):
        root = base_url.removesuffix("/v1")
        with urllib.request.urlopen(f"{root}/version", timeout=_VERSION_SECONDS) as reply:
            found = json.load(reply)
            return str(found["version"]) if isinstance(found, dict) and "version" in found else None
    return None


for _name, _factory in {
    "baseline": _baseline,
    "students": _students,
    "cascade": _cascade,
    "vllm": _vllm,
    "api": _api,
    STAND_IN: _stand_in,
}.items():
    register(_name, _factory)
