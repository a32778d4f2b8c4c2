from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from intentmem.distill.audit import Audit, AuditPlan
from intentmem.distill.cascade import CascadeDecider
from intentmem.distill.traces import Trace, belongs
from intentmem.memory.deciders import BaselineDecider
from intentmem.memory.errors import DecisionError, InputError, ModelUnavailableError
from intentmem.memory.tasks import PLAN, Decision, Item, Task
from intentmem.memory.types import Turn

from .standin import MOOD


class Scripted:
    """Says `warm` with the confidence that each text states."""

    reads_window = False

    def __init__(self, name: str = "student", label: str = "warm") -> None:
        self.name, self.label = name, label
        self.asked: list[str] = []

    def decide(self, task: Task, items: Sequence[Item]) -> list[Decision]:
        if task.name != MOOD.name:
            raise DecisionError(f"{self.name} cannot answer {task.name}")
        self.asked += [str(item.fields["turn"]) for item in items]
        return [
            Decision((self.label,), {self.label: 1.0}, float(str(item.fields["turn"])), self.name) for item in items
        ]


class Absent(Scripted):
    def decide(self, task: Task, items: Sequence[Item]) -> list[Decision]:
        raise ModelUnavailableError("teacher", "cannot be reached")


def items(*confidences: float) -> list[Item]:
    time = datetime(2026, 3, 1, tzinfo=UTC)

    def turn(number: int, text: str) -> Turn:
        return Turn(f"t{number}", number, "ns", "trip", number, "user", text, None, time, "given", None)

    return [Item({"turn": str(value)}, turn=turn(number, str(value))) for number, value in enumerate(confidences)]


def test_doubtful_answers_go_to_the_teacher_and_become_traces() -> None:
    traces: list[Trace] = []
    teacher = Scripted("teacher", "cold")
    cascade = CascadeDecider(Scripted(), teacher, {"mood": 0.8}, traces.append)
    found = cascade.decide(MOOD, items(0.9, 0.5, 0.8, 0.79))
    assert [one.labels[0] for one in found] == ["warm", "cold", "warm", "cold"]
    assert [one.decided_by for one in found] == ["student", "teacher", "student", "teacher"]
    assert teacher.asked == ["0.5", "0.79"]
    assert [trace.turn for trace in traces] == ["t1", "t3"]
    assert all(belongs(MOOD, trace) == "" and trace.teacher == "teacher" for trace in traces)
    assert (traces[0].conversation, traces[0].seq, traces[0].meta["role"]) == ("trip", 1, "user")


def test_a_task_without_a_threshold_is_escalated_whole() -> None:
    teacher = Scripted("teacher", "cold")
    found = CascadeDecider(Scripted(), teacher, {}).decide(MOOD, items(1.0, 0.2))
    assert [one.decided_by for one in found] == ["teacher", "teacher"]


@pytest.mark.parametrize("teacher", [None, Absent("teacher")])
def test_without_an_answer_of_the_teacher_the_students_stands_flagged(teacher: Scripted | None) -> None:
    found = CascadeDecider(Scripted(), teacher, {"mood": 0.8}).decide(MOOD, items(0.9, 0.5))
    assert [(one.labels[0], one.unsure) for one in found] == [("warm", False), ("warm", True)]


def test_a19_an_answer_off_the_list_is_neither_used_nor_kept() -> None:
    traces: list[Trace] = []
    cascade = CascadeDecider(Scripted(), Scripted("teacher", "lukewarm"), {"mood": 0.8}, traces.append)
    [found] = cascade.decide(MOOD, items(0.5))
    assert found.labels == ("warm",) and found.unsure
    assert traces == [] and cascade.failed == 1


def test_the_budget_of_escalations_is_kept_to() -> None:
    teacher = Scripted("teacher", "cold")
    cascade = CascadeDecider(Scripted(), teacher, {"mood": 0.8}, budget=3)
    first = cascade.decide(MOOD, items(0.1, 0.2))
    second = cascade.decide(MOOD, items(0.3, 0.4))
    assert teacher.asked == ["0.1", "0.2", "0.3"] and cascade.escalated == 3
    assert [one.unsure for one in (*first, *second)] == [False, False, False, True]


def test_a_task_that_the_student_cannot_answer_is_the_teachers() -> None:
    assert (
        CascadeDecider(BaselineDecider(), Scripted("teacher"), {}).decide(MOOD, items(0.5))[0].decided_by == "teacher"
    )
    with pytest.raises(DecisionError):
        CascadeDecider(Scripted(), None, {}).decide(PLAN, [Item({"question": "why?"})])


def test_a_share_of_confident_answers_is_audited_and_the_students_stand() -> None:
    teacher = Scripted("teacher", "cold")
    audit = Audit(None, AuditPlan(rate=0.25, window=2000, fewest=2000))
    found = CascadeDecider(Scripted(), teacher, {"mood": 0.8}, audit=audit).decide(MOOD, items(*[0.9] * 1000))
    assert {one.decided_by for one in found} == {"student"}
    agreement, audits, demoted = audit.state()["mood"]
    assert agreement == 0 and 200 < audits < 300 and not demoted


def test_drift_demotes_to_the_teacher_and_is_remembered(tmp_path: Path) -> None:
    plan = AuditPlan(rate=1.0, window=100, target=0.8, fewest=30)
    teacher = Scripted("teacher", "cold")
    cascade = CascadeDecider(Scripted(), teacher, {"mood": 0.8}, audit=Audit(tmp_path / "audit.json", plan))
    assert {one.decided_by for one in cascade.decide(MOOD, items(*[0.9] * 40))} == {"student"}
    assert {one.decided_by for one in cascade.decide(MOOD, items(0.9))} == {"teacher"}
    again = Audit(tmp_path / "audit.json", plan)
    assert again.demoted("mood")
    alone = CascadeDecider(Scripted(), None, {"mood": 0.8}, audit=again, baseline=Scripted("rules"))
    assert alone.decide(MOOD, items(0.9))[0].decided_by == "rules"
    again.restore("mood")
    assert not Audit(tmp_path / "audit.json", plan).demoted("mood")
    assert alone.decide(MOOD, items(0.9))[0].decided_by == "student"


def test_agreement_that_merely_wavers_does_not_demote() -> None:
    audit = Audit(None, AuditPlan(rate=1.0, window=100, target=0.9, fewest=30))
    for number in range(200):
        audit.record("mood", number % 10 != 0)
    assert not audit.demoted("mood")


def test_an_audit_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "audit.json").write_text(json.dumps({"recent": 3}))
    with pytest.raises(InputError, match="delete it to start anew"):
        Audit(tmp_path / "audit.json")
