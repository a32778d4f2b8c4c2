"""What the facade says of links: how closed episodes hang together, and which state took the place of which."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

from .addressing import address
from .errors import InputError, NotFoundError
from .states_api import StateOwner
from .store import Store
from .types import LINK_TYPES, Link, State
from .write.pipeline import Pipeline

SUPERSEDES = "supersedes"
_TYPES = (*LINK_TYPES, SUPERSEDES)


class LinksApi:
    """The part of the facade that reads links. `store` and `pipeline` are the facade's."""

    store: Store
    pipeline: Pipeline

    def links(
        self,
        scope: str | None = None,
        episode: str | None = None,
        turn_ids: str | Sequence[str] | None = None,
        type: str | None = None,
        **owner: Unpack[StateOwner],
    ) -> dict[str, Any]:
        """Links between closed episodes, and between states of which one took the other's place.

        A link says that its source stands in `type` to its target; only "same_event" is symmetric. It goes with the
        turns of its episodes, and is judged again from what is left of them.

        Args:
            scope: name or id; with an episode of it at one end.
            episode: id; with it at one end.
            turn_ids: with the episode, or the state, of one of these turns at one end.
            type: "causes", "contributes_to", "context_for", "enables", "part_of", "follow_up_of", "same_event", or
                "supersedes", which holds between states alone.

        Returns:
            `results`, each with its confidence, the ids of its evidence turns, and how it is known (`trust`):
            "explicit" where the turns say it, "inferred" where a decider judged it, "derived" where it follows from
            scopes or states.

        Raises:
            NotFoundError: a scope, episode or turn that is not there.
        """
        ordinal = self.store.namespaces.ordinal(address(**owner).namespace)
        if type is not None and type not in _TYPES:
            raise InputError("type", f"{type!r} is unknown", f"one of {', '.join(_TYPES)}")
        turns = self._wanted_turns(ordinal, turn_ids)
        wanted = self._wanted_episodes(ordinal, scope, episode, None if turns is None else list(turns.values()))
        self.pipeline.link(ordinal)
        found: list[dict[str, Any]] = []
        if type != SUPERSEDES:
            found += self._between_episodes(ordinal, wanted, type)
        if type in (None, SUPERSEDES) and scope is None and episode is None:
            found += self._between_states(ordinal, None if turns is None else list(turns))
        return {"results": found}

    def _wanted_turns(self, ordinal: int, turn_ids: str | Sequence[str] | None) -> dict[str, int] | None:
        """Rows of turns by id; None for all."""
        if turn_ids is None:
            return None
        ids = [turn_ids] if isinstance(turn_ids, str) else list(turn_ids)
        return {turn.id: turn.row for turn in (self.store.turns.get(ordinal, one) for one in ids)}

    def _wanted_episodes(
        self, ordinal: int, scope: str | None, episode: str | None, rows: list[int] | None
    ) -> set[str] | None:
        """Ids of the episodes that the filters leave; None for all."""
        chosen: list[set[str]] = []
        if scope is not None:
            names = self.store.labels.scope_names(ordinal)
            ids = [one for one, ends in names.items() if scope in ends]
            if not ids:
                raise NotFoundError("scope", f"{scope!r} is neither an id nor a name in this namespace")
            mine = [row for one in ids for row in self.store.labels.turns_of_scope(ordinal, one)]
            chosen.append(set(self.store.links.episodes_of(ordinal, mine)))
        if episode is not None:
            if not self.store.links.episodes(ordinal, [episode]):
                raise NotFoundError("episode", f"{episode!r} is no episode of this namespace")
            chosen.append({episode})
        if rows is not None:
            chosen.append(set(self.store.links.episodes_of(ordinal, rows)))
        return set.intersection(*chosen) if chosen else None

    def _between_episodes(self, ordinal: int, wanted: set[str] | None, kind: str | None) -> list[dict[str, Any]]:
        links = self.store.links.find(ordinal, wanted, None if kind is None else [kind])
        ends = self.store.links.episodes(ordinal, {end for link in links for end in (link.source, link.target)})
        return [
            _result(link, *(ends[end].summary if end in ends else "" for end in (link.source, link.target)))
            for link in links
        ]

    def _between_states(self, ordinal: int, turns: list[str] | None) -> list[dict[str, Any]]:
        """What superseded what: it follows from the states, and is never stored."""
        states = {s.id: s for s in self.store.states.with_status(ordinal, "current", "superseded", "retracted")}
        links = []
        for state in states.values():
            former = states.get(state.supersedes)
            if former is None or (turns is not None and not set(turns) & {*state.evidence, *former.evidence}):
                continue
            link = Link(
                f"{state.id}-{former.id}",
                state.id,
                former.id,
                SUPERSEDES,
                state.confidence,
                "derived",
                tuple(dict.fromkeys((*state.evidence, *former.evidence))),
                state.decided_by,
            )
            links.append(_result(link, _worded(state), _worded(former), "state"))
        return links


def _worded(state: State) -> str:
    return f"{state.entity}: {state.property}: {state.value}"


def _result(link: Link, source: str, target: str, between: str = "episode") -> dict[str, Any]:
    """A link as the facade gives it, with what its ends are about."""
    return {
        "id": link.id,
        "between": between,
        "source": link.source,
        "source_summary": source,
        "type": link.type,
        "target": link.target,
        "target_summary": target,
        "direction": "symmetric" if link.symmetric else "directed",
        "confidence": link.confidence,
        "trust": link.trust,
        "evidence": list(link.evidence),
        "decided_by": link.decided_by,
    }
