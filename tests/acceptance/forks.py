"""A process that has imported everything and forks writers on request: real processes, started in milliseconds.

Each line on its standard input starts one: {"job": ..., "folder": ..., ...}; it answers with the pid, and with
{"pid": ..., "status": ...} when a writer has ended.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support import make_memory, quick_memory


def ingest(folder: Path, acknowledged: Path, seed: int, **_: Any) -> None:
    """Add for ever, noting each acknowledgement once it has been given."""
    chance = random.Random(seed)
    note = os.open(acknowledged, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    memory = make_memory(folder)
    number = 0
    while True:
        messages = messages_of(seed, number)
        result = memory.add(messages, namespace="n", idempotency_key=f"k{number}", wait=chance.random() < 0.7)
        os.write(
            note, json.dumps({"number": number, "ids": [turn["id"] for turn in result["results"]]}).encode() + b"\n"
        )
        if chance.random() < 0.3:
            memory.search("what was said about the garden", namespace="n")
            memory.store.embeddings.flush()
        number += 1


def messages_of(seed: int, number: int) -> list[dict[str, str]]:
    """The same write each time for the same number."""
    chance = random.Random(f"{seed}/{number}")
    words = ["garden", "hotel", "invoice", "Ana", "Porto", "dentist", "bicycle", "recipe"]
    return [
        {"role": chance.choice(["user", "assistant"]), "content": f"{number}.{i} about the {chance.choice(words)}"}
        for i in range(chance.randint(1, 4))
    ]


def burst(folder: Path, name: str, count: int, wait: bool, **_: Any) -> None:
    """So many writes of one message."""
    memory = quick_memory(folder)
    for number in range(count):
        memory.add(f"{name} says {number}", namespace="n", wait=wait)
    memory.close()


def work(folder: Path, count: int, **_: Any) -> None:
    """Label and search what others write."""
    memory = quick_memory(folder)
    memory.store.namespaces.create("n")
    for _number in range(count):
        memory.process("n")
        memory.search("says 7", namespace="n")
    memory.close()


JOBS = {"ingest": ingest, "burst": burst, "work": work}


def run(line: str) -> None:
    """The child's life."""
    try:
        job = json.loads(line)
        JOBS[job.pop("job")](folder=Path(job.pop("folder")), **job)
        code = 0
    except BaseException as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        sys.stderr.flush()
        code = 1
    os._exit(code)


def main() -> None:
    answers = threading.Lock()

    def answer(message: dict[str, int]) -> None:
        with answers:
            sys.stdout.write(json.dumps(message) + "\n")
            sys.stdout.flush()

    for line in sys.stdin:
        if json.loads(line)["job"] == "wait":
            pid, status = os.waitpid(json.loads(line)["pid"], 0)
            answer({"pid": pid, "status": os.waitstatus_to_exitcode(status)})
            continue
        pid = os.fork()
        if pid == 0:
            run(line)
        answer({"pid": pid, "status": 0})


if __name__ == "__main__":
    main()
