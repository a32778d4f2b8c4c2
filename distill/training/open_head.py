"""The head of open students while it learns: `Scoring`, with gradients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from intentmem.memory.types import Vector

from ..students.open import SEVERAL
from ..students.open_reading import UNKNOWN
from ..students.open_scoring import Scoring

if TYPE_CHECKING:
    import torch
    from torch import nn

_RANK = 64
_SCALE, _TOKEN_SCALE, _BIAS, _CONTEXT, _FADING = 20.0, 10.0, -8.0, 0.4, 0.3
_GAIN = 10.0
"""Scalars are learnt in units of this, so that they move as far in a run as matrices do."""


class Side(NamedTuple):
    """A batch of turns: pooled unit vectors (N, D), those before (N, K, D), which are there (N, K), sides (N,)."""

    turns: torch.Tensor
    before: torch.Tensor
    known: torch.Tensor
    sides: torch.Tensor


def new_head(dimension: int, reach: int, kind: str, seed: int) -> nn.ParameterDict:
    """A head that begins as the cosine of turn and label, with a little of the turns before."""
    import torch
    from torch import nn

    draw = torch.Generator().manual_seed(seed)
    bound = 1 / math.sqrt(dimension)

    def small(*shape: int) -> torch.Tensor:
        return (torch.rand(shape, generator=draw) * 2 - 1) * bound

    values = {
        "query": small(min(_RANK, dimension), dimension),
        "key": small(min(_RANK, dimension), dimension),
        "lag": -_FADING / _GAIN * torch.arange(reach),
        "alone": torch.zeros(1),
        "value": torch.eye(dimension) * _CONTEXT,
        "sides": torch.zeros(UNKNOWN, dimension),
        "log_scale": torch.tensor(math.log(_SCALE) / _GAIN),
        "bias": torch.tensor(_BIAS / _GAIN),
    }
    if kind == SEVERAL:
        values["log_token_scale"] = torch.tensor(math.log(_TOKEN_SCALE) / _GAIN)
    return nn.ParameterDict({name: nn.Parameter(value) for name, value in values.items()})


def queries(head: nn.ParameterDict, side: Side) -> torch.Tensor:
    """(N, D) turns mixed with what was said before, L2-normalised."""
    import torch

    fit = torch.einsum("nr,nkr->nk", side.turns @ head["query"].T, side.before @ head["key"].T) + _GAIN * head["lag"]
    fit = fit.masked_fill(~side.known, -1e9)
    shares = torch.cat([fit, _GAIN * head["alone"].expand(len(fit), 1)], dim=1).softmax(dim=1)[:, :-1]
    mixed = side.turns + torch.einsum("nk,nkd->nd", shares, side.before) @ head["value"].T
    own = torch.cat([head["sides"], torch.zeros_like(head["sides"][:1])])
    found: torch.Tensor = torch.nn.functional.normalize(mixed + own[side.sides], dim=1)
    return found


def scored(
    head: nn.ParameterDict, mixed: torch.Tensor, labels: torch.Tensor, tokens: Sequence[torch.Tensor]
) -> torch.Tensor:
    """(N, L) scores of unit queries (N, D), unit labels (L, D) and, of `several`, the tokens of each turn (T_i, D)."""
    import torch

    found: torch.Tensor = (_GAIN * head["log_scale"]).exp() * (mixed @ labels.T) + _GAIN * head["bias"]
    if "log_token_scale" not in head:
        return found
    cosines = torch.nn.functional.normalize(torch.cat(list(tokens)), dim=1) @ labels.T
    owners = torch.repeat_interleave(torch.arange(len(tokens)), torch.tensor([len(one) for one in tokens]))
    owners = owners.to(cosines.device)[:, None].expand(-1, len(labels))
    least = torch.full((len(tokens), len(labels)), -2.0, device=cosines.device)
    best = least.scatter_reduce(0, owners, cosines, "amax", include_self=True)
    with_tokens: torch.Tensor = found + (_GAIN * head["log_token_scale"]).exp() * best
    return with_tokens


def scoring(head: nn.ParameterDict) -> Scoring:
    """The head as it is at run time; what need not be exact is stored in half precision."""
    arrays = {name: value.detach().cpu().numpy() for name, value in head.items()}
    scales = [
        math.exp(_GAIN * float(arrays.pop("log_scale"))),
        math.exp(_GAIN * float(arrays.pop("log_token_scale"))) if "log_token_scale" in arrays else 0.0,
        _GAIN * float(arrays.pop("bias")),
    ]
    arrays |= {name: _GAIN * arrays[name] for name in ("lag", "alone")}
    stored: dict[str, Vector] = {name: value.astype(np.float16).astype(np.float32) for name, value in arrays.items()}
    stored["scales"] = np.array(scales, np.float32)
    return Scoring.of(stored)
