"""Stored vectors kept under another embedder that is seen to make the same ones: one model behind another program."""

from __future__ import annotations

import re

import numpy as np

from ..errors import InputError
from ..protocols import Embedder
from ..store import Store
from ..store.embeddings import TURN

PARITY = 0.999
"""Least cosine between a stored vector and a new one of the same text."""
SAMPLE = 100
_FORM = re.compile(r"@\w+(/.*)$", re.DOTALL)


def adopt(store: Store, embedder: Embedder, namespace: int) -> int:
    """Let a namespace's vectors count as the embedder's own; returns the number of turns that were compared.

    Up to `SAMPLE` turns, spread over the namespace, are encoded and compared. Nothing is compared, and 0 returned,
    where there are no vectors, or none of another embedder.

    Raises:
        InputError: the embedder makes other vectors, or has other prefixes; nothing has changed.
    """
    active, fingerprint = store.embeddings.active(namespace), embedder.fingerprint
    if active in (None, str(fingerprint)):
        return 0
    if _form(active) != _form(str(fingerprint)):
        raise _refusal(f"has other dimensions or prefixes ({fingerprint}) than the stored vectors ({active})")
    owners, stored = store.embeddings.load_active(namespace, TURN, fingerprint.dimension)
    picked = np.unique(np.linspace(0, len(owners) - 1, min(SAMPLE, len(owners))).astype(int))
    turns = store.turns.by_rows(namespace, [int(owners[at]) for at in picked])
    kept = [int(at) for at in picked if int(owners[at]) in turns]
    fresh = embedder.encode([turns[int(owners[at])].passage for at in kept], "passage")
    cosines = np.sum(fresh * stored[kept], axis=1) / (
        np.linalg.norm(fresh, axis=1) * np.linalg.norm(stored[kept], axis=1)
    )
    if not np.all(cosines >= PARITY):
        low = int(np.sum(~(cosines >= PARITY)))
        raise _refusal(
            f"makes other vectors than the stored ones: the cosine is below {PARITY} for {low} of {len(kept)} turns, "
            f"at least {float(np.min(cosines)):.4f}"
        )
    with store.database.write() as connection:
        store.embeddings.rename(connection, namespace, fingerprint)
        store.operations.reset_attempts(connection, namespace)
    return len(kept)


def _form(fingerprint: str | None) -> str | None:
    found = _FORM.search(fingerprint or "")
    return found[1] if found else None


def _refusal(problem: str) -> InputError:
    return InputError("embedder.profile", problem, "encode everything anew: `intentmem reembed`, without --keep")
