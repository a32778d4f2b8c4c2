"""The conflict table: what is held to be true, what was, and what stays open, without a model."""

import re
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from support import quick_memory

from intentmem.memory.memory import Memory
from intentmem.memory.types import Evidence, Record

CASES: list[dict[str, Any]] = tomllib.loads(Path(__file__).with_name("conflicts.toml").read_text())["case"]
_VALUE = re.compile(r"\[([^\]|]+)(?:\|([^\]|]+))?(?:\|([^\]]+))?\]")


@pytest.fixture(scope="module")
def shared_memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    with quick_memory(tmp_path_factory.mktemp("conflicts") / "memory") as made:
        yield made


def instant(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def unmarked(text: str, default: str) -> tuple[str, list[tuple[int, int, str, str]]]:
    """The text without its marks, and of each mark the place of the value, its key and its condition."""
    plain, marks, end = "", [], 0
    for match in _VALUE.finditer(text):
        plain += text[end : match.start()]
        marks.append((len(plain), len(plain) + len(match[1]), match[2] or default, match[3] or ""))
        plain += match[1]
        end = match.end()
    return plain + text[end:], marks


def tell(memory: Memory, namespace: str, case: dict[str, Any]) -> None:
    """Store the turns of a case in the order of their arrival, with the records that were read from each."""
    for number in case.get("arrive", range(len(case["turns"]))):
        time, speaker, marked = case["turns"][number]
        text, marks = unmarked(marked, case["key"])
        role = speaker if speaker in ("user", "assistant") else "user"
        message = {"role": role, "content": text, "time": instant(time).isoformat()}
        added = memory.add(
            [message if role == speaker else {**message, "speaker": speaker}],
            namespace=namespace,
            idempotency_key=f"{namespace}-{number}",
            wait=False,
        )
        turn = added["results"][0]["id"]
        bounds = [instant(bound) if bound else None for bound in case["valid"][number]] if "valid" in case else []
        records = []
        for start, end, key, condition in marks:
            entity, name = key.split(".", 1)
            evidence = (Evidence(turn, start, end),)
            record = Record(entity, name, text[start:end], evidence, condition=condition)
            records.append(replace(record, valid_from=bounds[0], valid_to=bounds[1]) if bounds else record)
        memory.observe_records(namespace, records)


def values(found: list[dict[str, Any]]) -> list[str]:
    return sorted(state["value"] for state in found)


def test_the_table_is_long_enough_and_of_every_kind() -> None:
    kinds = {case["kind"] for case in CASES}
    assert len(CASES) >= 70
    assert kinds >= {"dynamic", "static", "conditional", "set", "interval", "retraction", "hearsay", "hypothetical"}
    assert kinds >= {"negated", "correction", "order", "speakers"}
    assert len({case["name"] for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['kind']}: {case['name']}")
def test_the_state_is_what_was_said(shared_memory: Memory, case: dict[str, Any]) -> None:
    namespace = f"{case['kind']}: {case['name']}"
    tell(shared_memory, namespace, case)
    entity, name = case["key"].split(".", 1)
    state = shared_memory.state(entity, name, namespace=namespace)
    assert values(state["values"]) == sorted(case["current"])
    for moment, expected in case.get("as_of", []):
        held = shared_memory.state(entity, name, as_of=instant(moment), namespace=namespace)
        assert values(held["values"]) == sorted(expected), moment
    if "pending" in case:
        assert values(state["pending"]) == sorted(case["pending"])
    if "history" in case:
        history = shared_memory.state_history(entity, name, namespace=namespace)["results"]
        assert [[version["value"], version["status"]] for version in history] == case["history"]
    if "evidence" in case:
        assert [len(value["evidence"]) for value in state["values"]] == [case["evidence"]]
    for other in case.get("others", []):
        entity, name = other["key"].split(".", 1)
        found = shared_memory.state(entity, name, namespace=namespace)
        assert values(found["values"]) == sorted(other["current"])
