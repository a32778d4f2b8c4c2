"""The facade for asynchronous callers: the same methods, each run in a worker thread.

SQLite, FAISS and the encoder release the interpreter while they work, so that the event loop stays free.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import update_wrapper
from types import TracebackType
from typing import Concatenate, ParamSpec, TypeVar

from .memory import Memory

P = ParamSpec("P")
R = TypeVar("R")


def _threaded(
    method: Callable[Concatenate[Memory, P], R],
) -> Callable[Concatenate[AsyncMemory, P], Awaitable[R]]:
    async def call(self: AsyncMemory, *args: P.args, **kwargs: P.kwargs) -> R:
        return await asyncio.to_thread(method, self.memory, *args, **kwargs)

    return update_wrapper(call, method)  # type: ignore[return-value]  # typeshed forgets that `call` is returned


class AsyncMemory:
    """`Memory` with every method awaitable; see there for arguments and results."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory

    add = _threaded(Memory.add)
    process = _threaded(Memory.process)
    label = _threaded(Memory.label)
    operation = _threaded(Memory.operation)
    search = _threaded(Memory.search)
    context = _threaded(Memory.context)
    get = _threaded(Memory.get)
    list = _threaded(Memory.list)
    history = _threaded(Memory.history)
    scopes = _threaded(Memory.scopes)
    timeline = _threaded(Memory.timeline)
    vocabulary = _threaded(Memory.vocabulary)
    namespaces = _threaded(Memory.namespaces)
    status = _threaded(Memory.status)
    relabel = _threaded(Memory.relabel)
    rename = _threaded(Memory.rename)
    merge = _threaded(Memory.merge)
    unmerge = _threaded(Memory.unmerge)
    split = _threaded(Memory.split)
    delete = _threaded(Memory.delete)
    delete_all = _threaded(Memory.delete_all)
    erase = _threaded(Memory.erase)
    export = _threaded(Memory.export)
    import_ = _threaded(Memory.import_)
    reembed = _threaded(Memory.reembed)
    observe_records = _threaded(Memory.observe_records)
    claim = _threaded(Memory.claim)
    records = _threaded(Memory.records)
    links = _threaded(Memory.links)
    close_episodes = _threaded(Memory.close_episodes)
    state = _threaded(Memory.state)
    state_history = _threaded(Memory.state_history)
    conflicts = _threaded(Memory.conflicts)
    resolve = _threaded(Memory.resolve)
    merge_entities = _threaded(Memory.merge_entities)
    unmerge_entity = _threaded(Memory.unmerge_entity)
    close = _threaded(Memory.close)

    async def __aenter__(self) -> AsyncMemory:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
