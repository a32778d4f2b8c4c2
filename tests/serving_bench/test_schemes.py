import json
import math
from pathlib import Path
from typing import Any

import pytest

from intentmem.memory.memory import Memory
from intentmem.serving.bench.quality import QualityPlan, run
from intentmem.serving.bench.report import Row
from intentmem.serving.bench.schemes import Limits, Ranked, scheme_of
from intentmem.train_data import Question

SUBJECTS = ("kayak", "violin", "sourdough", "telescope", "orchid", "marathon")
RECIPES = ("dense", "lexical")


def lines(path: Path, values: list[Any]) -> Path:
    path.write_text("\n".join(json.dumps(value) for value in values), encoding="utf-8")
    return path


def figures(memory: Memory, corpus: str, path: Path) -> dict[tuple[str, str, str], Row]:
    report = run(QualityPlan(corpus, path, RECIPES, budgets=(40, 500), k=2, samples=10), memory)
    assert report.header["failures"] == {}
    return {(row.subject, row.group, row.metric): row for row in report.rows}


def test_came_bench_is_scored_by_type_inside_budgets(memory: Memory, tmp_path: Path) -> None:
    turns = [{"id": f"t{n}", "role": "user", "content": f"I bought a {s}."} for n, s in enumerate(SUBJECTS)]
    turns.append({"id": "later", "role": "user", "content": "kayak kayak kayak"})
    questions = [
        {
            "id": f"q{n}",
            "type": f"type {1 + n % 2}",
            "content": f"Who bought a {s}?",
            "question_turn_ids": [f"t{m}" for m in range(len(SUBJECTS))],
            "answer_turn_ids": [f"t{n}"],
        }
        for n, s in enumerate(SUBJECTS)
    ]
    lines(tmp_path / "x_questions.jsonl", questions)
    found = figures(memory, "came_bench", lines(tmp_path / "x_turns.jsonl", turns))
    assert {group for _, group, _ in found} == {"all", "type 1", "type 2"}
    assert {metric for _, _, metric in found} == {"R@2", "R@40tok", "all@40tok", "R@500tok", "all@500tok"}
    for subject in (*RECIPES, "baseline:bm25"):
        assert found[subject, "all", "all@500tok"].value == 1.0
        assert found[subject, "type 1", "R@2"].n == 3


def test_longmemeval_is_scored_over_sessions_and_turns_without_those_to_abstain_from(
    memory: Memory, tmp_path: Path
) -> None:
    sessions = [
        [
            {"role": "user", "content": f"I bought a {s}.", "has_answer": s == "kayak"},
            {"role": "assistant", "content": s},
        ]
        for s in SUBJECTS
    ]
    entry = {
        "question_id": "q1",
        "question_type": "multi-session",
        "question": "Who bought a kayak?",
        "question_date": "2023/12/18 (Mon) 04:17",
        "haystack_session_ids": ["answer_1", *SUBJECTS[1:]],
        "haystack_dates": [f"2023/05/{n + 1:02d} (Mon) 10:00" for n in range(len(SUBJECTS))],
        "haystack_sessions": sessions,
        "answer_session_ids": ["answer_1"],
    }
    unmarked = [[{**turn, "has_answer": False} for turn in session] for session in sessions]
    others = [{**entry, "question_id": "q2_abs"}, {**entry, "question_id": "q3", "haystack_sessions": unmarked}]
    path = tmp_path / "longmemeval_s.json"
    path.write_text(json.dumps([entry, *others]), encoding="utf-8")
    found = figures(memory, "longmemeval", path)
    names = {f"{p}{m}@{k}" for p in ("", "turn_") for m in ("recall_any", "recall_all", "NDCG") for k in (5, 10, 20)}
    assert {metric for _, _, metric in found} == names
    for subject in (*RECIPES, "baseline:bm25"):
        assert found[subject, "all", "recall_all@5"].value == 1.0
        assert found[subject, "all", "recall_any@5"].n == 2
        assert found[subject, "all", "turn_recall_any@5"].n == 1


def test_memconflict_is_scored_by_the_rank_of_the_session_that_holds(memory: Memory, tmp_path: Path) -> None:
    chain: list[dict[str, Any]] = [
        {
            "Session_ID": n,
            "Date": f"2024-01-{n + 1:02d}",
            "Session_Dialogue": {"dialogue_turn_1": [{"role": "user", "content": f"I bought a {s}."}]},
        }
        for n, s in enumerate(SUBJECTS)
    ]
    chain[0]["Static_Conflict_Information"] = [{"Conflict_ID": "S", "Role": "Point_A"}]
    chain[4]["Static_Conflict_Information"] = [{"Conflict_ID": "S", "Role": "Point_B"}]
    chain[4]["Session_Questions"] = [{"question_id": "Q", "question": "Who bought a kayak?", "conflict_type": "static"}]
    path = lines(tmp_path / "Step4_4.jsonl", [{"ID": "P", "Full_Session_Chain": chain}])
    found = figures(memory, "memconflict", path)
    assert {metric for _, _, metric in found} == {"SEH@2", "SEH@3", "SEH@5", "SRS"}
    for subject in (*RECIPES, "baseline:bm25"):
        assert found[subject, "static", "SRS"].value == 1.0


@pytest.mark.parametrize(
    ("sessions", "seh", "srs"),
    [
        (["a", "b"], (1.0, 1.0, 1.0), 1.0),
        (["b", "b", "a", "a"], (0.0, 1.0, 1.0), 1 / math.log2(4)),
        (["b", "b", "b", "a"], (0.0, 0.0, 1.0), 0.0),
        (["b", None], (0.0, 0.0, 0.0), 0.0),
    ],
)
def test_a_memory_further_down_counts_less(sessions: list[str | None], seh: tuple[float, ...], srs: float) -> None:
    ranked = Ranked([str(n) for n in range(len(sessions))], [1] * len(sessions), sessions)
    found = scheme_of("memconflict").score(ranked, Question("q", "?", "t", "g", gold_sessions=("a",)), Limits(1, (1,)))
    assert found == {"SEH@2": seh[0], "SEH@3": seh[1], "SEH@5": seh[2], "SRS": srs}


def test_beam_is_scored_where_evidence_is_given(memory: Memory, tmp_path: Path) -> None:
    turns = [{"role": "user", "id": n, "content": f"I bought a {s}. ->-> 1,{n}"} for n, s in enumerate(SUBJECTS)]
    probes = {
        "abstention": [{"question": "Who sings?"}],
        "information_extraction": [{"question": "Who bought a kayak?", "source_chat_ids": [0]}],
    }
    (tmp_path / "chat.json").write_text(json.dumps([{"batch_number": 1, "turns": [turns]}]), encoding="utf-8")
    (tmp_path / "probing_questions.json").write_text(json.dumps(probes), encoding="utf-8")
    found = figures(memory, "beam", tmp_path)
    assert {group for _, group, _ in found} == {"all", "information_extraction"}
    assert found["lexical", "all", "R@2"].value == 1.0
