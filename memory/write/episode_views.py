"""A closed episode as linking sees it: when it was, what it names, which scope and kinds of operation it is of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ..deciders.relation_rule import naming, says_how
from ..store import Store
from ..types import Episode, Intent, Turn
from .claim_keys import entity_key, is_user

MOST_NAMES = 32
_EVENTS = 2
_QUOTED = 2
_TEXT = 600
"""Characters of an episode's text that are shown, and of a sentence quoted from it."""


@dataclass(frozen=True, slots=True)
class EpisodeView:
    """An episode with what it can be compared by.

    names: entities by key, as they are first named. scope: id that its turns' scopes now stand for, most often;
    belief: mean probability that they are of it. label: the scope's name. events: its most frequent event types.
    """

    episode: Episode
    turns: tuple[Turn, ...]
    names: dict[str, str]
    scope: str
    belief: float
    label: str
    events: tuple[str, ...]

    @property
    def time(self) -> float:
        """When it began, in seconds since 1970."""
        return self.turns[0].time.timestamp()

    @property
    def place(self) -> int:
        """Row of its first turn."""
        return self.turns[0].row

    @property
    def order(self) -> tuple[float, int]:
        """What says which of two episodes is the earlier one."""
        return self.time, self.place

    @property
    def entity_keys(self) -> list[str]:
        """What it is found by as one that names the same."""
        return [f"entity:{key}" for key in self.names]

    @property
    def event_keys(self) -> list[str]:
        """What it is found by as one of the same kind."""
        return [f"event:{event}" for event in self.events]

    @property
    def scope_keys(self) -> list[str]:
        """What it is found by as one of the same scope."""
        return [f"scope:{self.scope}"] if self.scope else []

    def said_of(self, names: Sequence[str]) -> list[tuple[str, str]]:
        """Turn ids and sentences that name some entities, those first that say how things hang together."""
        found = [(turn.id, s[:_TEXT]) for turn in self.turns for s in naming(turn.searchable_text, names)]
        return sorted(found, key=lambda pair: not says_how(pair[1]))[:_QUOTED]

    def text(self, said: Sequence[tuple[str, str]]) -> str:
        """Dates, scope and summary, with sentences that the summary leaves out."""
        days = dict.fromkeys(f"{turn.time:%Y-%m-%d}" for turn in (self.turns[0], self.turns[-1]))
        summary = self.episode.summary or " ".join(turn.searchable_text for turn in self.turns)
        quoted = [sentence for _, sentence in said if sentence not in summary[:_TEXT]]
        return " ".join(
            [f"{' to '.join(days)}, {self.label}:" if self.label else f"{' to '.join(days)}:", summary[:_TEXT], *quoted]
        )


def view(store: Store, namespace: int, episode: Episode) -> EpisodeView | None:
    """An episode as it is stored now; None where all its turns are gone."""
    turns = store.turns.span(namespace, episode.trajectory, episode.first_seq, episode.last_seq)
    if not turns:
        return None
    intents = [intent for _, _, intent in store.labels.intents(namespace, turns=[turn.row for turn in turns])]
    merged = store.labels.merged(namespace)
    scope, belief = _scope(intents, merged)
    counted = Counter(merged.get(event.id, event.id) for intent in intents for event in intent.events)
    return EpisodeView(
        episode,
        tuple(turns),
        _names(store, namespace, turns),
        scope,
        belief,
        store.labels.scope_names(namespace).get(scope, ("", ""))[1],
        tuple(sorted(counted, key=lambda event: (-counted[event], event))[:_EVENTS]),
    )


def _scope(intents: Sequence[Intent], merged: dict[str, str]) -> tuple[str, float]:
    """The scope of most turns, and how sure it is."""
    scopes = [merged.get(intent.scope.id, intent.scope.id) for intent in intents]
    if not scopes:
        return "", 0.0
    most = Counter(scopes).most_common(1)[0][0]
    sure = [i.scope.probability for i, scope in zip(intents, scopes, strict=True) if scope == most]
    return most, sum(sure) / len(sure)


def _names(store: Store, namespace: int, turns: Sequence[Turn]) -> dict[str, str]:
    """Entities of records and mentions by key, those named most first."""
    found: list[str] = []
    for record in store.records.get(
        namespace, store.records.find(namespace, turns=[turn.id for turn in turns])
    ).values():
        found += [record.entity, record.value] if record.relation else [record.entity]
    for snippet in store.labels.snippets(namespace, [turn.row for turn in turns]).values():
        found += [mention.name for mention in snippet.mentions]
    counted = Counter(found)
    names: dict[str, str] = {}
    for name in sorted(counted, key=lambda n: (-counted[n], n)):
        key = store.records.canonical(namespace, entity_key(name))
        if len(key) > 1 and not is_user(key) and len(names) < MOST_NAMES:
            names.setdefault(key, name)
    return names
