import numpy as np
import pytest

from intentmem.memory.errors import InputError
from intentmem.serving.bench.bootstrap import intervals, resampled_means


def test_an_interval_surrounds_the_mean() -> None:
    values = np.random.default_rng(3).random((200, 2))
    for column, found in zip(values.T, intervals(values, 500, seed=0), strict=True):
        assert found.mean == pytest.approx(column.mean())
        assert found.low < found.mean < found.high


def test_the_width_is_that_of_the_normal_approximation_where_it_holds() -> None:
    values = np.random.default_rng(4).integers(0, 2, (1000, 1)).astype(float)
    found = intervals(values, 4000, seed=0)[0]
    assert found.high - found.low == pytest.approx(2 * 1.96 * values.std() / np.sqrt(1000), rel=0.08)


def test_constant_values_have_no_width() -> None:
    found = intervals(np.ones((7, 1)), 100, seed=0)[0]
    assert found.low == pytest.approx(1) and found.high == pytest.approx(1)


def test_equal_seeds_give_equal_intervals_and_others_do_not() -> None:
    values = np.random.default_rng(5).random((50, 1))
    assert intervals(values, 300, seed=1) == intervals(values, 300, seed=1)
    assert intervals(values, 300, seed=1) != intervals(values, 300, seed=2)


def test_metrics_of_one_question_are_resampled_together() -> None:
    values = np.random.default_rng(6).random((40, 1))
    means = resampled_means(np.hstack([values, 2 * values]), 100, seed=0)
    assert means.shape == (100, 2)
    np.testing.assert_allclose(means[:, 1], 2 * means[:, 0])


@pytest.mark.parametrize("values", [np.zeros((0, 1)), np.zeros(3), np.array([[np.nan]])])
def test_values_without_a_mean_are_refused(values: np.ndarray) -> None:
    with pytest.raises(InputError, match="values"):
        intervals(values, 10, seed=0)


def test_no_resamples_are_refused() -> None:
    with pytest.raises(InputError, match="samples"):
        intervals(np.ones((3, 1)), 0, seed=0)
