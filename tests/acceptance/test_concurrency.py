"""F07, F08, F09, F13, F15, F17: several threads and processes on one file."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support import QuickDecider, QuickWriter, WatchedEmbedder, assert_sound, make_memory, quick_memory, texts_of

from intentmem.memory.memory import Memory
from intentmem.memory.tasks import Decision, Item, Task

from .conftest import Forks

_FULL = [pytest.param(500, False, marks=pytest.mark.slow), pytest.param(50, True, marks=pytest.mark.slow)]


def check_all_there(memory: Memory, names: Sequence[str], count: int) -> None:
    turns = memory.list(namespace="n", limit=100_000)["results"]
    assert [turn["seq"] for turn in turns] == list(range(len(names) * count))
    for name in names:
        mine = [turn["memory"] for turn in turns if turn["memory"].startswith(f"{name} says")]
        assert mine == [f"{name} says {number}" for number in range(count)]


@pytest.mark.parametrize(("count", "wait"), [(100, False), (25, True), *_FULL])
def test_f07_f17_two_processes_lose_nothing_and_never_find_the_file_locked(
    forks: Forks, folder: Path, count: int, wait: bool
) -> None:
    names = ["anna", "bert"]
    pids = [forks.start("burst", folder, name=name, count=count, wait=wait) for name in names]
    assert [forks.wait(pid) for pid in pids] == [0, 0]
    with quick_memory(folder) as memory:
        check_all_there(memory, names, count)
        memory.process()
        assert_sound(memory, "n")


def test_f08_f13_ten_threads_lose_nothing_and_keep_their_order(quick: Memory) -> None:
    names = [f"thread{i}" for i in range(10)]

    def write(name: str) -> None:
        for number in range(50):
            quick.add(f"{name} says {number}", namespace="n", wait=False)

    with ThreadPoolExecutor(10) as pool:
        list(pool.map(write, names))
    check_all_there(quick, names, 50)
    assert quick.process() == 500
    assert_sound(quick, "n")


def test_f09_a_writer_a_labeller_and_a_reader_share_a_file(forks: Forks, folder: Path) -> None:
    pids = [
        forks.start("burst", folder, name="anna", count=60, wait=False),
        forks.start("burst", folder, name="bert", count=30, wait=True),
        forks.start("work", folder, count=25),
    ]
    assert [forks.wait(pid) for pid in pids] == [0, 0, 0]
    with quick_memory(folder) as memory:
        memory.process()
        assert memory.list(namespace="n")["total"] == 90
        assert_sound(memory, "n")


def test_f09_ten_processes_may_create_the_same_file(forks: Forks, folder: Path) -> None:
    pids = [forks.start("burst", folder, name=f"p{i}", count=2, wait=False) for i in range(10)]
    assert [forks.wait(pid) for pid in pids] == [0] * 10
    with quick_memory(folder) as memory:
        assert memory.list(namespace="n")["total"] == 20


def test_f13_fifty_parallel_appends_keep_their_number(quick: Memory) -> None:
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda i: quick.add(f"append {i}", namespace="n"), range(50)))
    assert sorted(texts_of(quick, "n")) == sorted(f"append {i}" for i in range(50))
    assert [turn["seq"] for turn in quick.list(namespace="n")["results"]] == list(range(50))
    assert_sound(quick, "n")


def test_f15_no_transaction_is_open_while_a_model_works(folder: Path) -> None:
    calls = []

    def check() -> None:
        calls.append(memory.store.database.connection.in_transaction)
        # A second writer gets in meanwhile.
        with quick_memory(folder, busy_seconds=0.2) as other:
            other.add(f"in between {len(calls)}", namespace="other", wait=False)

    class Checked(QuickDecider):
        def decide(self, task: Task, items: Sequence[Item]) -> list[Decision]:
            check()
            return super().decide(task, items)

    class CheckedWriter(QuickWriter):
        def gist(self, previous: str, turn: object) -> str:
            check()
            return "a gist"

    embedder = WatchedEmbedder(lambda texts, kind: check())
    with make_memory(folder, embedder=embedder, decider=Checked(), writer=CheckedWriter()) as memory:
        memory.add(["one", "two"][0], namespace="n")
        memory.add("two", namespace="n")
        memory.search("one", namespace="n")
        memory.delete(memory.list(namespace="n")["results"][0]["id"], namespace="n")
    assert len(calls) > 8
    assert not any(calls)


def test_f15_turns_deleted_while_they_are_labelled_leave_nothing_behind(folder: Path) -> None:
    class Deleting(QuickDecider):
        armed = True

        def decide(self, task: Task, items: Sequence[Item]) -> list[Decision]:
            if self.armed:
                self.armed = False
                with quick_memory(folder) as other:
                    turns = other.list(namespace="n")["results"]
                    other.delete([turn["id"] for turn in turns[:3]], namespace="n")
            return super().decide(task, items)

    with make_memory(folder, decider=Deleting(), writer=QuickWriter()) as memory:
        result = memory.add([{"role": "user", "content": f"note {i}"} for i in range(8)], namespace="n")
        assert result["status"] == "done"
        assert texts_of(memory, "n") == [f"note {i}" for i in range(3, 8)]
        assert_sound(memory, "n")


def test_f15_turns_deleted_while_they_are_embedded_leave_nothing_behind(folder: Path) -> None:
    armed = [True]

    def delete(texts: Sequence[str], kind: str) -> None:
        if kind == "passage" and armed.pop() if armed else False:
            with quick_memory(folder) as other:
                other.erase(namespace="n")

    embedder = WatchedEmbedder(delete)
    with make_memory(folder, embedder=embedder, decider=QuickDecider(), writer=QuickWriter()) as memory:
        memory.add([{"role": "user", "content": f"note {i}"} for i in range(8)], namespace="n")
        assert memory.namespaces() == []
        assert memory.store.database.read("SELECT count(*) FROM embedding")[0][0] == 0
