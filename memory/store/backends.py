"""The two FAISS structures behind `VectorIndex`, each keyed by the caller's own 64-bit ids.

`FlatBackend` is exact. `IvfBackend` keeps half-precision vectors in inverted lists and probes as many of them as it
takes to agree with an exhaustive search, which it measures on itself.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from ..errors import CorruptIndexError, MissingExtraError
from ..types import Vector

Ids = NDArray[np.int64]

# Measured at 1M x 384 clustered vectors on two shared AVX2 cores; see the figures in `VectorIndex`.
SAMPLE_PER_LIST = 40  # fewer than 39 and k-means places lists badly; more trains longer for no recall
TRAINING_ROUNDS = 8
TARGET_RECALL = 0.97  # at TUNED_DEPTH, so that recall@10 stays above .95 as the data drifts
TUNED_DEPTH = 50
_TUNING_QUERIES = 64
_TUNING_NOISE = 0.8  # moves a stored vector to a cosine of about .78: a question is not one of its passages
_BITMAP_BYTES = 32 << 20


def faiss_module() -> Any:
    """FAISS, imported on first use.

    Raises:
        MissingExtraError: it is not installed.
    """
    try:
        import faiss
    except ImportError as error:
        raise MissingExtraError("faiss", "cpu") from error
    return faiss


class Backend(Protocol):
    """Unit vectors by id. Ids given to `add` are new, those given to `remove` and `gather` are present."""

    kind: str
    index: Any

    def add(self, ids: Ids, vectors: Vector) -> None:
        """Add (N,) ids with their (N, D) vectors."""
        ...

    def remove(self, ids: Ids) -> None:
        """Remove (N,) ids."""
        ...

    def gather(self, ids: Ids) -> Vector:
        """The (N, D) vectors of (N,) ids."""
        ...

    def search(self, queries: Vector, k: int, allowed: Ids | None, exhaustive: bool = False) -> tuple[Ids, Vector]:
        """(Q, k) ids, -1 where there is none, and (Q, k) inner products; over every list if `exhaustive`.

        `allowed` is ascending and present.
        """
        ...


class FlatBackend:
    """Exact search over float32 vectors."""

    kind = "flat"

    def __init__(self, dimension: int, index: Any = None) -> None:
        faiss = faiss_module()
        self.index = faiss.IndexIDMap2(faiss.IndexFlatIP(dimension)) if index is None else index

    def add(self, ids: Ids, vectors: Vector) -> None:
        """See `Backend`."""
        self.index.add_with_ids(vectors, ids)

    def remove(self, ids: Ids) -> None:
        """See `Backend`."""
        self.index.remove_ids(ids)

    def gather(self, ids: Ids) -> Vector:
        """See `Backend`."""
        return cast(Vector, self.index.reconstruct_batch(ids))

    def search(self, queries: Vector, k: int, allowed: Ids | None, exhaustive: bool = False) -> tuple[Ids, Vector]:
        """See `Backend`."""
        if allowed is None:
            scores, found = self.index.search(queries, k)
        else:
            selector, _owned = _selector(allowed)
            parameters = faiss_module().SearchParameters(sel=selector)
            scores, found = self.index.search(queries, k, params=parameters)
        return found, scores


class IvfBackend:
    """Inverted lists of float16 vectors: 2 D bytes each, and a cosine within about 1e-4 of the exact one.

    FAISS keeps caller's ids natively here. `IndexIDMap2` around it would be wrong: its removal assumes that the
    structure inside renumbers, which inverted lists do not.
    """

    kind = "ivf"

    def __init__(self, dimension: int, index: Any = None, *, lists: int = 0, sample: Vector | None = None) -> None:
        self.index = _trained_lists(dimension, lists, sample) if index is None else index

    @property
    def lists(self) -> int:
        """Number of inverted lists."""
        return int(self.index.nlist)

    @property
    def probes(self) -> int:
        """Lists visited by an unfiltered search."""
        return int(self.index.nprobe)

    def add(self, ids: Ids, vectors: Vector) -> None:
        """See `Backend`."""
        self.index.add_with_ids(vectors, ids)

    def remove(self, ids: Ids) -> None:
        """See `Backend`."""
        self.index.remove_ids(faiss_module().IDSelectorArray(ids))

    def gather(self, ids: Ids) -> Vector:
        """See `Backend`."""
        return cast(Vector, self.index.reconstruct_batch(ids))

    def search(self, queries: Vector, k: int, allowed: Ids | None, exhaustive: bool = False) -> tuple[Ids, Vector]:
        """See `Backend`. Probes more lists for deep or filtered searches, and all rather than return too few."""
        reachable = int(self.index.ntotal) if allowed is None else len(allowed)
        scale = max(1.0, k / TUNED_DEPTH) ** 0.5 * self.index.ntotal / max(reachable, 1)
        probes = self.lists if exhaustive else min(self.lists, int(np.ceil(self.probes * scale)))
        owned = None if allowed is None else _selector(allowed)
        while True:
            found, scores = self._probe(queries, k, probes, owned)
            if probes == self.lists or bool((found[:, min(k, reachable) - 1] >= 0).all()):
                return found, scores
            probes = min(self.lists, probes * 4)

    def tune(self, rng: np.random.Generator) -> None:
        """Set `probes` to the fewest that reach TARGET_RECALL of an exhaustive search for perturbed stored vectors."""
        ids = self.ids()
        if not len(ids):
            return
        sample = self.gather(rng.choice(ids, min(_TUNING_QUERIES, len(ids)), replace=False))
        noise = rng.standard_normal(sample.shape, dtype=np.float32)
        queries = sample + noise * np.float32(_TUNING_NOISE / np.sqrt(sample.shape[1]))
        depth = min(TUNED_DEPTH, len(ids))
        exact, _ = self._probe(queries, depth, self.lists, None)
        probes = 1
        while probes < self.lists:
            found, _ = self._probe(queries, depth, probes, None)
            hits = sum(len(np.intersect1d(a, b)) for a, b in zip(exact, found, strict=True))
            if hits >= TARGET_RECALL * exact.size:
                break
            probes *= 2
        self.index.nprobe = min(probes, self.lists)

    def ids(self) -> Ids:
        """Every id, in no order."""
        faiss, lists = faiss_module(), self.index.invlists
        parts = [
            faiss.rev_swig_ptr(lists.get_ids(number), lists.list_size(number)).copy()
            for number in range(self.lists)
            if lists.list_size(number)
        ]
        return np.concatenate(parts) if parts else np.empty(0, np.int64)

    def _probe(self, queries: Vector, k: int, probes: int, owned: tuple[Any, Any] | None) -> tuple[Ids, Vector]:
        parameters = faiss_module().SearchParametersIVF(nprobe=probes, sel=owned[0] if owned else None)
        scores, found = self.index.search(queries, k, params=parameters)
        return found, scores


def write_backend(backend: Backend, path: Path) -> None:
    """Write the FAISS structure to a file."""
    faiss_module().write_index(backend.index, str(path))


def read_backend(path: Path, dimension: int) -> tuple[Backend, Ids]:
    """Read a structure back, with its ids sorted.

    Raises:
        CorruptIndexError: it is not one of ours, or of another dimension.
    """
    faiss = faiss_module()
    try:
        index = faiss.read_index(str(path))
    except RuntimeError as error:
        raise CorruptIndexError(f"{path}: {error}") from error
    if index.d != dimension or index.metric_type != faiss.METRIC_INNER_PRODUCT:
        raise CorruptIndexError(f"{path}: {index.d} dimensions or another metric, expected {dimension}")
    if isinstance(index, faiss.IndexIDMap2):
        return FlatBackend(dimension, index), np.sort(faiss.vector_to_array(index.id_map))
    if isinstance(index, faiss.IndexIVFScalarQuantizer):
        ivf = IvfBackend(dimension, index)
        return ivf, np.sort(ivf.ids())
    raise CorruptIndexError(f"{path}: unexpected structure {type(index).__name__}")


def lists_for(count: int) -> int:
    """Inverted lists for so many vectors: the power of two next to 2 sqrt(count), 16 to 16384."""
    return int(np.clip(2 ** round(np.log2(2 * np.sqrt(max(count, 1)))), 16, 16384))


def _trained_lists(dimension: int, lists: int, sample: Vector | None) -> Any:
    faiss = faiss_module()
    index = faiss.IndexIVFScalarQuantizer(
        faiss.IndexFlatIP(dimension),
        dimension,
        lists,
        faiss.ScalarQuantizer.QT_fp16,
        faiss.METRIC_INNER_PRODUCT,
        False,  # of the vector itself: half precision loses little, and reconstruction needs no centroid
    )
    index.cp.niter = TRAINING_ROUNDS
    index.cp.spherical = True
    index.cp.min_points_per_centroid = 1
    index.train(sample)
    index.set_direct_map_type(faiss.DirectMap.Hashtable)
    return index


def _selector(allowed: Ids) -> tuple[Any, Any]:
    """A selector of sorted ids, and the memory that it points into."""
    faiss = faiss_module()
    top = int(allowed[-1])
    if top // 8 > _BITMAP_BYTES:
        return faiss.IDSelectorBatch(allowed), allowed
    mask = np.zeros(top + 1, np.bool_)
    mask[allowed] = True
    bits = np.packbits(mask, bitorder="little")
    return faiss.IDSelectorBitmap(bits), bits
