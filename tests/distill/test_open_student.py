"""Students of open labels at run time: what they read, what they choose, and what it costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from intentmem.distill.backbone import Backbone
from intentmem.distill.encoding import AdaptedEncoder, Encoded
from intentmem.distill.students import base
from intentmem.distill.students.base import Encodings
from intentmem.distill.students.open import ONE, SEVERAL, UNCALIBRATED, OpenOptions, OpenStudent
from intentmem.distill.students.open_reading import ASSISTANT, UNKNOWN, USER, read
from intentmem.distill.students.open_scoring import Scoring, best_tokens, unit
from intentmem.distill.training.adapting import AdaptingEncoder, LoraShape
from intentmem.memory.errors import InputError
from intentmem.memory.tasks import ENTITY_TYPES, EVENT, Candidates, Decision, Field, Item, Space, Task
from intentmem.memory.types import Turn, Vector

WORDS = ("ask", "price", "thank", "date", "greet", "hotel", "weather", "song")
TICKET = Task(
    "ticket",
    "What is the ticket about?",
    (Field("text", "The ticket."), Field("product", "Its product.", required=False)),
    Space.OPEN,
    metric="micro_f1",
)


class ByWords:
    """Encodes a text as the count of known words in it; remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def _encode(self, texts: Sequence[str]) -> list[Encoded]:
        self.asked += texts
        found = []
        for text in texts:
            spoken = text.lower().replace(":", " ").replace("?", " ").split()
            tokens = np.array([[float(word == known) for known in WORDS] for word in spoken], np.float32)
            found.append(Encoded(tokens.sum(axis=0) + 1e-3, tokens))
        return found

    def turns(self, texts: Sequence[str], adapter: str, tokens: bool = False) -> list[Encoded]:
        assert adapter == "labels"
        return self._encode(texts)

    texts = turns


def head(scale: float = 20.0, tokens: float = 0.0, bias: float = 0.0, context: float = 0.0, reach: int = 2) -> Scoring:
    size = len(WORDS)
    return Scoring(
        np.zeros((2, size), np.float32),
        np.zeros((2, size), np.float32),
        np.zeros(reach, np.float32),
        np.zeros(1, np.float32),
        np.eye(size, dtype=np.float32) * context,
        np.zeros((2, size), np.float32),
        np.array([scale, tokens, bias], np.float32),
    )


def student(task: Task = EVENT, scoring: Scoring | None = None, **options: Any) -> OpenStudent:
    kind = ONE if task.metric == "top1" else SEVERAL
    return OpenStudent(
        task, "labels", scoring or head(), OpenOptions(**{"kind": kind, "chance": UNCALIBRATED[kind], **options})
    )


def decide(one: OpenStudent, items: Sequence[Item]) -> list[Decision]:
    encodings: Any = ByWords()
    return one.decide(items, encodings)


def offered(*texts: str, parents: Sequence[int] = ()) -> Candidates:
    signals = {"parent": np.array(parents, np.float64)} if parents else {}
    return Candidates(tuple(f"l{place}" for place in range(len(texts))), texts, None, signals)


def test_the_label_that_says_the_same_is_chosen_and_its_share_is_what_it_has_over_the_others() -> None:
    found = decide(student(threshold=0.6), [Item({"turn": "user: the price ?"}, offered("thank", "ask price", "date"))])
    assert found[0].labels == ("l1",)
    assert found[0].probabilities["l1"] == max(found[0].probabilities.values()) == found[0].confidence


def test_a_turn_without_candidates_gets_no_label() -> None:
    found = decide(student(), [Item({"turn": "user: price"}), Item({"turn": "user: price"}, offered("price"))])
    assert [decision.labels for decision in found] == [(), ("l0",)]


def test_what_fits_nothing_is_not_forced_into_a_label() -> None:
    strict = student(chance=(0.0, 1.0, 0.0, 0.0, -15.0), floor=0.5)
    fits, none = decide(
        strict, [Item({"turn": f"user: {word}"}, offered("price", "song")) for word in ("song", "date")]
    )
    assert fits.labels == ("l1",)
    assert none.labels == ()
    assert none.confidence > 0.5


def test_of_two_levels_a_fine_label_is_chosen_and_the_coarse_one_only_where_no_fine_one_fits() -> None:
    vocabulary = offered("ask", "ask price", "ask date", "thank", "thank greet", parents=(-1, 0, 0, -1, 3))
    plain = decide(student(threshold=0.9), [Item({"turn": "user: ask price"}, vocabulary)])[0]
    assert plain.labels == ("l1",)
    doubtful = student(chance=(3.0, 0.0, 0.0, 0.0, 2.0), floor=0.5, threshold=0.9)
    between = decide(doubtful, [Item({"turn": "user: ask"}, vocabulary)])[0]
    assert between.labels == ("l0",)


def test_several_labels_are_judged_each_by_itself() -> None:
    several = student(ENTITY_TYPES, head(10.0, 10.0, -14.0))
    item = Item({"turn": "assistant: price and date of the hotel"}, offered("price", "date", "song", "weather"))
    found = decide(several, [item])[0]
    assert found.labels == ("l0", "l1")
    assert set(found.probabilities) == {"l0", "l1", "l2", "l3"}


def test_a_bare_turn_is_understood_from_what_was_said_before_it() -> None:
    vocabulary = offered("ask price hotel", "ask price song")
    said = {"before": ("user: play a song", "assistant: which song ?")}
    alone, after = decide(
        student(scoring=head(context=1.0)),
        [Item({"turn": "user: ask price"}, vocabulary), Item({"turn": "user: ask price", **said}, vocabulary)],
    )
    assert after.labels[0] == "l1"
    assert after.probabilities["l1"] > alone.probabilities["l1"]


def test_labels_are_encoded_once_however_many_items_share_them() -> None:
    encodings: Any = ByWords()
    one, vocabulary = student(), offered("price", "thank", "date")
    items = [Item({"turn": f"user: {word}"}, vocabulary) for word in WORDS]
    one.decide(items, encodings)
    one.decide(items, encodings)
    assert [text for text in encodings.asked if text in vocabulary.texts and "user" not in text].count("thank") <= 3


def test_items_are_decided_alike_alone_and_together() -> None:
    one = student(ENTITY_TYPES, head(10.0, 10.0, -12.0, context=0.5))
    vocabularies = offered("price", "date"), offered("song", "hotel", "weather")
    items = [
        Item({"turn": f"user: {word} of it", "before": ("assistant: hotel",)}, vocabularies[place % 2])
        for place, word in enumerate(WORDS)
    ]
    together = decide(one, items)
    for item, decision in zip(items, together, strict=True):
        alone = decide(one, [item])[0]
        assert alone.labels == decision.labels
        assert alone.confidence == pytest.approx(decision.confidence, abs=1e-5)


def test_head_and_options_make_the_same_student_again() -> None:
    one = student(ENTITY_TYPES, head(9.0, 4.0, -3.0), threshold=0.4, taught=("price", "date"))
    import json

    again = OpenStudent.from_head(ENTITY_TYPES, "labels", one.head(), json.loads(json.dumps(dict(one.options()))))
    item = Item({"turn": "user: price"}, offered("price", "date"))
    assert decide(again, [item]) == decide(one, [item])
    assert again.settings == one.settings
    assert again.settings.tokens


def test_a_kind_that_does_not_exist_is_refused() -> None:
    with pytest.raises(InputError, match="kind"):
        OpenOptions.of({"kind": "all"})


def test_the_turn_is_read_without_its_speaker_and_its_side_is_kept() -> None:
    item = Item({"turn": "assistant: Which day?", "before": ("user: Hi: there", "assistant: Hello")})
    assert read(EVENT, item) == ("Which day?", ("Hello", "Hi: there"), ASSISTANT)
    turn = Turn("t", 1, "n", "j", 0, "user", "Note: later", "Ann", datetime(2026, 1, 1, tzinfo=UTC), "given", None)
    assert read(EVENT, Item({"turn": "Ann: Note: later"}, turn=turn)) == ("Note: later", (), USER)


def test_a_task_of_ones_own_is_read_as_it_is_or_with_all_its_fields() -> None:
    assert read(TICKET, Item({"text": "Error: it broke"})) == ("Error: it broke", (), UNKNOWN)
    assert "product: lamp" in read(TICKET, Item({"text": "it broke", "product": "lamp"})).text
    with pytest.raises(InputError, match="is required"):
        read(TICKET, Item({"product": "lamp"}))


def test_the_best_token_of_each_turn_counts() -> None:
    tokens: list[Vector] = [np.eye(3, dtype=np.float32)[:2], np.eye(3, dtype=np.float32)[2:]]
    assert best_tokens(tokens, np.eye(3, dtype=np.float32)).tolist() == [[1, 1, 0], [0, 0, 1]]


def test_a_longer_context_than_the_head_reads_is_cut() -> None:
    short = replace(head(context=1.0), lag=np.zeros(1, np.float32))
    encodings: Any = ByWords()
    before = tuple(f"user: {word}" for word in WORDS)
    student(scoring=short).decide([Item({"turn": "user: price", "before": before}, offered("price"))], encodings)
    assert encodings.asked.count("weather") == 0
    assert encodings.asked.count("song") == 1


def test_unit_leaves_zeros() -> None:
    assert unit(np.zeros((1, 3), np.float32)).tolist() == [[0, 0, 0]]


def changed_encoder(tiny: Backbone) -> AdaptedEncoder:
    adapter = AdaptingEncoder(tiny, LoraShape(rank=2, alpha=2, layers=1), 0).adapter("labels")
    weights = {name: value + np.float16(0.1) for name, value in adapter.weights.items()}
    return AdaptedEncoder(tiny, (replace(adapter, weights=weights),))


def test_tokens_are_read_of_tasks_that_are_not_about_turns_too(tiny: Backbone) -> None:
    size = tiny.dimension
    wide = Scoring(
        *(np.zeros((2, size), np.float32) for _ in range(2)),
        *(np.zeros(1, np.float32) for _ in range(2)),
        np.zeros((size, size), np.float32),
        np.zeros((2, size), np.float32),
        np.array([1.0, 5.0, -4.0], np.float32),
    )
    one, item = student(TICKET, wide), Item({"text": "w3 w7"}, offered("w3", "w9"))
    about_turns = Encodings(changed_encoder(tiny), (("labels",),), ("labels",))
    found = [one.decide([item], used)[0] for used in (about_turns, Encodings(changed_encoder(tiny), ()))]
    assert found[0].probabilities == pytest.approx(found[1].probabilities, abs=1e-4)


def test_token_states_are_kept_of_the_latest_turns_alone_and_made_again_when_needed(
    tiny: Backbone, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "_KEPT_TOKENS", 4)
    encodings = Encodings(changed_encoder(tiny), (("labels",),), ("labels",))
    texts = [f"w{number} w{number + 1}" for number in range(10)]
    first = encodings.turns(texts, "labels", tokens=True)
    kept = encodings.turns(texts, "labels")
    assert [one.tokens is not None for one in kept] == [False] * 6 + [True] * 4
    again = encodings.turns(texts, "labels", tokens=True)
    for one, other in zip(first, again, strict=True):
        np.testing.assert_allclose(one.tokens, other.tokens, atol=1e-5)
