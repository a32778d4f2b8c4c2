"""One base encoder, many adapters: the layers below the lowest adapted one run once for all of them.

An adapter is LoRA (Hu et al., 2021) on the top layers. Its weights are merged into copies of those layers when it is
loaded, so that it costs no more at run time than the layers themselves.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from intentmem.memory.errors import InputError
from intentmem.memory.types import Vector

from .backbone import Backbone
from .layers import Layers, layer_stack, section

if TYPE_CHECKING:
    import torch

PLAIN = "plain"
"""The name under which texts are encoded by the base as it is."""
MAX_TOKENS = 128
"""Tokens of a text that students read, special ones included: the head of a long turn tells what it is about."""
_BATCH_TOKENS = 1024
_LORA = re.compile(r"(?:.*\.)?encoder\.layer\.(\d+)\.(.+)\.lora_(A|B)(?:\.default)?\.weight$")


@dataclass(frozen=True, slots=True)
class Adapter:
    """LoRA weights of the layers from `first_layer` up, as peft names them; `scale` is alpha / rank."""

    name: str
    first_layer: int
    scale: float
    weights: Mapping[str, NDArray[np.floating[Any]]]
    max_tokens: int = MAX_TOKENS


@dataclass(frozen=True, slots=True, eq=False)
class Encoded:
    """A text as one adapter sees it. pooled: (D,), mean over its tokens, not normalised. tokens: (T, D) or None."""

    pooled: Vector
    tokens: Vector | None = None


class AdaptedEncoder:
    """Texts through the base and through each adapter.

    Args:
        base: the loaded base encoder; it must be a stack of `encoder.layer`s over `embeddings`.
        adapters: by name. `PLAIN`, the base as it is, needs no adapter.

    Raises:
        InputError: the base has no such stack, or an adapter does not fit it.
    """

    def __init__(self, base: Backbone, adapters: Sequence[Adapter]) -> None:
        self.base = base
        layers = layer_stack(base.module)
        self._split = min((a.first_layer for a in adapters), default=len(layers))
        self._trunk = Layers(section(base.module, layers[: self._split], whole=True), whole=True)
        self._tops: dict[str, Layers] = {}
        self._limits = {adapter.name: adapter.max_tokens for adapter in adapters}
        for adapter in adapters:
            merged = merge(layers, adapter)
            self._tops[adapter.name] = Layers(section(base.module, merged[self._split :], whole=False), whole=False)
        self._tops[PLAIN] = Layers(section(base.module, layers[self._split :], whole=False), whole=False)
        self._limits[PLAIN] = MAX_TOKENS

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the adapters."""
        return tuple(name for name in self._tops if name != PLAIN)

    @property
    def dimension(self) -> int:
        """Size of a vector."""
        return self.base.dimension

    def encode(
        self, texts: Sequence[str], names: Sequence[str], with_tokens: Sequence[str] = ()
    ) -> dict[str, list[Encoded]]:
        """Encode texts by each of the adapters named; token states too for those in `with_tokens`.

        A text beyond an adapter's `max_tokens` is cut there, as it was when the adapter was trained.
        """
        found: dict[str, list[Encoded | None]] = {name: [None] * len(texts) for name in names}
        for together, rows, ids in self._jobs(texts, names):
            for batch in batches([len(one) for one in ids], _BATCH_TOKENS):
                made = self._pass([ids[place] for place in batch], together, with_tokens)
                for name, encoded in made.items():
                    for place, one in zip(batch, encoded, strict=True):
                        found[name][rows[place]] = one
        return {name: [one for one in rows if one is not None] for name, rows in found.items()}

    def states(self, ids: Sequence[Sequence[int]], name: str) -> list[Vector]:
        """Token states (T, D) of sequences of token ids, special ones included, by one adapter; nothing is cut."""
        found: list[Vector] = [np.empty((0, self.dimension), np.float32)] * len(ids)
        for batch in batches([len(one) for one in ids], _BATCH_TOKENS):
            made = self._pass([list(ids[place]) for place in batch], [name], [name])[name]
            for place, one in zip(batch, made, strict=True):
                found[place] = one.pooled if one.tokens is None else one.tokens
        return found

    def _jobs(
        self, texts: Sequence[str], names: Sequence[str]
    ) -> Iterator[tuple[Sequence[str], list[int], list[list[int]]]]:
        """Adapters that share a pass, rows, and their token ids: a text that is cut at several places takes several."""
        limits = sorted({self._limits[name] for name in names})
        bodies = self.base.bodies(texts)
        ids = [self.base.framed(body, limits[-1]) for body in bodies]
        alike = [row for row, one in enumerate(ids) if len(one) <= limits[0] or len(limits) == 1]
        yield names, alike, [ids[row] for row in alike]
        longer = sorted(set(range(len(texts))) - set(alike))
        for limit in limits if longer else ():
            mine = [name for name in names if self._limits[name] == limit]
            yield mine, longer, [self.base.framed(bodies[row], limit) for row in longer]

    def _pass(self, ids: list[list[int]], names: Sequence[str], with_tokens: Sequence[str]) -> dict[str, list[Encoded]]:
        import torch

        inputs, mask = padded(ids, self.base.padding, self.base.device)
        given = mask if bool((mask == 0).any()) else None
        sizes = [len(one) for one in ids]
        found = {}
        with torch.inference_mode():
            shared = self._trunk(inputs, given)
            for name in names:
                hidden = self._tops[name](shared, given).float()
                means = mean_over(hidden, mask).cpu().numpy()
                states = hidden.cpu().numpy() if name in with_tokens else None
                found[name] = [
                    Encoded(mean, None if states is None else states[row, :size].copy())
                    for row, (mean, size) in enumerate(zip(means, sizes, strict=True))
                ]
        return found


def merge(layers: Sequence[Any], adapter: Adapter) -> list[Any]:
    """The layers with the adapter's weights added; those it leaves alone are shared, not copied.

    Raises:
        InputError: a weight fits no layer, lacks its pair, or the adapter changes nothing.
    """
    import torch

    pairs: dict[tuple[int, str], dict[str, NDArray[np.floating[Any]]]] = {}
    for key, value in adapter.weights.items():
        if (match := _LORA.fullmatch(key)) is None:
            raise InputError(f"adapter.{key}", "is not a LoRA weight of an encoder layer")
        pairs.setdefault((int(match[1]), match[2]), {})[match[3]] = value
    merged = list(layers[: adapter.first_layer]) + [copy.deepcopy(layer) for layer in layers[adapter.first_layer :]]
    changed = False
    for (number, path), pair in pairs.items():
        if set(pair) != {"A", "B"} or not adapter.first_layer <= number < len(merged):
            raise InputError(f"adapter.layer.{number}.{path}", "has no pair, or no layer of that number is adapted")
        try:
            target = merged[number].get_submodule(path).weight
        except AttributeError as error:
            raise InputError(f"adapter.layer.{number}.{path}", "names no part of the base") from error
        delta = torch.from_numpy(pair["B"].astype(np.float32) @ pair["A"].astype(np.float32)) * adapter.scale
        if delta.shape != target.shape:
            raise InputError(
                f"adapter.layer.{number}.{path}", f"has shape {tuple(delta.shape)}, not {tuple(target.shape)}"
            )
        changed = changed or bool(delta.abs().max() > 0)
        target.data += delta.to(target)
    if not changed:
        raise InputError(f"adapter.{adapter.name}", "changes nothing: its weights are missing or zero")
    return merged


def batches(lengths: Sequence[int], tokens: int) -> Iterator[list[int]]:
    """Indices in batches of like lengths, at most `tokens` padded tokens each (but at least one text)."""
    order = sorted(range(len(lengths)), key=lambda row: lengths[row])
    batch: list[int] = []
    for row in order:
        if batch and (len(batch) + 1) * lengths[row] > tokens:
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch


def padded(ids: Sequence[Sequence[int]], padding: int, device: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids as (B, T), and the mask that is 1 at tokens."""
    import torch

    longest = max(len(one) for one in ids)
    inputs = torch.full((len(ids), longest), padding, dtype=torch.long)
    mask = torch.zeros((len(ids), longest), dtype=torch.long)
    for row, one in enumerate(ids):
        inputs[row, : len(one)] = torch.tensor(one, dtype=torch.long)
        mask[row, : len(one)] = 1
    return inputs.to(device), mask.to(device)


def mean_over(hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """(B, T, D) token states to (B, D): the mean over each row's tokens."""
    weights = mask.unsqueeze(-1).to(hidden.dtype)
    return (hidden * weights).sum(dim=1) / weights.sum(dim=1)
