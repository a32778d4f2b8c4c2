"""What deciders of events and entity types are told of the turns before."""

from collections.abc import Sequence
from pathlib import Path

from support import QuickDecider, make_memory

from intentmem.memory.tasks import ENTITY_TYPES, EVENT, Decision, Item, Task
from intentmem.memory.write.labelling import BEFORE


class Listening(QuickDecider):
    def __init__(self) -> None:
        super().__init__()
        self.heard: dict[str, list[tuple[str, ...]]] = {EVENT.name: [], ENTITY_TYPES.name: []}

    def decide(self, task: Task, items: Sequence[Item]) -> list[Decision]:
        if task.name in self.heard:
            self.heard[task.name] += [tuple(item.fields.get("before", ())) for item in items]
        return super().decide(task, items)


def test_they_are_told_the_turns_directly_before_of_the_same_session(folder: Path) -> None:
    decider = Listening()
    with make_memory(folder, decider=decider) as memory:
        memory.add([{"role": "user", "content": f"turn {n}"} for n in range(8)], namespace="n", session="a")
        memory.add([{"role": "user", "content": "turn 8"}], namespace="n", session="a")
        memory.add([{"role": "user", "content": "elsewhere"}], namespace="n", session="b")
    heard = decider.heard[EVENT.name]
    assert heard == decider.heard[ENTITY_TYPES.name]
    assert [len(before) for before in heard] == [*range(BEFORE), BEFORE, BEFORE, BEFORE, 0]
    assert heard[8][-1] == "user: turn 7"
    assert heard[8][0] == "user: turn 2"
