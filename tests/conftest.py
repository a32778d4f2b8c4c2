from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support import make_memory, quick_memory

from intentmem.memory.memory import Memory


@pytest.fixture(scope="session")
def shared() -> Path:
    """The development data, which lies beside a checkout and is no part of it."""
    folder = Path(__file__).resolve().parents[1].parent / "shared"
    if not (folder / "data").is_dir():
        pytest.skip(f"no development data at {folder}")
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where a memory lives."""
    return tmp_path / "memory"


@pytest.fixture
def memory(folder: Path) -> Iterator[Memory]:
    """A memory by rules, without a model."""
    with make_memory(folder) as made:
        yield made


@pytest.fixture
def quick(folder: Path) -> Iterator[Memory]:
    """A memory that labels at no cost, for tests with many turns."""
    with quick_memory(folder) as made:
        yield made


@pytest.fixture
def reopened(folder: Path) -> Iterator[Callable[[Memory], Memory]]:
    """Close a memory and open its folder again, by rules and hashes."""
    opened: list[Memory] = []

    def reopen(memory: Memory) -> Memory:
        memory.close()
        opened.append(make_memory(folder))
        return opened[-1]

    yield reopen
    for made in opened:
        made.close()
