"""Layers of an encoder, run with as little as possible around torch's own operations.

A short text is a few operations of microseconds each: there, what the library does around every layer takes as long as
the layers do. So those of the BERT family are run directly, where they are found to give what the library gives.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from intentmem.memory.errors import InputError

if TYPE_CHECKING:
    import torch
    from torch import nn

_log = logging.getLogger(__name__)
_AGREEMENT = 0.9999
"""Least cosine of token states to those of the library."""
_LINEAR = (
    *("attention.self.query", "attention.self.key", "attention.self.value"),
    *("attention.output.dense", "intermediate.dense", "output.dense"),
)
_OTHERS = ("attention.output.LayerNorm", "intermediate.intermediate_act_fn", "output.LayerNorm")


class Layers:
    """An encoder, or some layers of one, as a function of token ids or hidden states.

    Args:
        module: as transformers loads it, or a `section` of that; its weights are used where they are, not copied.
        whole: whether it begins with its embeddings, and so with token ids.
    """

    def __init__(self, module: Any, whole: bool = True) -> None:
        self.module, self.whole = module, whole
        self.direct = self._agrees()

    def __call__(self, given: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        """Token states (B, T, D).

        Args:
            given: token ids (B, T) for a whole encoder or a lowest section, else hidden states (B, T, D).
            mask: (B, T), 1 at tokens; None where nothing is padded.
        """
        return self._directly(given, mask) if self.direct else self._as_loaded(given, mask)

    def _as_loaded(self, given: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        inputs = {"input_ids": given} if self.whole else {"inputs_embeds": given}
        found: torch.Tensor = self.module(**inputs, attention_mask=mask).last_hidden_state
        return found

    def _directly(self, given: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        hidden: torch.Tensor = self.module.embeddings(input_ids=given) if self.whole else given
        attended = None if mask is None else mask[:, None, None, :].bool()
        for layer in self.module.encoder.layer:
            hidden = _through(layer, hidden, attended)
        return hidden

    def _agrees(self) -> bool:
        """Whether the layers are of a kind that is run directly, tried on two short rows, one of them padded."""
        import torch

        try:
            layers = layer_stack(self.module)
        except InputError:
            return False
        if not all(_is_plain(layer) for layer in layers):
            return False
        if not layers:
            return not self.whole
        weights = next(self.module.parameters())
        mask = torch.tensor([[1] * 6, [1] * 4 + [0] * 2], device=weights.device)
        if self.whole:
            given = torch.arange(3, 15, device=weights.device).reshape(2, 6) % self.module.config.vocab_size
        else:
            shape = (2, 6, int(self.module.config.hidden_size))
            given = torch.sin(torch.arange(12 * shape[2], device=weights.device).float()).reshape(shape).to(weights)
        with torch.inference_mode():
            try:
                found = self._directly(given, mask)
            except (RuntimeError, TypeError, AttributeError) as error:
                _log.info("layers are run as loaded: %s", error)
                return False
            cosines = torch.cosine_similarity(found.float(), self._as_loaded(given, mask).float(), dim=-1)
        return bool((cosines[mask.bool()] >= _AGREEMENT).all())


def _is_plain(layer: Any) -> bool:
    """Whether a layer has the parts of the family, and its linear maps are nothing more than that."""
    from torch import nn

    try:
        parts = [layer.get_submodule(path) for path in (*_LINEAR, *_OTHERS)]
    except AttributeError:
        return False
    return all(type(part) is nn.Linear for part in parts[: len(_LINEAR)])


def _through(layer: Any, hidden: torch.Tensor, attended: torch.Tensor | None) -> torch.Tensor:
    """One layer of the BERT family (Devlin et al., 2019): attention and feed-forward, each normalised with its input.

    Its parts are asked by `forward`, as calling them would look for hooks first.
    """
    from torch.nn.functional import scaled_dot_product_attention

    own = layer.attention.self
    rows, tokens, size = hidden.shape
    heads = int(own.num_attention_heads)
    query, key, value = (
        part.forward(hidden).view(rows, tokens, heads, size // heads).transpose(1, 2)
        for part in (own.query, own.key, own.value)
    )
    mixed = scaled_dot_product_attention(query, key, value, attn_mask=attended).transpose(1, 2).reshape(hidden.shape)
    hidden = layer.attention.output.LayerNorm.forward(hidden + layer.attention.output.dense.forward(mixed))
    wide = layer.intermediate.intermediate_act_fn(layer.intermediate.dense.forward(hidden))
    found: torch.Tensor = layer.output.LayerNorm.forward(hidden + layer.output.dense.forward(wide))
    return found


def layer_stack(module: Any) -> list[Any]:
    """The layers of an encoder, lowest first.

    Raises:
        InputError: the model is no such encoder.
    """
    layers = getattr(getattr(module, "encoder", None), "layer", None)
    if layers is None or not hasattr(module, "embeddings") or getattr(module.config, "is_decoder", False):
        kind = type(module).__name__
        raise InputError("base", f"{kind} is not a stack of encoder layers", "use a BERT-like encoder, such as MiniLM")
    return list(layers)


def section(module: Any, layers: Sequence[Any], whole: bool) -> Any:
    """The encoder with these layers only; unless it is `whole`, it takes hidden states in the place of token ids."""
    from torch import nn

    section = copy.copy(module)
    section._modules = dict(module._modules)
    encoder = copy.copy(module.encoder)
    encoder._modules = {**module.encoder._modules, "layer": nn.ModuleList(layers)}
    section._modules["encoder"] = encoder
    section._modules["pooler"] = None
    section.config = copy.copy(module.config)
    section.config.num_hidden_layers = encoder.config.num_hidden_layers = len(layers)
    if not whole:
        section._modules["embeddings"] = _passing_on()
    return section.eval()


def _passing_on() -> nn.Module:
    from torch import nn

    class PassingOn(nn.Module):
        """In the place of embeddings: the hidden states that were given."""

        def forward(self, *_: Any, inputs_embeds: torch.Tensor, **__: Any) -> torch.Tensor:
            return inputs_embeds

    return PassingOn()
