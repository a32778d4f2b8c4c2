import numpy as np
import pytest

from intentmem.distill.learn_fusion import Example, choose_strength, fit, recalls
from intentmem.memory.read.signals import SIGNALS

pytest.importorskip("scipy")
K = len(SIGNALS)
DENSE, LENGTH = SIGNALS.index("dense"), SIGNALS.index("length")


def _examples(n: int, seed: int, sittings: bool) -> list[Example]:
    """The gold stands out by its cosine alone; everything else is noise."""
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(n):
        signals = rng.normal(size=(30, K))
        signals[3, DENSE] += 3
        group = np.repeat(np.arange(10), 3) if sittings else None
        made.append(Example(signals, 1.0 if sittings else 0.0, np.array([1 if sittings else 3]), group))
    return made


@pytest.mark.parametrize("sittings", [False, True])
def test_what_tells_the_gold_gains_weight_and_noise_loses_it(sittings: bool) -> None:
    lookup, background = fit([_examples(80, 0, sittings)], strength=0.01)
    learned = background if sittings else lookup
    assert learned[DENSE] > 3 * learned[LENGTH]
    assert (lookup >= 0).all() and (background >= 0).all()
    fresh = _examples(50, 1, sittings)
    assert recalls(fresh, lookup, background, k=3).mean() > 0.8


def test_a_strong_prior_is_not_moved() -> None:
    free, held = (fit([_examples(40, 0, False)], strength)[0] for strength in (0.01, 1e4))
    assert abs(held[DENSE] - 0.5) < 0.01 < abs(free[DENSE] - 0.5)


def test_two_fits_are_equal() -> None:
    first, second = (fit([_examples(30, 0, True)], 1.0) for _ in range(2))
    assert (first[0] == second[0]).all() and (first[1] == second[1]).all()


def test_of_strengths_that_do_equally_well_the_strongest_is_taken() -> None:
    rng = np.random.default_rng(0)
    good, same = rng.random(200) < 0.70, rng.random(200) < 0.69
    bad = rng.random(200) < 0.30
    found = {0.1: [good.astype(float)], 1.0: [same.astype(float)], 10.0: [bad.astype(float)]}
    assert choose_strength(found) == 1.0
