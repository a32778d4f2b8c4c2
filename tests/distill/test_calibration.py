from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intentmem.distill.calibration import ece, isotonic, reliability, softmax, temperature
from intentmem.memory.errors import InputError


def overconfident(n: int, factor: float) -> tuple[np.ndarray, np.ndarray]:
    """Logits whose softmax would be right, blown up by a factor; and what came out."""
    rng = np.random.default_rng(0)
    logits = rng.normal(0, 1.5, (n, 4))
    targets = np.array([rng.choice(4, p=softmax(row)) for row in logits])
    return logits * factor, targets


@pytest.mark.parametrize("factor", [0.5, 1.0, 3.0])
def test_temperature_undoes_a_factor_on_the_logits(factor: float) -> None:
    logits, targets = overconfident(4000, factor)
    assert temperature(logits, targets) == pytest.approx(factor, rel=0.1)


def test_temperature_takes_rows_of_different_lengths() -> None:
    assert 0.04 < temperature([[2.0, 0.0], [1.0, 0.0, 0.5], [3.0]], [0, 0, 0]) < 21
    with pytest.raises(InputError, match="names an option that its row does not have"):
        temperature([[2.0, 0.0], [1.0]], [0, 1])
    with pytest.raises(InputError):
        temperature([], [])


def test_calibration_brings_the_error_down() -> None:
    logits, targets = overconfident(4000, 3.0)

    def error(warmth: float) -> float:
        shares = softmax(logits, warmth)
        return ece(shares.max(axis=1), shares.argmax(axis=1) == targets)

    assert error(1.0) > 0.1
    assert error(temperature(logits, targets)) < 0.03


def test_isotonic_rises_and_is_never_certain() -> None:
    rng = np.random.default_rng(1)
    scores = rng.random(500)
    curve = isotonic(scores, rng.random(500) < scores**2)
    values = curve(np.linspace(-1, 2, 50))
    assert (np.diff(values) >= 0).all()
    assert 0 < values[0] < values[-1] < 1
    assert float(curve(0.5)) == pytest.approx(0.25, abs=0.12)


def test_a_perfectly_calibrated_set_has_no_error() -> None:
    confidence = np.repeat([0.25, 0.75], 400)
    correct = np.concatenate([np.arange(400) < 100, np.arange(400) < 300])
    assert ece(confidence, correct) == pytest.approx(0)
    assert reliability(confidence, correct) == ((0.25, 0.25, 400), (0.75, 0.75, 400))


@given(rows=st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=60))
def test_the_bins_hold_every_example_once(rows: list[tuple[float, bool]]) -> None:
    confidence, correct = zip(*rows, strict=True)
    bins = reliability(confidence, correct)
    assert sum(n for *_, n in bins) == len(rows)
    assert 0 <= ece(confidence, correct) <= 1


@pytest.mark.parametrize(("confidence", "correct"), [([], []), ([0.5], [1, 0]), ([1.5], [1]), ([float("nan")], [1])])
def test_unusable_figures_are_refused(confidence: list[float], correct: list[int]) -> None:
    with pytest.raises(InputError):
        ece(confidence, correct)
