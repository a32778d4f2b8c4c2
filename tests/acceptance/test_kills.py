"""F01, F02: what was acknowledged survives a kill at any moment, and work goes on where it stopped."""

import json
import random
import time
from pathlib import Path

import pytest
from support import assert_sound, make_memory, texts_of

from .conftest import Forks
from .forks import messages_of


def killed(forks: Forks, folder: Path, acknowledged: Path, seed: int) -> list[dict[str, object]]:
    """Kill an ingest at a random moment; what it had acknowledged by then."""
    pid = forks.start("ingest", folder, acknowledged=str(acknowledged), seed=seed)
    chance = random.Random(seed)
    if chance.random() < 0.8:
        patience = time.monotonic() + 20
        while not acknowledged.exists() or not acknowledged.stat().st_size:
            assert time.monotonic() < patience
            time.sleep(0.002)
    time.sleep(chance.uniform(0, 0.25))
    forks.kill(pid)
    noted = acknowledged.read_text() if acknowledged.exists() else ""
    return [json.loads(line) for line in noted.splitlines()]


def check_kill(forks: Forks, folder: Path, acknowledged: Path, seed: int) -> None:
    noted = killed(forks, folder, acknowledged, seed)
    with make_memory(folder) as memory:
        memory.store.namespaces.create("n")
        stored = {turn["id"] for turn in memory.list(namespace="n", limit=10_000)["results"]}
        for write in noted:
            assert set(write["ids"]) <= stored  # type: ignore[call-overload]
        memory.process()
        assert_sound(memory, "n")
        # The client does not know which of its last writes arrived: it sends them all again, and more.
        for number in range(len(noted) + 2):
            memory.add(messages_of(seed, number), namespace="n", idempotency_key=f"k{number}")
        expected = [m["content"] for number in range(len(noted) + 2) for m in messages_of(seed, number)]
        assert texts_of(memory, "n") == expected
        assert_sound(memory, "n")
        found = memory.search(expected[-1], namespace="n", limit=3)
        assert found["warnings"] == []
        assert expected[-1] in [turn["memory"] for turn in found["results"]]


@pytest.mark.parametrize("seed", range(5))
def test_f01_acknowledged_turns_survive_a_kill(forks: Forks, folder: Path, tmp_path: Path, seed: int) -> None:
    check_kill(forks, folder, tmp_path / "acknowledged", seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5, 55))
def test_f01_acknowledged_turns_survive_fifty_kills(forks: Forks, folder: Path, tmp_path: Path, seed: int) -> None:
    check_kill(forks, folder, tmp_path / "acknowledged", seed)
