"""The encoder while it learns: the base with LoRA on its top layers."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from intentmem.memory.errors import InputError, MissingExtraError

from ..backbone import Backbone
from ..encoding import MAX_TOKENS, Adapter, mean_over, padded
from ..layers import layer_stack
from .processes import accelerator

if TYPE_CHECKING:
    import torch
    from torch import nn


@dataclass(frozen=True, slots=True)
class LoraShape:
    """Shape of an adapter. `layers`: how many of the top layers it adapts, 0 < layers <= all of them."""

    rank: int = 16
    alpha: int = 32
    layers: int = 4
    dropout: float = 0.05
    targets: tuple[str, ...] = ("query", "key", "value", "dense")
    max_tokens: int = MAX_TOKENS


class AdaptingEncoder:
    """Base and LoRA weights. `module` holds the parameters that learn: hand it to the optimiser.

    Args:
        base: the loaded base; it is copied, never changed.
        shape: of the adapter.
        seed: of the weights that start at random.

    Raises:
        InputError: the base is not a stack of encoder layers, or has fewer than are to be adapted.
        MissingExtraError: peft or accelerate is absent.
    """

    def __init__(self, base: Backbone, shape: LoraShape, seed: int) -> None:
        try:
            from peft import LoraConfig, get_peft_model
        except ImportError as error:
            raise MissingExtraError("peft", "train") from error
        import torch

        count = len(layer_stack(base.module))
        if not 0 < shape.layers <= count:
            raise InputError("layers", f"is {shape.layers}", f"the base has {count} layers")
        torch.manual_seed(seed)
        self.base, self.shape = base, shape
        self.first_layer = count - shape.layers
        numbers = "|".join(str(number) for number in range(self.first_layer, count))
        config = LoraConfig(
            r=shape.rank,
            lora_alpha=shape.alpha,
            lora_dropout=shape.dropout,
            target_modules=rf"encoder\.layer\.(?:{numbers})\..*\b(?:{'|'.join(shape.targets)})",
        )
        module: nn.Module = get_peft_model(copy.deepcopy(base.module).float(), config)
        self.module = module.to(accelerator().device)

    def token_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of each text, special ones included, cut at the adapter's limit."""
        return [self.base.framed(body, self.shape.max_tokens) for body in self.base.bodies(texts)]

    def hidden(self, ids: Sequence[Sequence[int]]) -> tuple[torch.Tensor, torch.Tensor]:
        """Token states (B, T, D) and the mask (B, T) of sequences of ids, with gradients to the adapter."""
        device = next(self.module.parameters()).device
        inputs, mask = padded(ids, self.base.padding, device)
        module: Any = self.module
        return module(input_ids=inputs, attention_mask=mask).last_hidden_state, mask

    def pooled(self, ids: Sequence[Sequence[int]]) -> torch.Tensor:
        """(B, D): the mean over each sequence's token states, not normalised."""
        return mean_over(*self.hidden(ids))

    def adapter(self, name: str) -> Adapter:
        """The weights as they are now, in half precision as they are stored."""
        weights = {
            key.replace(".default.", "."): value.detach().cpu().numpy().astype(np.float16)
            for key, value in self.module.state_dict().items()
            if ".lora_A." in key or ".lora_B." in key
        }
        return Adapter(name, self.first_layer, self.shape.alpha / self.shape.rank, weights, self.shape.max_tokens)
