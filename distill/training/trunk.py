"""The layers that do not learn, run once: what leaves them is kept for every epoch."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from intentmem.memory.types import Vector

from ..encoding import batches, mean_over, padded
from ..layers import layer_stack, section
from .adapting import AdaptingEncoder

if TYPE_CHECKING:
    import torch

_BATCH_TOKENS = 1024


class FrozenTrunk:
    """Texts through the layers below the adapter, each once.

    Args:
        encoder: the one that learns; its own layers are used from the first adapted one up.
    """

    def __init__(self, encoder: AdaptingEncoder) -> None:
        self._encoder = encoder
        self._states: dict[str, Any] = {}
        layers = layer_stack(encoder.base.module)
        self._bottom = section(encoder.base.module, layers[: encoder.first_layer], whole=True)
        adapted: Any = encoder.module
        inner = adapted.get_base_model()
        self._top = section(inner, layer_stack(inner)[encoder.first_layer :], whole=False)

    def prepare(self, texts: Sequence[str]) -> None:
        """Run the frozen layers over texts that are not known yet."""
        import torch

        fresh = [text for text in dict.fromkeys(texts) if text not in self._states]
        ids = self._encoder.token_ids(fresh)
        if fresh and self._bottom.device != (device := self._device):
            self._bottom = copy.deepcopy(self._bottom).to(device)
        for batch in batches([len(one) for one in ids], _BATCH_TOKENS):
            inputs, mask = padded([ids[row] for row in batch], self._encoder.base.padding, self._bottom.device)
            with torch.inference_mode():
                hidden = self._bottom(input_ids=inputs, attention_mask=mask).last_hidden_state.half().cpu()
            for row, states in zip(batch, hidden, strict=True):
                self._states[fresh[row]] = states[: len(ids[row])].clone()

    def pooled(self, texts: Sequence[str]) -> torch.Tensor:
        """(N, D) mean token states of texts, not normalised, with gradients to the adapter."""
        import torch

        self.prepare(texts)
        states = [self._states[text] for text in texts]
        parts, order = [], []
        for batch in batches([len(one) for one in states], _BATCH_TOKENS):
            parts.append(self._run([states[row] for row in batch]))
            order += batch
        places = torch.empty(len(order), dtype=torch.long)
        places[torch.tensor(order)] = torch.arange(len(order))
        return torch.cat(parts)[places]

    def states(self, texts: Sequence[str]) -> list[torch.Tensor]:
        """(T, D) token states of each text, with gradients to the adapter."""
        self.prepare(texts)
        kept = [self._states[text] for text in texts]
        found: dict[int, torch.Tensor] = {}
        for batch in batches([len(one) for one in kept], _BATCH_TOKENS):
            hidden, _ = self._hidden([kept[row] for row in batch])
            found |= {row: one[: len(kept[row])] for row, one in zip(batch, hidden, strict=True)}
        return [found[row] for row in range(len(kept))]

    def vectors(self, texts: Sequence[str]) -> Vector:
        """(N, D) float32, L2-normalised, without gradients: the adapter's vectors as students see them."""
        import torch

        module = self._encoder.module
        training = module.training
        self._encoder.module.eval()
        self._top.eval()
        with torch.inference_mode():
            found = torch.nn.functional.normalize(self.pooled(texts), dim=1).cpu().numpy()
        module.train(training)
        return np.asarray(found, np.float32)

    @property
    def _device(self) -> torch.device:
        """Where the adapter learns; the base stays where it was loaded."""
        return next(self._encoder.module.parameters()).device

    def __len__(self) -> int:
        return len(self._states)

    def forget(self) -> None:
        """Free the states that were kept."""
        self._states.clear()

    def _run(self, states: list[torch.Tensor]) -> torch.Tensor:
        return mean_over(*self._hidden(states))

    def _hidden(self, states: list[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        import torch

        longest = max(len(one) for one in states)
        hidden = torch.zeros((len(states), longest, states[0].shape[1]))
        for row, one in zip(hidden, states, strict=True):
            row[: len(one)] = one
        _, mask = padded([[0] * len(one) for one in states], 0, self._device)
        return self._top(inputs_embeds=hidden.to(self._device), attention_mask=mask).last_hidden_state, mask
