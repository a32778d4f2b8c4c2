"""The demo: a sample chat remembered, what was understood of it, and five answers with their evidence."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text

from ..demo import QUESTIONS, sample_messages
from . import tables
from .session import Session

if TYPE_CHECKING:
    from intentmem.memory.memory import Memory

NAMESPACE = "demo"
_EVIDENCE = 2


def run_demo(session: Session) -> None:
    """Run it in the folder given with `--path`, else in a temporary one that is removed."""
    if "store" in session.overrides:
        _in_folder(session, session.settings.store.path.expanduser(), kept=True)
        return
    with tempfile.TemporaryDirectory(prefix="intentmem-demo-") as folder:
        _in_folder(session, Path(folder), kept=False)


def _in_folder(session: Session, folder: Path, kept: bool) -> None:
    from ..compose import open_memory

    messages = sample_messages()
    settings = session.settings.model_copy(update={"store": session.settings.store.model_copy(update={"path": folder})})
    with open_memory(settings) as memory:
        session.err.print(f"Remembering {len(messages)} turns of a sample chat (no network, no language model) ...")
        started = time.perf_counter()
        added = memory.add(messages, namespace=NAMESPACE)
        seconds = time.perf_counter() - started
        found = {
            "path": str(folder) if kept else None,
            "turns": len(added["results"]) + added["duplicates"],
            "status": added["status"],
            "seconds": round(seconds, 2),
            "scopes": memory.scopes(namespace=NAMESPACE)["results"],
            "timeline": memory.timeline(namespace=NAMESPACE)["results"],
            "answers": [_answer(memory, question) for question in QUESTIONS],
        }
    session.show(found, *_sections(found, kept))


def _answer(memory: Memory, question: str) -> dict[str, Any]:
    started = time.perf_counter()
    result = memory.search(question, limit=_EVIDENCE, namespace=NAMESPACE)
    return {
        "question": question,
        "evidence": result["results"],
        "milliseconds": round((time.perf_counter() - started) * 1000, 1),
    }


def _sections(found: dict[str, Any], kept: bool) -> list[Any]:
    parts: list[Any] = [
        Text(f"{found['turns']} turns remembered in {found['seconds']} s, {found['status']}.\n"),
        tables.scopes(found["scopes"], title="Scopes: what the chat was about"),
        tables.timeline(found["timeline"], title="Timeline: when it was about what"),
    ]
    for answer in found["answers"]:
        parts.append(
            tables.turns(answer["evidence"], title=f"? {answer['question']}  ({answer['milliseconds']:.0f} ms)")
        )
    parts.append(Text("What to do next", style="bold"))
    option = f" --path {found['path']} -n {NAMESPACE}" if kept else ""
    if not kept:
        parts.append(Text("  intentmem demo --path demo-memory            keep this memory and look around in it"))
    parts += [
        Text(f'  intentmem search "How much is breakfast?"{option or " --path demo-memory -n demo"}'),
        Text("  intentmem ingest your-chats.jsonl --dry-run    what your own conversations would take"),
        Text("  intentmem ingest your-chats.jsonl              remember them"),
        Text("  from intentmem.serving import open_memory      the same in Python; the README has an example"),
    ]
    return parts
