import numpy as np
import pytest

from intentmem.distill.learn_fusion import Example, choose_strength, fit, recalls
from intentmem.memory.read.signals import SIGNALS

pytest.importorskip("scipy")
K = len(SIGNALS)
DENSE, LENGTH = SIGNALS.index("dense"), SIGNALS.index("length")


LOOKUP, BACKGROUND, THREADS = range(3)


def _examples(n: int, seed: int, vector: int) -> list[Example]:
    """The gold stands out by its cosine alone; everything else is noise. One of the weight vectors counts."""
    sittings = vector == BACKGROUND
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(n):
        signals = rng.normal(size=(30, K))
        signals[3, DENSE] += 3
        group = np.repeat(np.arange(10), 3) if sittings else None
        made.append(Example(signals, np.eye(3)[vector], np.array([1 if sittings else 3]), group))
    return made


@pytest.mark.parametrize("vector", [LOOKUP, BACKGROUND, THREADS])
def test_what_tells_the_gold_gains_weight_and_noise_loses_it(vector: int) -> None:
    weights = fit([_examples(80, 0, vector)], strength=0.01)
    assert weights[vector, DENSE] > 3 * weights[vector, LENGTH]
    assert (weights >= 0).all()
    assert recalls(_examples(50, 1, vector), weights, k=3).mean() > 0.8


def test_a_strong_prior_is_not_moved() -> None:
    free, held = (fit([_examples(40, 0, LOOKUP)], strength)[LOOKUP] for strength in (0.01, 1e4))
    assert abs(held[DENSE] - 0.5) < 0.01 < abs(free[DENSE] - 0.5)


def test_two_fits_are_equal() -> None:
    first, second = (fit([_examples(30, 0, BACKGROUND)], 1.0) for _ in range(2))
    assert (first == second).all()


def test_of_strengths_that_do_equally_well_the_strongest_is_taken() -> None:
    rng = np.random.default_rng(0)
    good, same = rng.random(200) < 0.70, rng.random(200) < 0.69
    bad = rng.random(200) < 0.30
    found = {0.1: [good.astype(float)], 1.0: [same.astype(float)], 10.0: [bad.astype(float)]}
    assert choose_strength(found) == 1.0
