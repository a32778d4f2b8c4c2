"""What rules read from real dialogues, whose values are annotated with their places."""

import random
from datetime import UTC, datetime
from pathlib import Path

import pytest

from intentmem.memory.types import Mention, Turn
from intentmem.memory.write.claim_keys import property_key
from intentmem.memory.write.extractive import ExtractiveWriter
from intentmem.train_data import gold_records
from intentmem.train_data.schemas import Trajectory
from intentmem.train_data.sgd import iter_trajectories

Places = dict[tuple[str, int, int], str]
LEAST_TURNS = 2000


def found_in(dialogue: Trajectory, verbatim: list[bool]) -> Places:
    """Values that rules find in a dialogue, taken as one episode, with their properties."""
    writer, known, snippets = ExtractiveWriter(), list[Mention](), {}
    moment = datetime(2019, 3, 1, tzinfo=UTC)
    turns = [
        Turn(str(turn.source_id), row, "n", dialogue.id, row, turn.role, turn.text, None, moment, "given", None)
        for row, turn in enumerate(dialogue.turns)
    ]
    for turn in turns:
        snippet = writer.ground(turn, known)
        known += snippet.mentions
        snippets[turn.id] = snippet
    texts = {turn.id: turn.text for turn in turns}
    places: Places = {}
    for record in writer.records(turns, snippets):
        place = record.evidence[0]
        assert place.start is not None and place.end is not None
        verbatim.append(texts[place.turn][place.start : place.end] == record.value)
        places[place.turn, place.start, place.end] = property_key(record.property)
    return places


def one_name(first: str, second: str) -> bool:
    """Whether two properties are called alike: the same word ends both, or one holds the other."""
    return first.split()[-1:] == second.split()[-1:] or first in second or second in first


@pytest.mark.slow
def test_rules_find_most_annotated_values_of_dialogues_and_quote_them_exactly(shared: Path) -> None:
    dialogues = list(iter_trajectories(shared / "data" / "sgd" / "dev"))
    random.Random(7).shuffle(dialogues)
    turns = wanted = reported = hits = named = 0
    verbatim: list[bool] = []
    for dialogue in dialogues:
        if turns >= LEAST_TURNS:
            break
        gold = {(r.turn, r.start, r.end): property_key(r.property) for r in gold_records(dialogue)}
        found = found_in(dialogue, verbatim)
        both = gold.keys() & found.keys()
        turns, wanted, reported = turns + len(dialogue.turns), wanted + len(gold), reported + len(found)
        hits, named = hits + len(both), named + sum(one_name(gold[place], found[place]) for place in both)
    assert all(verbatim)
    assert hits / reported >= 0.75
    assert 2 * hits / (wanted + reported) >= 0.7
    assert 2 * named / (wanted + reported) >= 0.6
