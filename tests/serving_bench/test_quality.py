from pathlib import Path
from typing import Any

import pytest

from intentmem.memory.errors import EmbedderError, InputError
from intentmem.memory.memory import Memory
from intentmem.serving.bench.baselines import BASELINES
from intentmem.serving.bench.quality import QualityPlan, run
from intentmem.serving.bench.report import Report, Row


def _figures(report: Report) -> dict[tuple[str, str, str], Row]:
    return {(row.subject, row.group, row.metric): row for row in report.rows}


def test_recipes_and_baselines_are_scored_on_turns(memory: Memory, two_people: Path) -> None:
    report = run(QualityPlan("locomo", two_people, budgets=(40, 500), k=4, samples=50), memory)
    rows = _figures(report)
    assert list(dict.fromkeys(row.subject for row in report.rows)) == [
        *("dense", "lexical", "stitch", "fused"),
        *("baseline:dense", "baseline:bm25", "baseline:rrf"),
    ]
    assert list(dict.fromkeys(row.group for row in report.rows)) == ["all", "category 1", "category 4"]
    assert {row.metric for row in report.rows} == {"R@4", "R@40tok", "R@500tok", "all@40tok", "all@500tok"}
    # Each question's subject stands in exactly two turns, and 12 turns fit into 500 tokens.
    for subject in ("dense", "lexical", "fused", "baseline:dense", "baseline:bm25", "baseline:rrf"):
        assert rows[subject, "all", "R@500tok"].value == 1.0, subject
        assert rows[subject, "all", "R@500tok"].n == 7
    assert rows["baseline:bm25", "category 1", "R@4"].value == 1.0
    assert rows["baseline:bm25", "category 1", "R@40tok"].value == 0.5
    assert rows["baseline:bm25", "category 1", "all@40tok"].value == 0.0


def test_questions_without_evidence_are_left_out_and_counted(memory: Memory, two_people: Path) -> None:
    report = run(QualityPlan("locomo", two_people, recipes=("dense",), samples=10), memory)
    assert report.header["questions"] == {"total": 8, "without_evidence": 1, "asked": 7}
    assert report.header["ingest"]["turns"] == 12
    assert report.header["failures"] == {}


def test_sessions_are_ranked_among_those_before_the_question(memory: Memory, persona: Path) -> None:
    report = run(QualityPlan("realmem", persona, recipes=("dense", "lexical", "fused"), samples=10), memory)
    rows = _figures(report)
    assert list(dict.fromkeys(row.group for row in report.rows)) == ["all", "Recall", "persona Pat"]
    for subject in ("dense", "lexical", "fused", "baseline:bm25"):
        # The later session that speaks of nothing but kayaks, and the question itself, would rank first.
        assert rows[subject, "all", "NDCG@5"].value == 1.0, subject
        assert rows[subject, "persona Pat", "all@10"].value == 1.0
    assert {row.metric for row in report.rows} == {
        f"{m}@{k}" for m in ("any", "all", "NDCG", "NDCG-steep") for k in (5, 10, 20)
    }


def test_a_failed_question_is_counted_and_never_scored(
    memory: Memory, two_people: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    search = memory.search

    def failing(query: str, **options: Any) -> Any:
        if "kayak" in query and options["recipe"] == "dense":
            raise EmbedderError("out of memory")
        return search(query, **options)

    monkeypatch.setattr(memory, "search", failing)
    report = run(QualityPlan("locomo", two_people, recipes=("dense", "lexical"), samples=10), memory)
    rows = _figures(report)
    assert report.header["failures"] == {"dense": 1}
    assert "out of memory" in report.header["errors"]["dense"]
    assert rows["dense", "all", "R@10"].n == 6
    assert rows["lexical", "all", "R@10"].n == 7


def test_a_recipe_that_always_fails_has_no_rows(
    memory: Memory, two_people: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(query: str, **options: Any) -> Any:
        raise EmbedderError("gone")

    monkeypatch.setattr(memory, "search", failing)
    report = run(QualityPlan("locomo", two_people, recipes=("dense",), samples=10), memory)
    assert report.header["failures"] == {"dense": 7}
    assert {row.subject for row in report.rows} == set(BASELINES)


def test_the_number_of_questions_can_be_limited(memory: Memory, two_people: Path) -> None:
    report = run(QualityPlan("locomo", two_people, recipes=("dense",), limit_questions=2, samples=10), memory)
    assert {row.n for row in report.rows} == {2}


def test_two_runs_give_the_same_rows(tmp_path: Path, two_people: Path) -> None:
    from intentmem.serving.compose import open_memory

    plan = QualityPlan("locomo", two_people, samples=20)
    reports = []
    for name in ("a", "b"):
        with open_memory(tmp_path / name, embedder={"profile": "hash"}) as memory:
            reports.append(run(plan, memory))
    assert reports[0].rows == reports[1].rows


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"recipes": ("best",)}, "recipe"),
        ({"recipes": ()}, "recipes"),
        ({"budgets": ()}, "budgets"),
        ({"k": 0}, "k"),
        ({"limit_questions": 0}, "limit_questions"),
    ],
)
def test_an_unusable_plan_is_refused_before_anything_is_ingested(options: dict[str, Any], field: str) -> None:
    with pytest.raises(InputError) as caught:
        QualityPlan("locomo", Path("x"), **options)
    assert caught.value.field == field


def test_an_unknown_argument_of_a_search_raises(memory: Memory) -> None:
    memory.add("hello", namespace="n")
    with pytest.raises((InputError, TypeError), match="top_k"):
        memory.search("hello", namespace="n", top_k=3)  # type: ignore[call-arg]


def test_a_corpus_without_questions_is_refused(memory: Memory, tmp_path: Path) -> None:
    (tmp_path / "anno_dev.json").write_text('{"1": [["hello", "-1"], ["bye", "1"]]}', encoding="utf-8")
    with pytest.raises(InputError, match="no questions with evidence"):
        run(QualityPlan("tiage", tmp_path), memory)
