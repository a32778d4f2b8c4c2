"""The facade: one object that remembers and finds.

Arguments and results follow mem0's conventions where those exist: `messages` is a string, a message or a list of
OpenAI messages; the owner is given by `user_id`, `agent_id` and `run_id` (or `namespace`); lists come as
``{"results": [...]}``. Unknown arguments raise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import TracebackType
from typing import Any, Unpack

from . import exchange, inspection, results
from .addressing import DEFAULT_TRAJECTORY, Address, address
from .curation import Curation
from .errors import InputError
from .filtering import selected_turns
from .links_api import LinksApi
from .options import Owner, SearchOptions, TimeLike
from .protocols import Clock, Decider, Decomposer, Embedder, Foreseer, Payer, Writer
from .read.budget import Budget
from .read.present import Presenter
from .read.request import SearchRequest, parse_filters, parse_recipe
from .read.searcher import Searcher
from .records_api import RecordsApi
from .states_api import StatesApi
from .store import Store
from .types import Filters, Turn
from .write.intake import Intake, Receipt
from .write.labelers import Labeler
from .write.messages import Messages, parse_messages, parse_time
from .write.parity import adopt
from .write.pipeline import Pipeline, Progress

# Within the class, `list` is the method of that name.
Names = list[str]
Turns = list[Turn]


class Memory(StatesApi, RecordsApi, LinksApi):
    """Long-term memory in one folder. Usable from several threads; several processes may share the folder.

    Args:
        store, embedder, decider, writer, clock: the seams; `intentmem.serving.open_memory` puts the usual ones in.
        strict_namespaces: a write to a namespace that does not exist raises instead of creating it.
        planner: decides what questions ask; `decider` where None. foreseer, payer: of a served model.
        turn_space: gives what encodes turns at present for a decider of scopes that has vectors of its own.
        labelers: tasks of the user's own, decided for every turn. budget: where reading one question ends.
        record_late: episodes get records when these, links or states are first asked for, not when they close.
        on_close: called when the memory has been closed.
    """

    def __init__(
        self,
        store: Store,
        embedder: Embedder,
        decider: Decider,
        writer: Writer,
        clock: Clock,
        strict_namespaces: bool = False,
        planner: Decider | None = None,
        foreseer: Foreseer | None = None,
        payer: Payer | None = None,
        turn_space: Callable[[], Embedder | None] | None = None,
        labelers: Sequence[Labeler] = (),
        record_late: bool = False,
        on_close: Callable[[], None] | None = None,
        budget: Budget | None = None,
    ) -> None:
        self.store = store
        self.embedder = embedder
        self.clock = clock
        self._strict = strict_namespaces
        self._on_close = on_close
        self._intake = Intake(store, clock)
        self._curation = Curation(store)
        self.states_decider = decider
        self.pipeline = Pipeline(store, embedder, decider, writer, foreseer, payer, turn_space, labelers, record_late)
        splitter = writer if isinstance(writer, Decomposer) else None
        self.searcher = Searcher(store, embedder, planner or decider, self.pipeline.lexicon, budget, splitter)
        self._presenter = Presenter(store, embedder, self.searcher)
        self._payer = payer

    # Writing

    def add(
        self,
        messages: Messages,
        *,
        metadata: dict[str, Any] | None = None,
        time: TimeLike | None = None,
        idempotency_key: str | None = None,
        wait: bool = True,
        **owner: Unpack[Owner],
    ) -> results.AddResult:
        """Remember messages.

        The turns are on the disk, and found by their words, before anything else happens: that is the acknowledgement.
        Embedding and labelling follow: at once (`wait`), or at the next `process()`. If they fail, the result says so,
        the turns stay searchable, and `process()` resumes.

        Args:
            messages: a string (one user turn), a message, or a list of them.
            metadata: added to every turn's own.
            time: of the turns that bring none, and then of those after them.
            idempotency_key: the same one twice is acknowledged with the first operation. Without one, a write that
                repeats the one directly before it is taken for a retry.

        Raises:
            InputError: an unusable field, by name; nothing is stored.
        """
        place = address(**owner)
        turns = parse_messages(messages)
        default = parse_time(time, "time")
        turns = [results.completed(turn, metadata, default, place.session) for turn in turns]
        opened = self.store.namespaces.ordinal if self._strict else self.store.namespaces.create
        namespace = opened(place.namespace)
        receipt = self._intake.accept(namespace, place.trajectory or DEFAULT_TRAJECTORY, turns, idempotency_key)
        if wait and receipt.operation is not None and receipt.operation.status != "done":
            self.pipeline.run(namespace)
        return results.added(self.store, namespace, receipt)

    def process(
        self,
        namespace: str | None = None,
        on_progress: Callable[[Progress], None] | None = None,
        retry_failed: bool = False,
        close: bool = False,
    ) -> int:
        """Embed and label what is pending, of one namespace or of all; returns the number of turns done.

        `retry_failed` gives operations that used up their attempts new ones. `close` closes the episodes that are open
        afterwards (see `close_episodes`).
        """
        names = self.store.namespaces.names() if namespace is None else [namespace]
        done = 0
        for ordinal in [self.store.namespaces.ordinal(name) for name in names]:
            if retry_failed:
                with self.store.database.write() as connection:
                    self.store.operations.reset_attempts(connection, ordinal)
                    self.store.episodes.reset_attempts(connection, ordinal)
            done += self.pipeline.run(ordinal, on_progress)
            if close:
                self.pipeline.close_episodes(ordinal)
        return done

    def label(self, **owner: Unpack[Owner]) -> int:
        """Let the user's own labelers label the turns that were stored before them; returns how many turns they did."""
        ordinal, _ = self._known(owner)
        with self.store.working(ordinal):
            return self.pipeline.labelers.catch_up(ordinal)

    def operation(self, operation_id: str, **owner: Unpack[Owner]) -> results.OperationResult:
        """State of an acknowledged write."""
        return results.operation(self.store.operations.get(self._known(owner)[0], operation_id))

    # Reading

    def search(
        self,
        query: str,
        *,
        limit: int = 10,
        group_by: str | None = None,
        explain: bool = False,
        **options: Unpack[SearchOptions],
    ) -> results.SearchResult:
        """Find the turns that answer a question, best first.

        Args:
            query: a question or any text.
            limit: number of results, 1 to 10,000.
            group_by: "session", "episode" or "scope" returns ranked groups with their best turns instead of turns.
            explain: adds the plan, and for each hit the facets matched and every signal's value and share.
            options: owner, recipe ("fused", "stitch", "dense", "lexical") and filters.

        Raises:
            InputError: naming the unusable argument.
            UnknownNamespaceError: nothing was ever stored there.
            EmbedderMismatchError: stored vectors come from another embedder.
        """
        request = self._request(query, options, limit=limit, group_by=group_by, explain=explain)
        with self._paid(request):
            return self._presenter.search(request)

    def context(
        self, query: str, *, budget: int | None = None, explain: bool = False, **options: Unpack[SearchOptions]
    ) -> results.ContextResult:
        """Original turns that answer a question, as quoted text for a model: by episode in time order, with speakers.

        Args:
            query: a question or any text.
            budget: tokens at most, by the embedder's tokenizer; None takes what the question needs, up to 1,400 for a
                single fact and 4,096 for others.
        """
        request = self._request(query, options, budget=budget, explain=explain)
        with self._paid(request):
            return self._presenter.context(request)

    def get(self, turn_id: str, **owner: Unpack[Owner]) -> results.TurnResult:
        """One turn with its intent and snippet."""
        ordinal, _ = self._known(owner)
        return results.turns(self.store, ordinal, [self.store.turns.get(ordinal, turn_id)])[0]

    def list(self, *, limit: int = 100, offset: int = 0, **options: Unpack[SearchOptions]) -> results.ListResult:
        """Stored turns in order of arrival, filtered as `search` filters."""
        for name, value in (("limit", limit), ("offset", offset)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise InputError(name, f"{value!r} is not a number of turns", "pass 0 or more")
        ordinal, filters, before = self._filtered(options)
        turns = selected_turns(self.store, ordinal, filters, before)
        page = turns[offset : offset + limit]
        return {"results": results.turns(self.store, ordinal, page), "total": len(turns)}

    def history(self, turn_id: str, **owner: Unpack[Owner]) -> results.ListResult:
        """The turns of the same scope, in time order: how the matter of one turn developed."""
        ordinal, _ = self._known(owner)
        turns = inspection.scope_history(self.store, ordinal, self.store.turns.get(ordinal, turn_id))
        return {"results": results.turns(self.store, ordinal, turns), "total": len(turns)}

    def scopes(self, **owner: Unpack[Owner]) -> dict[str, Any]:
        """Scopes with their gists, sizes, spans of time and episodes."""
        return inspection.scopes(self.store, self._known(owner)[0])

    def timeline(self, *, scope: str | None = None, **owner: Unpack[Owner]) -> dict[str, Any]:
        """Episodes in time order, of all scopes or of one."""
        return inspection.timeline(self.store, self._known(owner)[0], scope)

    def vocabulary(self, kind: str = "event", **owner: Unpack[Owner]) -> dict[str, Any]:
        """Labels of a vocabulary in use, with how many turns carry each; of kind "property", how many records."""
        return inspection.vocabulary(self.store, self._known(owner)[0], kind)

    def namespaces(self) -> Names:
        """Names of all namespaces."""
        return self.store.namespaces.names()

    def status(self, namespace: str | None = None) -> dict[str, Any]:
        """Counts, vectors against turns, operations pending and failed, usage, by namespace."""
        names = self.store.namespaces.names() if namespace is None else [namespace]
        return inspection.status(self.store, self.embedder, names)

    # Setting right

    def relabel(
        self,
        turn_ids: str | Sequence[str],
        *,
        scope: str | None = None,
        events: Sequence[str] | None = None,
        entity_types: Sequence[str] | None = None,
        **owner: Unpack[Owner],
    ) -> int:
        """Set labels of turns by hand; deciders never overwrite them. Returns the number of turns."""
        ordinal, _ = self._known(owner)
        return self._curation.relabel(ordinal, self._turns(ordinal, turn_ids), scope, events, entity_types)

    def rename(self, kind: str, old: str, new: str, **owner: Unpack[Owner]) -> str:
        """Rename a scope, event or entity type; returns its id."""
        return self._curation.rename(self._known(owner)[0], kind, old, new)

    def merge(self, kind: str, sources: str | Sequence[str], target: str, **owner: Unpack[Owner]) -> str:
        """Merge scopes, events or entity types into one; `unmerge` restores them. Returns the target's id."""
        names = [sources] if isinstance(sources, str) else sources
        return self._curation.merge(self._known(owner)[0], kind, names, target)

    def unmerge(self, kind: str, name: str, **owner: Unpack[Owner]) -> str:
        """Undo a merge."""
        return self._curation.unmerge(self._known(owner)[0], kind, name)

    def split(self, scope: str, turn_ids: str | Sequence[str], new_name: str, **owner: Unpack[Owner]) -> str:
        """Move turns out of a scope into a new one; returns the new scope's id."""
        ordinal, _ = self._known(owner)
        return self._curation.split(ordinal, scope, self._turns(ordinal, turn_ids), new_name)

    def delete(self, turn_ids: str | Sequence[str], **owner: Unpack[Owner]) -> int:
        """Delete turns with all that hangs on them. Their text is not stored again from a quotation by others.

        Raises:
            NotFoundError: an id that is not there; nothing is deleted.
        """
        ordinal, _ = self._known(owner)
        turns = self._turns(ordinal, turn_ids)
        with self.store.database.write() as connection:
            worded = self.store.remove_turns(connection, ordinal, turns, bury=True)
        self.pipeline.reword(ordinal, worded)
        return len(turns)

    def delete_all(self, **options: Unpack[SearchOptions]) -> int:
        """Delete every turn that matches; an owner is required. Returns the number of turns."""
        ordinal, filters, before = self._filtered(options)
        with self.store.database.write() as connection:
            turns = selected_turns(self.store, ordinal, filters, before)
            worded = self.store.remove_turns(connection, ordinal, turns, bury=True)
        self.pipeline.reword(ordinal, worded)
        return len(turns)

    def erase(self, **owner: Unpack[Owner]) -> dict[str, Any]:
        """Erase a namespace, or one session or trajectory of it, without trace: nothing of it stays on the disk.

        Returns a report that names every place and how much was removed from it, and what lies outside (exports).
        """
        ordinal, place = self._known(owner)
        report, worded = inspection.erase(self.store, ordinal, place)
        if worded and place.namespace in self.store.namespaces.names():
            self.pipeline.reword(ordinal, worded)
        return report

    def export(self, path: Path | str, **owner: Unpack[Owner]) -> dict[str, int]:
        """Write a namespace as JSONL, labels and history included; returns the number of lines by kind."""
        return exchange.export(self.store, self._known(owner)[0], Path(path))

    def import_(self, path: Path | str, **owner: Unpack[Owner]) -> dict[str, int]:
        """Read an export into a namespace, deciding nothing again; what it has no vectors of is embedded."""
        place = address(**owner)
        counts = exchange.import_(self.store, self.store.namespaces.create(place.namespace), Path(path))
        self.pipeline.run(self.store.namespaces.ordinal(place.namespace))
        return counts

    def reembed(self, on_progress: Callable[[Progress], None] | None = None, keep: bool = False) -> int:
        """Encode every namespace with the configured embedder; resumable; old vectors serve until each is complete.

        Returns the number of vectors made. `keep` makes none where the embedder is the former one behind another
        program: up to 100 turns of a namespace are encoded, and the stored vectors stay if each has a cosine of at
        least .999 to the new one.

        Raises:
            InputError: with `keep`, the embedder makes other vectors; that namespace is as it was.
        """
        ordinals = [self.store.namespaces.ordinal(name) for name in self.store.namespaces.names()]
        if keep:
            for ordinal in ordinals:
                with self.store.working(ordinal):
                    adopt(self.store, self.embedder, ordinal)
        made = sum(self.pipeline.reembed(ordinal, on_progress) for ordinal in ordinals)
        for ordinal in ordinals:
            self.pipeline.run(ordinal, on_progress)
        return made

    def close(self) -> None:
        """Save the indexes and close the files."""
        try:
            self.store.close()
        finally:
            if self._on_close is not None:
                self._on_close()

    def __enter__(self) -> Memory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _paid(self, request: SearchRequest) -> AbstractContextManager[None]:
        return nullcontext() if self._payer is None else self._payer.paying(request.namespace)

    def _known(self, owner: Owner) -> tuple[int, Address]:
        place = address(**owner)
        return self.store.namespaces.ordinal(place.namespace), place

    def _filtered(self, options: SearchOptions) -> tuple[int, Filters, int | None]:
        """Ordinal, filters, and the row that is the end where `before` names one, of a call that ranks nothing."""
        for name in ("recipe", "query_time"):
            if name in options:
                raise InputError(name, "has no meaning without a query")
        place, filters = parse_filters(options)
        ordinal = self.store.namespaces.ordinal(place.namespace)
        before = options.get("before")
        return ordinal, filters, self.store.turns.get(ordinal, before).row if before else None

    def _turns(self, namespace: int, ids: str | Iterable[str]) -> Turns:
        wanted = (ids,) if isinstance(ids, str) else tuple(ids)
        if not wanted:
            raise InputError("turn_ids", "is empty")
        return [self.store.turns.get(namespace, turn_id) for turn_id in dict.fromkeys(wanted)]

    def _request(self, query: str, options: SearchOptions, **rest: Any) -> SearchRequest:
        place, filters = parse_filters(options)
        ordinal = self.store.namespaces.ordinal(place.namespace)
        before = options.get("before")
        return SearchRequest(
            query=query,
            namespace=ordinal,
            namespace_name=place.namespace,
            filters=filters,
            recipe=parse_recipe(options.get("recipe")),
            query_time=parse_time(options.get("query_time"), "query_time"),
            before_row=self.store.turns.get(ordinal, before).row if before else None,
            history=options.get("history"),
            parts=self.searcher.parts,
            **rest,
        )


__all__ = ["Memory", "Owner", "Receipt", "SearchOptions"]
