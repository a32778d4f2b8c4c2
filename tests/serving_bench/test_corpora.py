from pathlib import Path

import numpy as np
import pytest

from intentmem.memory.errors import InputError
from intentmem.memory.memory import Memory
from intentmem.serving.bench import corpora


@pytest.mark.parametrize(("name", "fixture"), [("locomo", "two_people"), ("realmem", "persona")])
def test_auto_tells_a_format_from_the_file(name: str, fixture: str, request: pytest.FixtureRequest) -> None:
    assert corpora.load("auto", request.getfixturevalue(fixture)).name == name


def test_a_path_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"data: .*absent does not exist"):
        corpora.load("auto", tmp_path / "absent")


def test_a_file_that_is_no_corpus_is_refused_with_the_reasons(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"a": 1}', encoding="utf-8")
    with pytest.raises(InputError, match=r"no corpus that can be read.*locomo:.*realmem:"):
        corpora.load("auto", tmp_path / "x.json")


def test_turns_of_all_trajectories_become_one_with_ids_of_their_own(two_people: Path) -> None:
    corpus = corpora.load("locomo", two_people)
    turns = corpora.one_trajectory(corpus)
    assert len({turn.source_id for turn in turns}) == len(turns) == 12
    assert {turn.session for turn in turns} == {"c1/session_1", "c1/session_2"}
    assert corpora.one_trajectory(corpus, 5) == turns[:5]
    with pytest.raises(InputError, match="turns: is 13"):
        corpora.one_trajectory(corpus, 13)


def test_an_ingested_trajectory_is_found_again_by_its_own_ids(memory: Memory, two_people: Path) -> None:
    trajectory = corpora.load("locomo", two_people).trajectories[0]
    blocks: list[int] = []
    result = corpora.ingest(memory, trajectory.id, trajectory.turns, blocks.append)
    assert (result.turns, result.failed, blocks) == (12, 0, [12])
    stored = corpora.stored(memory, trajectory)
    assert list(stored.ids) == [turn.source_id for turn in trajectory.turns]
    assert stored.before(None) is None
    assert stored.before(6) == stored.ids["D2:1"]
    assert stored.before(12) is None


def test_vectors_are_those_of_the_turns_in_their_order(memory: Memory, two_people: Path) -> None:
    trajectory = corpora.load("locomo", two_people).trajectories[0]
    corpora.ingest(memory, trajectory.id, trajectory.turns[:5])
    expected = memory.embedder.encode([corpora.passage_of(turn) for turn in trajectory.turns], "passage")
    np.testing.assert_allclose(corpora.turn_vectors(memory, trajectory), expected, atol=1e-3)
