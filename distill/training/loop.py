"""The training loop that all recipes share: optimiser, warm-up, early stopping, checkpoints that a run resumes from."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from intentmem.memory.errors import InputError

from .processes import accelerator, averaged, own_part, shared

if TYPE_CHECKING:
    import torch
    from torch import nn

_log = logging.getLogger(__name__)
_CHECKPOINT = "checkpoint.pt"


class Recipe(Protocol):
    """What one family of tasks adds to the loop."""

    @property
    def modules(self) -> Mapping[str, nn.Module]:
        """Everything that learns, by name."""
        ...

    def batches(self, epoch: int) -> Iterable[Any]:
        """The batches of an epoch; the same ones for the same epoch, so that a resumed run goes on as it would have."""
        ...

    @property
    def steps(self) -> int:
        """Batches an epoch."""
        ...

    def loss(self, batch: Any) -> torch.Tensor:
        """The loss of one batch, a scalar."""
        ...

    def evaluate(self) -> dict[str, float]:
        """Metrics on the development split; `score`, higher is better, is what early stopping follows."""
        ...


@dataclass(frozen=True, slots=True)
class LoopConfig:
    """How to train. Rates are peak rates; `head_rate` is for modules other than `encoder`."""

    epochs: int = 4
    rate: float = 5e-4
    head_rate: float = 2e-3
    warm_up: float = 0.1
    decay: float = 0.01
    clip: float = 1.0
    patience: int = 2
    seed: int = 0


@dataclass(slots=True)
class Curve:
    """What a run measured: loss a step, and the metrics after each epoch. `best` is the epoch that was kept."""

    losses: list[float] = field(default_factory=list)
    epochs: list[dict[str, float]] = field(default_factory=list)
    best: int = -1


Progress = Callable[[int, int, str], None]
"""Told after each step: steps done, steps in all, and a word on how it goes."""


def fit(recipe: Recipe, config: LoopConfig, folder: Path | None = None, progress: Progress | None = None) -> Curve:
    """Train a recipe; its modules hold the weights of the best epoch afterwards.

    Of several processes each takes its share of the batches; a step averages one batch of each, and the rates grow with
    the root of their number (Malladi et al., 2022).

    Args:
        folder: where checkpoints are written after each epoch, and where an earlier one is resumed from.

    Raises:
        InputError: the loss is not a number.
        MissingExtraError: accelerate is absent.
        OSError: a checkpoint cannot be written; the one before it is untouched.
    """
    import torch

    found = accelerator()
    torch.manual_seed(config.seed)
    groups = [
        {"params": [p for p in module.parameters() if p.requires_grad], "lr": rate * math.sqrt(found.num_processes)}
        for name, module in recipe.modules.items()
        for rate in (config.rate if name == "encoder" else config.head_rate,)
    ]
    for module in recipe.modules.values():
        module.to(found.device)
    optimizer = torch.optim.AdamW([g for g in groups if g["params"]], weight_decay=config.decay)
    total = max(1, -(-recipe.steps // found.num_processes) * config.epochs)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, _warm_then_linear(total, config.warm_up))
    run = _Run(recipe, optimizer, schedule, folder, found)
    first = run.resume()
    for epoch in range(first, config.epochs):
        run.epoch(epoch, total, config, progress)
        if epoch - run.curve.best >= config.patience:
            break
    run.restore_best()
    return run.curve


class _Run:
    def __init__(self, recipe: Recipe, optimizer: Any, schedule: Any, folder: Path | None, accelerator: Any) -> None:
        self.recipe, self.optimizer, self.schedule, self.folder = recipe, optimizer, schedule, folder
        self.accelerator = accelerator
        self.curve = Curve()
        self._best: dict[str, dict[str, Any]] = {}

    def epoch(self, epoch: int, total: int, config: LoopConfig, progress: Progress | None) -> None:
        import torch

        for module in self.recipe.modules.values():
            module.train()
        # Each epoch draws its own dropout, whether or not the run was interrupted before it.
        torch.manual_seed(config.seed * 1000 + epoch)
        rank, world = self.accelerator.process_index, self.accelerator.num_processes
        for number, batch in enumerate(own_part(iter(self.recipe.batches(epoch)), rank, world)):
            loss = self.recipe.loss(batch)
            if not math.isfinite(value := float(loss.detach())):
                raise InputError("loss", f"is {value} at step {number}", "lower `rate`, or look for empty inputs")
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            averaged(self._parameters())
            torch.nn.utils.clip_grad_norm_(self._parameters(), config.clip)
            self.optimizer.step()
            self.schedule.step()
            self.curve.losses.append(value)
            if progress is not None:
                progress(len(self.curve.losses), total, f"epoch {epoch + 1}, loss {value:.3f}")
        self._judge(epoch)
        self._save(epoch)

    def _judge(self, epoch: int) -> None:
        import torch

        for module in self.recipe.modules.values():
            module.eval()
        with torch.inference_mode():
            # One answer for all, lest a last digit let some processes stop and others wait for them.
            metrics = shared(self.recipe.evaluate())
        self.curve.epochs.append(metrics)
        _log.info("epoch %d: %s", epoch + 1, metrics)
        if self.curve.best < 0 or metrics["score"] > self.curve.epochs[self.curve.best]["score"]:
            self.curve.best = epoch
            self._best = self._weights()

    def _parameters(self) -> list[Any]:
        return [p for group in self.optimizer.param_groups for p in group["params"]]

    def _weights(self) -> dict[str, dict[str, Any]]:
        """What learns, copied; the frozen base is not part of it."""
        return {
            name: {key: value.detach().clone() for key, value in module.named_parameters() if value.requires_grad}
            for name, module in self.recipe.modules.items()
        }

    def restore_best(self) -> None:
        self._load(self._best)
        for module in self.recipe.modules.values():
            module.eval()

    def _load(self, weights: Mapping[str, Mapping[str, Any]]) -> None:
        import torch

        with torch.no_grad():
            for name, module in self.recipe.modules.items():
                own = dict(module.named_parameters())
                for key, value in weights.get(name, {}).items():
                    own[key].copy_(value)

    def _save(self, epoch: int) -> None:
        import torch

        if self.folder is None or not self.accelerator.is_main_process:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        state = {
            "epoch": epoch,
            "weights": self._weights(),
            "best": self._best,
            "optimizer": self.optimizer.state_dict(),
            "schedule": self.schedule.state_dict(),
            "curve": (self.curve.losses, self.curve.epochs, self.curve.best),
        }
        fresh = self.folder / f"{_CHECKPOINT}.{os.getpid()}"
        try:
            torch.save(state, fresh)
            fresh.replace(self.folder / _CHECKPOINT)
        finally:
            fresh.unlink(missing_ok=True)

    def resume(self) -> int:
        """Load the last checkpoint, which the main process alone has to see; the epoch to go on with."""
        import torch

        state = None
        if self.folder is not None and self.accelerator.is_main_process and (self.folder / _CHECKPOINT).is_file():
            state = torch.load(self.folder / _CHECKPOINT, weights_only=True)
        state = shared(state)
        if state is None:
            return 0
        self._load(state["weights"])
        self._best = state["best"]
        self.optimizer.load_state_dict(state["optimizer"])
        self.schedule.load_state_dict(state["schedule"])
        self.curve = Curve(*state["curve"])
        return int(state["epoch"]) + 1


def _warm_then_linear(total: int, share: float) -> Callable[[int], float]:
    warm = max(1, int(total * share))
    return lambda step: min((step + 1) / warm, max(0.0, (total - step) / max(1, total - warm)))
