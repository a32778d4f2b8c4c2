"""Checks that do the real thing: a doctor that passes means that a memory can be written, found and deleted here."""

from __future__ import annotations

import platform
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from intentmem.memory.errors import IntentMemError

from .session import Session

if TYPE_CHECKING:
    from rich.console import RenderableType

    from intentmem.memory.memory import Memory

    from ..llm.requests import Capabilities

PACKAGES = ("intentmem", "numpy", "torch", "transformers", "sentence-transformers", "faiss-cpu", "faiss-gpu-cu12")
_SENTENCE = "The spare key of the greenhouse lies under the blue watering can."
_QUESTION = "Where is the greenhouse key?"


@dataclass(frozen=True, slots=True)
class Check:
    """One check. `remedy` says what to do where it failed."""

    name: str
    ok: bool
    detail: str
    remedy: str = ""


@dataclass
class Report:
    """All checks of one visit."""

    checks: list[Check] = field(default_factory=list)

    @property
    def sound(self) -> bool:
        """Whether every check passed."""
        return all(check.ok for check in self.checks)

    def payload(self) -> dict[str, Any]:
        """The report as JSON."""
        return {"sound": self.sound, "checks": [asdict(check) for check in self.checks]}

    def table(self) -> RenderableType:
        """The report for people."""
        from . import tables

        made = tables.table("", "check", "result", wide="result")
        for check in self.checks:
            mark = tables.plain("ok" if check.ok else "FAIL", "green" if check.ok else "bold red")
            shown = f"{check.detail}\n-> {check.remedy}" if check.remedy and not check.ok else check.detail
            made.add_row(mark, check.name, tables.plain(shown))
        return made

    def run(self, name: str, check: Callable[[], str], remedy: str) -> bool:
        """Run one check: it returns its detail, or raises."""
        try:
            self.checks.append(Check(name, True, check()))
        except (IntentMemError, OSError, _Failed) as error:
            self.checks.append(Check(name, False, str(error), remedy))
        return self.checks[-1].ok


class _Failed(Exception):
    """A check found something wrong."""


def examine(session: Session) -> Report:
    """Run all checks, as far as the earlier ones allow.

    What is written goes to a namespace of its own in the configured memory, and is erased again.
    """
    report = Report()
    report.run("versions", _versions, "")
    if not report.run(
        "settings", lambda: _settings(session), "correct the setting; `intentmem config show` tells where it is"
    ):
        return report
    if not report.run(
        "extras", lambda: _extras(session), 'pip install "intentmem[cpu]", or --embedder hash to do without a model'
    ):
        return report
    if not report.run(
        "embedder", lambda: _embedder(session), "check embedder.model, embedder.device and the free memory"
    ):
        return report
    if session.settings.llm.base_url is not None:
        _examine_model(session, report)
    with _opened(session, report) as memory:
        if memory is not None:
            _examine_memory(memory, report)
    return report


def _examine_model(session: Session, report: Report) -> None:
    probed: list[Capabilities] = []
    report.run("model", lambda: _model(session, probed), "check llm.base_url, llm.model and the server's log")
    if probed and session.settings.server.runtime_adapters:
        report.run(
            "adapters",
            lambda: _adapters(probed[0]),
            "start the server with VLLM_ALLOW_RUNTIME_LORA_UPDATING=True in its environment and --enable-lora, as "
            "`intentmem llm serve` does; or set server.runtime_adapters = false",
        )


@contextmanager
def _opened(session: Session, report: Report) -> Iterator[Memory | None]:
    from ..compose import open_memory

    opened: list[Memory] = []

    def opening() -> str:
        opened.append(open_memory(session.settings))
        return f"{opened[0].store.folder}, schema {opened[0].store.database.version}"

    report.run("store", opening, "check that the folder exists, is writable and has space left")
    try:
        yield opened[0] if opened else None
    finally:
        for memory in opened:
            memory.close()


def _examine_memory(memory: Memory, report: Report) -> None:
    scratch = f"doctor-{secrets.token_hex(6)}"
    try:
        if report.run(
            "write", lambda: _write(memory, scratch), "see the error; `intentmem process --retry-failed` resumes"
        ):
            report.run("search", lambda: _search(memory, scratch), "run `intentmem reembed`")
            report.run("delete", lambda: _delete(memory, scratch), "report this as a bug")
    finally:
        if scratch in memory.namespaces():
            memory.erase(namespace=scratch)
    for name in memory.namespaces():
        report.run(f"namespace {name}", partial(_counts, memory, name), "run `intentmem process --retry-failed`")


def _versions() -> str:
    found = [f"python {platform.python_version()}"]
    for package in PACKAGES:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    return ", ".join(found)


def _settings(session: Session) -> str:
    from ..settings import config_file

    settings, file = session.settings, config_file()
    return f"embedder {settings.embedder.profile}, {f'file {file}' if file else 'no file'}"


def _extras(session: Session) -> str:
    from ..compose import make_embedder

    make_embedder(session.settings.embedder)
    return "all that the embedder and the index need is installed"


def _embedder(session: Session) -> str:
    from ..compose import make_embedder

    started = time.perf_counter()
    embedder = make_embedder(session.settings.embedder)
    vectors = embedder.encode([_SENTENCE], "passage")
    if vectors.shape != (1, embedder.fingerprint.dimension):
        raise _Failed(f"returned {vectors.shape}, expected (1, {embedder.fingerprint.dimension})")
    device = getattr(embedder, "device", "cpu")
    return f"{embedder.fingerprint} on {device}, loaded and encoded in {time.perf_counter() - started:.1f} s"


def _model(session: Session, probed: list[Capabilities]) -> str:
    """What the server does, which is also put on `probed`."""
    from ..llm import LLMClient

    settings = session.settings.llm
    started = time.perf_counter()
    with LLMClient(settings) as client:
        found = client.probe(adapters=session.settings.server.runtime_adapters)
    probed.append(found)
    if found.model not in (*found.models, *found.lora):
        raise _Failed(f"{settings.base_url} serves {', '.join(found.models)}, not {found.model}")
    if not found.structured_output:
        raise _Failed(f"{found.model} answers, but not in the JSON schema that it is given: serve it with vLLM")
    can = {
        "JSON schema": found.structured_output,
        "the same with thinking switched off": found.thinking_with_schema,
        "log-probabilities of a choice": found.logprobs,
        "tokenizer": found.tokenize,
    }
    context = f"context {found.max_model_len} tokens" if found.max_model_len else "context length not told"
    abilities = ", ".join(f"{name} {'yes' if there else 'no'}" for name, there in can.items())
    adapters = f"adapters {', '.join(found.lora)}" if found.lora else "no adapters"
    took = f"{time.perf_counter() - started:.1f} s"
    return f"{found.model} at {settings.base_url}: {context}; {abilities}; {adapters}; probed in {took}"


def _adapters(found: Capabilities) -> str:
    if not found.runtime_adapters:
        raise _Failed("server.runtime_adapters is set, but the server has no /v1/load_lora_adapter")
    return "the server loads and drops adapters while it runs"


def _write(memory: Memory, scratch: str) -> str:
    result = memory.add(
        [{"role": "user", "content": _SENTENCE}, {"role": "assistant", "content": "Noted."}], namespace=scratch
    )
    if result["status"] != "done":
        raise _Failed(f"stored, but its processing is {result['status']}: {'; '.join(result['warnings'])}")
    return f"{len(result['results'])} turns stored, embedded and labelled"


def _search(memory: Memory, scratch: str) -> str:
    started = time.perf_counter()
    found = memory.search(_QUESTION, limit=1, namespace=scratch)["results"]
    if not found or found[0]["memory"] != _SENTENCE:
        raise _Failed("the sentence just written was not found")
    return f"found in {(time.perf_counter() - started) * 1000:.0f} ms"


def _delete(memory: Memory, scratch: str) -> str:
    turns = memory.list(namespace=scratch)["results"]
    memory.delete([turn["id"] for turn in turns], namespace=scratch)
    left = memory.search(_QUESTION, limit=1, namespace=scratch)["results"]
    if left or memory.list(namespace=scratch)["total"]:
        raise _Failed("deleted turns are still there")
    return "gone from the turns, the words and the vectors"


def _counts(memory: Memory, name: str) -> str:
    ordinal = memory.store.namespaces.ordinal(name)
    state = memory.status(name)["namespaces"][0]
    orphans = {table: count for table, count in memory.store.orphans(ordinal).items() if count}
    if orphans:
        raise _Failed(f"rows that hang on nothing: {orphans}")
    indexed = _indexed(memory, ordinal)
    if state["embedded"] != state["turns"] or indexed not in (None, state["embedded"]):
        raise _Failed(f"{state['turns']} turns, {state['embedded']} embedded, {indexed} in the index")
    if state["operations"].get("failed"):
        raise _Failed(f"{state['operations']['failed']} failed writes: {state['failures'][0]['error']}")
    return f"{state['turns']} turns, as many vectors and index entries, no orphans"


def _indexed(memory: Memory, ordinal: int) -> int | None:
    """Entries of the vector index; None where the vectors are another embedder's."""
    from intentmem.memory.store.embeddings import TURN

    if memory.store.embeddings.active(ordinal) != str(memory.embedder.fingerprint):
        return None
    return memory.store.embeddings.index(ordinal, TURN, memory.embedder.fingerprint).count
