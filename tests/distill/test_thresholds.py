from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intentmem.distill.cascade import threshold_for_share
from intentmem.distill.thresholds import choose_threshold, lower_bound, upper_bound
from intentmem.memory.errors import InputError


def sample(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Confidences that are true: each decision agrees with just that probability."""
    rng = np.random.default_rng(seed)
    confidence = rng.beta(4, 1, n)
    return confidence, rng.random(n) < confidence


def test_the_bounds_are_those_of_clopper_and_pearson() -> None:
    assert lower_bound(59, 59) == pytest.approx(0.05 ** (1 / 59))  # the rule of n for 95%
    assert lower_bound(90, 100) == pytest.approx(0.8363, abs=1e-4)
    assert upper_bound(90, 100) == pytest.approx(0.9448, abs=1e-4)
    assert lower_bound(0, 10) == 0 and upper_bound(10, 10) == 1


@given(
    rows=st.lists(st.tuples(st.sampled_from([0.1, 0.5, 0.7, 0.9, 0.95]), st.booleans()), max_size=120),
    target=st.sampled_from([0.5, 0.8, 0.9]),
)
def test_the_threshold_is_the_lowest_whose_lower_bound_meets_the_target(
    rows: list[tuple[float, bool]], target: float
) -> None:
    scores, right = np.array([s for s, _ in rows]), np.array([r for _, r in rows], bool)
    meeting = [
        value
        for value in sorted(set(scores.tolist()))
        if (kept := scores >= value).sum() >= 20 and lower_bound(int(right[kept].sum()), int(kept.sum())) >= target
    ]
    found = choose_threshold(scores, right, target)
    if not meeting:
        assert found is None
        return
    assert found is not None
    assert set(scores[scores >= found.value]) == set(scores[scores >= meeting[0]])
    assert found.bound >= target and found.n == int((scores >= found.value).sum())


def test_meeting_the_target_on_average_is_not_enough() -> None:
    agrees = np.ones(100, bool)
    agrees[:5] = False
    assert choose_threshold(np.full(100, 0.9), agrees, 0.95) is None
    assert choose_threshold(np.full(100, 0.9), agrees, 0.89) is not None


def test_agreement_on_fresh_data_keeps_to_the_target() -> None:
    """Chosen for 95%: fresh data agree within 2 points in each of ten samples, and by no less on average."""
    fresh = []
    for seed in range(10):
        found = choose_threshold(*sample(3000, seed), 0.95)
        assert found is not None and found.coverage > 0.05
        confidence, right = sample(20_000, 100 + seed)
        fresh.append(float(right[confidence >= found.value].mean()))
    assert min(fresh) >= 0.93
    assert np.mean(fresh) >= 0.95


def test_equal_confidences_are_kept_or_escalated_together() -> None:
    found = choose_threshold([0.9] * 100 + [0.4] * 100, [True] * 100 + [False] * 100, 0.9)
    assert found is not None and found.value == 0.9 and found.coverage == 0.5


def test_a_student_that_always_agrees_keeps_everything() -> None:
    found = choose_threshold([0.3] * 200, [True] * 200, 0.9)
    assert found is not None and found.value == 0.0 and found.coverage == 1


def test_a_budget_names_the_share_that_is_escalated() -> None:
    confidence = np.linspace(0, 1, 101)
    for share in (0.0, 0.2, 0.5):
        assert (confidence < threshold_for_share(confidence, share)).mean() == pytest.approx(share, abs=0.01)
    assert (confidence < threshold_for_share(confidence, 1.0)).all()
    with pytest.raises(InputError):
        threshold_for_share([], 0.5)


def test_unusable_figures_are_refused() -> None:
    for confidence, agrees, target in (([0.5], [True, False], 0.9), ([0.5], [True], 1.0), ([0.5], [True], 0.0)):
        with pytest.raises(InputError):
            choose_threshold(confidence, agrees, target)
