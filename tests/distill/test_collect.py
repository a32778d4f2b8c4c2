"""A teacher run: what was asked is not asked again, what is off the list is not learned, what is recorded is erased."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from support import QuickDecider, make_memory

from intentmem.distill.collect import Asked, collect
from intentmem.distill.questions import of_file, of_traces, of_turns, with_vectors
from intentmem.distill.recording import RecordingDecider, into_store
from intentmem.distill.task_files import find_task, read_task
from intentmem.distill.trace_files import TraceFile, read_traces, trace_of
from intentmem.distill.traces import LabelSet
from intentmem.memory.deciders import BaselineDecider
from intentmem.memory.errors import InputError, ModelOutputError
from intentmem.memory.hashing import HashEmbedder
from intentmem.memory.store import Store
from intentmem.memory.tasks import EVENT, PLAN, Decision, Item, Task
from intentmem.memory.types import NewTurn
from intentmem.train_data import Trajectory

TONE = """
name = "tone"
question = "How does the speaker feel?"
[labels]
angry = "upset, or complaining"
calm = "anything else"
"""


class Teacher:
    """Says "calm" unless told otherwise of a text; counts what it is asked."""

    name, reads_window = "teacher", False

    def __init__(self, says: dict[str, str] | None = None) -> None:
        self.says, self.asked = says or {}, 0

    def decide(self, task: Task, items: Sequence[Item]) -> list[Decision]:
        self.asked += len(items)
        answers = [self.says.get(str(item.fields["turn"]), "calm") for item in items]
        if "broken" in answers:
            raise ModelOutputError("teacher", "no answer", "")
        return [Decision((answer,), {answer: 0.8}, 0.8, self.name) for answer in answers]


def tone(tmp_path: Path) -> Task:
    (tmp_path / "tone.toml").write_text(TONE, "utf-8")
    return read_task(tmp_path / "tone.toml").task


def items(count: int) -> list[Asked]:
    return [Asked(Item({"turn": f"turn {n}"}), f"c{n % 3}", n) for n in range(count)]


def test_a_run_goes_on_where_it_stopped(tmp_path: Path) -> None:
    task, path = tone(tmp_path), tmp_path / "t.jsonl"
    first = Teacher()
    assert collect(task, items(40), RecordingDecider(first, list), TraceFile(path)).kept == 40
    second = Teacher()
    found = collect(task, items(50), RecordingDecider(second, list), TraceFile(path))
    assert (found.known, found.kept, second.asked) == (40, 10, 10)
    assert len(list(read_traces(path))) == 50


def test_a19_a_label_off_the_list_reaches_neither_the_file_nor_the_store(tmp_path: Path, folder: Path) -> None:
    task, path = tone(tmp_path), tmp_path / "t.jsonl"
    found = collect(task, items(3), RecordingDecider(Teacher({"turn 1": "furious"}), list), TraceFile(path))
    assert (found.kept, found.rejected) == (2, 1)
    assert {trace.labels for trace in read_traces(path)} == {("calm",)}
    with make_memory(folder) as memory:
        memory.add("turn 1", namespace="n")
        memory.add("turn 2", namespace="n")
        turns = memory.store.turns.by_rows(memory.store.namespaces.ordinal("n"), [1, 2])
        asked = [Item({"turn": turn.text}, turn=turn) for turn in turns.values()]
        teacher = RecordingDecider(Teacher({"turn 1": "furious"}), into_store(memory.store))
        assert [one.labels for one in teacher.decide(task, asked)] == [("furious",), ("calm",)]
        kept = [trace_of(row) for row in memory.store.traces.read(1)]
        assert [(trace.fields, trace.labels) for trace in kept] == [({"turn": "turn 2"}, ("calm",))]


def test_an_item_that_fails_costs_only_itself_and_is_asked_again(tmp_path: Path) -> None:
    task, path = tone(tmp_path), tmp_path / "t.jsonl"
    found = collect(task, items(5), RecordingDecider(Teacher({"turn 3": "broken"}), list), TraceFile(path))
    assert (found.kept, found.failures) == (4, 1) and "no answer" in found.failed[0]
    again = Teacher()
    assert collect(task, items(5), RecordingDecider(again, list), TraceFile(path)).kept == 1
    assert again.asked == 1


def test_questions_come_from_turns_files_and_other_traces(tmp_path: Path) -> None:
    task, path = tone(tmp_path), tmp_path / "t.jsonl"
    talk = Trajectory("talk", (NewTurn("user", "Late again!"), NewTurn("assistant", "Sorry.")))
    turns = list(of_turns(task, [talk], LabelSet()))
    assert [one.item.fields for one in turns] == [{"turn": "Late again!"}, {"turn": "Sorry."}]
    collect(task, turns, RecordingDecider(Teacher(), list), TraceFile(path))
    assert [one.item.fields for one in of_traces(read_traces(path))] == [one.item.fields for one in turns]
    (tmp_path / "items.jsonl").write_text('{"fields": {"turn": "Hi"}}\n{"fields": {"tern": "Hi"}}\n', "utf-8")
    with pytest.raises(InputError, match=r"line 2.*tern"):
        list(of_file(task, tmp_path / "items.jsonl", LabelSet()))
    with pytest.raises(InputError, match="cannot be read from the turns"):
        list(of_turns(PLAN, [talk], LabelSet()))


def test_items_of_open_tasks_get_vectors_once_for_all_that_share_candidates() -> None:
    talk = Trajectory("talk", (NewTurn("user", "Book it."), NewTurn("assistant", "Done.")))
    labels = LabelSet(("e1", "e2"), ("book: book something", "greet: say hello"))
    found = with_vectors(EVENT, list(of_turns(EVENT, [talk], labels)), HashEmbedder())
    assert found[0].item.candidates is found[1].item.candidates
    assert found[0].item.candidates.vectors is not None and found[0].item.vector is not None


def test_decisions_in_service_become_traces_and_are_erased_with_their_turns(folder: Path) -> None:
    store = Store(folder / "memory")
    with make_memory(folder / "memory", decider=RecordingDecider(BaselineDecider(), into_store(store))) as memory:
        memory.add(["I need a hotel in Porto.", "For two nights."][0], namespace="n")
        memory.add("For two nights.", namespace="n")
        kept = [trace_of(row) for row in store.traces.read(1)]
        assert {trace.task for trace in kept} == {"scope", "event", "entity_types"}
        assert all(trace.teacher == "baseline" and trace.turn for trace in kept)
        assert memory.search("hotel", namespace="n")["results"] and store.traces.count(1, "plan") == 0
        turn = memory.list(namespace="n")["results"][0]["id"]
        memory.delete(turn, namespace="n")
        assert turn not in {row.turn for row in store.traces.read(1)} and store.traces.count(1) > 0
    store.database.close()


def test_a_trace_that_quotes_a_turn_goes_with_it(folder: Path) -> None:
    class Reader(QuickDecider):
        reads_window = True

    store = Store(folder / "memory")
    with make_memory(folder / "memory", decider=RecordingDecider(Reader(), into_store(store))) as memory:
        for text in ("The code is 4711.", "Thanks.", "What now?"):
            memory.add(text, namespace="n")
        memory.delete(memory.list(namespace="n")["results"][0]["id"], namespace="n")
        assert not any(
            "4711" in row.body or "4711" in row.options for row in store.traces.read(1) if row.task == "scope"
        )
    store.database.close()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("calm =", "angry ="), "not TOML"),
        (('calm = "anything else"', ""), "at least two labels"),
        (('"anything else"', '" "'), "has no description"),
        (('"tone"', '"scope"'), "cannot be used"),
        (("question", "questoin"), "is not a key"),
        (("[labels]", 'space = "openish"\n[labels]'), "closed, open or candidates"),
        (("[labels]", '[[fields]]\nname = "my turn"\n[labels]'), "no usable name"),
        (("[labels]", '[[fields]]\nname = "turn"\nmany = true\n[labels]'), "main field"),
    ],
)
def test_a_task_file_that_is_wrong_is_refused_by_its_key(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    path = tmp_path / "tone.toml"
    path.write_text(TONE.replace(*change), "utf-8")
    with pytest.raises(InputError, match=message):
        read_task(path)


def test_a_task_is_found_by_name_or_file(tmp_path: Path) -> None:
    assert find_task("event").task is EVENT
    assert tone(tmp_path).groups[0].options[0].name == "angry"
    with pytest.raises(InputError, match="no built-in task and no file"):
        find_task("tone")
