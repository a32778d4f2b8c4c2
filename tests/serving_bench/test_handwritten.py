"""Search over conversations that were written by hand, in no wording of ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from intentmem.serving import open_memory
from intentmem.serving.bench.quality import QualityPlan, run

HANDWRITTEN = Path(__file__).parent.parent / "handwritten"


@pytest.mark.real
def test_goals_of_natural_talk_help_to_find_the_evidence(tmp_path: Path) -> None:
    plan = QualityPlan(corpus="came_bench", path=HANDWRITTEN, recipes=("fused",), samples=10)
    with open_memory(tmp_path / "memory") as memory:
        rows = run(plan, memory).rows
    found = {(row.subject, row.metric): row.value for row in rows if row.group == "all"}
    assert {row.n for row in rows if row.group == "all"} == {128}
    for metric in ("R@1024tok", "all@1024tok", "R@4096tok", "all@4096tok"):
        best = max(found["baseline:dense", metric], found["baseline:bm25", metric], found["baseline:rrf", metric])
        assert found["fused", metric] >= best + 0.05, metric
