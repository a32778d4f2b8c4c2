"""What a result says that no longer holds: turns whose every claim is superseded by another turn of the same result."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from ..store import Store
from ..types import State, Turn
from .plan import Plan


def wants_history(plan: Plan) -> bool:
    """Whether a question asks how things were or changed, and not only for what holds."""
    reasoning, span = plan.groups["reasoning"], plan.groups["span"]
    return max(reasoning, key=lambda name: reasoning[name]) != "point" or span["all_matching"] > span["one"]


def superseded(store: Store, namespace: int, turns: Sequence[Turn]) -> set[str]:
    """Ids of turns that only say what others among them have replaced.

    A turn stays where one of its claims holds still, or where what holds now is said by no turn here: nothing is hidden
    without its successor in sight.
    """
    here = {turn.id for turn in turns}
    versions = store.states.of_turns(namespace, sorted(here))
    if not any(version.status == "superseded" for version in versions):
        return set()
    after = {version.supersedes: version for version in versions if version.supersedes}
    replaced: defaultdict[str, list[bool]] = defaultdict(list)
    for version in versions:
        last = _latest(version, after)
        by = next((turn for turn in last.evidence if turn in here), None) if last is not version else None
        for turn in version.evidence:
            replaced[turn].append(by not in (None, turn))
    return {turn for turn, found in replaced.items() if turn in here and all(found)}


def _latest(version: State, after: dict[str, State]) -> State:
    seen = {version.id}
    while version.status == "superseded" and (later := after.get(version.id)) is not None and later.id not in seen:
        version = later
        seen.add(version.id)
    return version
