"""How alike pieces of talk are: by the words they share, rare ones counting more, and by what they mean."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from ..types import Vector
from .columns import Floats, Ints

_WORDS = 4.0
"""What shared words weigh beside the cosine of vectors. Pieces that share a tenth of their words are much alike."""
_FEW = 12
"""Halves below which nothing can be said of how well halves find each other."""
_MOST = 200

Piece = Ints
"""The places of its turns."""


def alike(pieces: Sequence[Piece], terms: Sequence[Sequence[str]], vectors: Vector) -> Floats:
    """Likeness of each two pieces, (N, N), in [-1, 5]: cosine of weighted terms, four times, and of mean vectors.

    Args:
        terms: of each turn, distinct. vectors: (P, D), of each turn.
    """
    said = [Counter(term for at in piece for term in terms[at]) for piece in pieces]
    holds = Counter(term for counts in said for term in counts)
    # What one piece alone says adds to its length only.
    column = {term: at for at, term in enumerate(term for term, count in holds.items() if count > 1)}
    matrix, alone = np.zeros((len(pieces), len(column)), np.float32), np.zeros(len(pieces))
    for row, counts in enumerate(said):
        for term, count in counts.items():
            weight = (1 + np.log(count)) * np.log1p(len(pieces) / holds[term])
            if term in column:
                matrix[row, column[term]] = weight
            else:
                alone[row] += weight**2
    length = np.sqrt((matrix**2).sum(axis=1) + alone)
    matrix /= np.maximum(length, 1e-6)[:, None]
    mean = np.stack([vectors[piece].mean(axis=0) for piece in pieces])
    mean /= np.maximum(np.linalg.norm(mean, axis=1, keepdims=True), 1e-6)
    return np.asarray(_WORDS * (matrix @ matrix.T) + mean @ mean.T, np.float32)


def telling(pieces: Sequence[Piece], terms: Sequence[Sequence[str]], vectors: Vector) -> float:
    """How well what is said tells what it is about, in [0, 1]: how often a half of a piece is liker to its other half
    than to half of another piece. .5 is chance, and what is given for too few pieces.

    Halves of one piece are of one goal, whatever the goals are: so this needs no gold.
    """
    long = [piece for piece in pieces if len(piece) > 3][-_MOST // 2 :]
    halves = [half for piece in long for half in np.array_split(piece, 2)]
    if len(halves) < _FEW:
        return 0.5
    found = alike(halves, terms, vectors)
    own = np.arange(len(halves)) // 2
    partner = found[np.arange(len(halves)), np.arange(len(halves)) ^ 1]
    others = np.sort(found[own[:, None] > own[None, :]])
    return float((np.searchsorted(others, partner) / len(others)).mean())
