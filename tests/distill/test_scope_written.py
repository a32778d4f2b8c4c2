"""The student of scopes on conversations that were written by hand, none of which it has seen."""

from __future__ import annotations

from pathlib import Path

import pytest

from intentmem.distill.embedder import SentenceTransformerEmbedder
from intentmem.distill.evaluation.scope import measure
from intentmem.distill.evaluation.scope_runs import runs_of
from intentmem.distill.gold.scope import WRITTEN, trajectory_traces
from intentmem.distill.registry import Registry
from intentmem.distill.runtime import StudentDecider
from intentmem.memory.deciders import BaselineDecider
from intentmem.memory.tasks import SCOPE, TASKS
from intentmem.train_data.written import read_conversation, written_conversations

UNSEEN = Path(__file__).parents[1] / "handwritten" / "scopes"


@pytest.mark.real
def test_goals_of_unseen_talk_are_told_apart_far_better_than_by_the_rules(tmp_path: Path) -> None:
    made = [read_conversation(file.stem, file.read_text("utf-8")) for file in sorted(UNSEEN.glob("*.txt"))]
    assert len(made) == 3 and not {one.id for one in made} & {one.id for one in written_conversations()}
    traces = [trace for one in made for trace in trajectory_traces(WRITTEN, one, seed=0)]
    embedder = SentenceTransformerEmbedder()
    students = StudentDecider.of(Registry(tmp_path).open(TASKS), embedder.backbone, BaselineDecider())
    adapter = students.students[SCOPE.name].adapter
    found = measure(students, runs_of(traces, lambda texts: students.turn_vectors(texts, adapter)), resamples=0)
    rules = measure(BaselineDecider(), runs_of(traces, lambda texts: embedder.encode(texts, "passage")), resamples=0)
    student = {one.metric: one.value for one in found}
    baseline = {one.metric: one.value for one in rules}
    for metric in ("macro_f1", "exact", "online_ari"):
        assert student[metric] > baseline[metric] + 0.1, (metric, student, baseline)
