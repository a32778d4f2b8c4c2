"""The processes of one run: one, or as many as `accelerate launch` started."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from intentmem.memory.errors import MissingExtraError

if TYPE_CHECKING:
    from accelerate import Accelerator

_T = TypeVar("_T")


def accelerator() -> Accelerator:
    """The accelerator of this process; on a machine without any, several processes share gradients all the same.

    Raises:
        MissingExtraError: accelerate is absent.
    """
    import torch

    try:
        from accelerate import Accelerator
    except ImportError as error:
        raise MissingExtraError("accelerate", "train") from error
    # Left to itself, each of several processes without a GPU takes itself for the only one, and all write one artifact.
    several = int(os.environ.get("WORLD_SIZE", "1")) > 1
    return Accelerator(cpu=several and not torch.cuda.is_available())


def is_main() -> bool:
    """Whether this process writes what comes out.

    Raises:
        MissingExtraError: accelerate is absent.
    """
    return bool(accelerator().is_main_process)


def shared(value: _T) -> _T:
    """The main process' value, in every process."""
    from accelerate.utils import broadcast_object_list

    found: list[Any] = [value]
    if accelerator().num_processes > 1:
        broadcast_object_list(found, from_process=0)
    made: _T = found[0]
    return made


def own_part(batches: Iterator[_T], rank: int, world: int) -> Iterator[_T]:
    """The batches of one process of several, as many as every other has: they wait for each other at each step.

    Where the last ones do not go round, some are taken by two processes.
    """
    group: list[_T] = []
    for batch in batches:
        group.append(batch)
        if len(group) == world:
            yield group[rank]
            group = []
    if group:
        yield group[rank % len(group)]


def averaged(parameters: Sequence[Any]) -> None:
    """Gradients become their mean over all processes; a parameter that one of them did not use counts as zero there."""
    import torch

    found = accelerator()
    if found.num_processes == 1:
        return
    for parameter in parameters:
        given = parameter.grad if parameter.grad is not None else torch.zeros_like(parameter)
        parameter.grad = found.reduce(given, reduction="mean")
