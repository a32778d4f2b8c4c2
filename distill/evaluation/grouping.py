"""How alike two ways of grouping the same things are."""

from __future__ import annotations

from collections.abc import Sequence

from intentmem.memory.errors import MissingExtraError


def rand_index(found: Sequence[str], gold: Sequence[str], extra: str = "train") -> float:
    """Adjusted Rand index (Hubert and Arabie, 1985): 1 where both are the same, 0 as by chance.

    Args:
        extra: of this package, which brings what is needed.

    Raises:
        MissingExtraError: scikit-learn is absent.
    """
    try:
        from sklearn.metrics import adjusted_rand_score
    except ImportError as error:
        raise MissingExtraError("scikit-learn", extra) from error
    return float(adjusted_rand_score(gold, found))
