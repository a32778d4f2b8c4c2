"""Corpora as traces of `scope`, and figures of deciders on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from intentmem.distill.evaluation.scope import evaluate, macro_f1, shift_f1
from intentmem.distill.evaluation.scope_runs import gold_scopes, runs_of, walk
from intentmem.distill.gold.scope import scope_traces, written_scope_traces
from intentmem.distill.sources import load_examples, parse_source
from intentmem.distill.splits import split_traces
from intentmem.distill.traces import Trace, belongs
from intentmem.memory.deciders import BaselineDecider
from intentmem.memory.errors import InputError
from intentmem.memory.hashing import HashEmbedder
from intentmem.memory.tasks import SCOPE, Decision, Item, Task
from intentmem.memory.types import NewTurn, Role
from intentmem.train_data import Corpus, Trajectory
from intentmem.train_data.schemas import Card, TurnGold

HANDWRITTEN = Path(__file__).parents[1] / "handwritten" / "shopping"
TOPICS = ("garden roses tulips", "engine motorcycle repair", "mortgage bank interest", "violin concert music")


def dialogue(name: str, topic: str, turns: int = 12, split: str = "train") -> Trajectory:
    spoken = tuple(
        NewTurn("user" if row % 2 == 0 else "assistant", f"{topic} {name} {row}", source_id=f"{name}:{row}")
        for row in range(turns)
    )
    return Trajectory(name, spoken, split, {str(turn.source_id): TurnGold(scope="s", domain=topic) for turn in spoken})


def corpus(name: str, trajectories: Sequence[Trajectory], use: str = "train") -> Corpus:
    card = Card(name, name, "none", use, "")  # type: ignore[arg-type]
    return Corpus(card, tuple(trajectories))


def sgd(count: int = 96) -> Corpus:
    return corpus("sgd", [dialogue(f"d{row}", TOPICS[row % 4]) for row in range(count)])


def chat(shifts: Sequence[bool | None]) -> Corpus:
    turns = tuple(NewTurn("user", f"turn {row}", source_id=f"c:{row}") for row in range(len(shifts)))
    golds = {f"c:{row}": TurnGold(shift=shift) for row, shift in enumerate(shifts)}
    return corpus("tiage", [Trajectory("c", turns, "dev", golds)])


class Always:
    """Gives every turn one answer: the first scope, or none."""

    name, reads_window = "always", False

    def __init__(self, first: bool) -> None:
        self.first = first

    def decide(self, task: Task, items: Sequence[Item]) -> list[Decision]:
        return [Decision(item.candidates.ids[:1] if self.first else (), {}, 1.0, self.name) for item in items]


class Oracle:
    """Answers from the turn's text, which names its dialogue."""

    name, reads_window = "oracle", False

    def decide(self, task: Task, items: Sequence[Item]) -> list[Decision]:
        return [Decision(self._scope(item), {}, 1.0, self.name) for item in items]

    def _scope(self, item: Item) -> tuple[str, ...]:
        name = str(item.fields["turn"]).split()[-2]
        return tuple(id for id, text in zip(item.candidates.ids, item.candidates.texts, strict=True) if id == name)


def by_name() -> list[Trace]:
    """Traces whose scopes are called as the dialogues whose turns they hold."""
    traces = scope_traces(sgd(16), evaluation=True)
    names = {(t.conversation, t.meta["goal"]): str(t.fields["turn"]).split()[-2] for t in traces}

    def renamed(trace: Trace) -> Trace:
        ids = tuple(names[trace.conversation, id] for id in trace.options.ids)
        labels = tuple(names[trace.conversation, id] for id in trace.labels)
        return replace(trace, labels=labels, options=replace(trace.options, ids=ids))

    return [renamed(trace) for trace in traces]


def test_woven_dialogues_become_traces_that_can_teach_and_use_each_dialogue_once() -> None:
    traces = scope_traces(sgd())
    assert traces == scope_traces(sgd())
    assert all(belongs(SCOPE, trace) == "" for trace in traces)
    assert {trace.teacher for trace in traces} == {"gold:sgd"}
    texts = [trace.fields["turn"] for trace in traces]
    assert len(set(texts)) == len(texts)
    assert {"role", "goal", "split"} <= set(traces[0].meta)


def test_candidates_are_the_goals_so_far_and_none_is_chosen_where_a_goal_begins() -> None:
    by_conversation: dict[str, set[str]] = {}
    for trace in scope_traces(sgd()):
        known = by_conversation.setdefault(trace.conversation, set())
        assert set(trace.options.ids) == known
        assert trace.labels == ((trace.meta["goal"],) if trace.meta["goal"] in known else ())
        known.add(trace.meta["goal"])


def test_splits_are_by_trajectory_and_what_a_corpus_holds_out_is_marked() -> None:
    parts, splits = split_traces(scope_traces(sgd(400)), 0)
    assert all(parts.values())
    assert not set(splits["train"]) & set(splits["calibration"])
    held = corpus("realmem", [dialogue("p", TOPICS[0], split="test")])
    assert {trace.meta["split"] for trace in scope_traces(held)} == {"test"}


def test_each_shift_of_a_chat_opens_a_scope() -> None:
    traces = scope_traces(chat([None, False, True, False, True]))
    assert [trace.meta["goal"] for trace in traces] == ["topic 0", "topic 0", "topic 1", "topic 1", "topic 2"]
    assert [len(trace.labels) for trace in traces] == [0, 1, 0, 1, 0]


def test_a_corpus_without_gold_about_scopes_or_for_evaluation_only_is_refused() -> None:
    silent = corpus("x", [Trajectory("t", (NewTurn("user", "hi", source_id="a"),), "train", {"a": TurnGold()})])
    with pytest.raises(InputError, match="no gold about scopes"):
        scope_traces(silent)
    with pytest.raises(InputError, match="evaluation only"):
        scope_traces(corpus("locomo", [dialogue("d", TOPICS[0])], use="evaluation only"))


def test_scopes_that_a_teacher_opened_are_named_by_the_candidates_that_follow() -> None:
    traces = scope_traces(chat([None, False, True, False]))
    assert list(gold_scopes(traces)) == [trace.meta["goal"] for trace in traces]
    assert list(gold_scopes(traces[:3]))[2] == "c#2"


def test_runs_keep_role_session_and_time_and_encode_bare_texts() -> None:
    when = datetime(2025, 3, 1, 12, tzinfo=UTC)
    turns = (
        NewTurn("user", "hello there", session="s1", time=when, source_id="a"),
        NewTurn("assistant", "yes?", session="s1", time=when, source_id="b"),
    )
    golds = {"a": TurnGold(scope="x"), "b": TurnGold(scope="x")}
    seen: list[str] = []

    def encode(texts: Sequence[str]) -> np.ndarray:  # type: ignore[type-arg]
        seen.extend(texts)
        return np.zeros((len(texts), 2), np.float32)

    (run,) = runs_of(scope_traces(corpus("realmem", [Trajectory("t", turns, "dev", golds)])), encode)
    assert seen == ["hello there", "yes?"]
    roles: list[Role] = [step.role for step in run.steps]
    assert roles == ["user", "assistant"] and run.steps[0].session == "s1" and run.steps[0].time == when


def test_a_perfect_decider_scores_one_everywhere_and_an_absorbing_one_nothing_online() -> None:
    pytest.importorskip("sklearn")
    traces = by_name()

    forced = {m.metric: m.value for m in evaluate(Oracle(), traces, HashEmbedder(32))}
    assert forced["macro_f1"] == forced["exact"] == forced["shift_f1"] == 1
    absorbing = {m.metric: m.value for m in evaluate(Always(first=True), traces, HashEmbedder(32))}
    assert absorbing["online_ari"] == 0 and absorbing["scopes_ratio"] < 0.2
    splitting = {m.metric: m.value for m in evaluate(Always(first=False), traces, HashEmbedder(32))}
    assert splitting["scopes_ratio"] > 5


def test_every_figure_has_n_and_an_interval_around_it() -> None:
    pytest.importorskip("sklearn")
    found = evaluate(BaselineDecider(), scope_traces(sgd(64), evaluation=True), HashEmbedder(64))
    assert {m.metric for m in found} == {
        *("macro_f1", "exact", "shift_f1", "online_ari", "scopes_ratio", "online_exact", "ece")
    }
    for measured in found:
        assert measured.n > 0 and measured.data == "gold:sgd"
        assert measured.metric == "ece" or measured.low <= measured.value <= measured.high


def test_gold_history_is_what_a_forced_walk_sees_and_its_own_decisions_what_an_online_one_does() -> None:
    runs = runs_of(by_name(), lambda texts: np.ones((len(texts), 4), np.float32) / 2)
    (forced, *_), (online, *_) = (walk(Always(first=True), runs, forced=kind) for kind in (True, False))
    assert len(set(online.placed)) == 1
    assert forced.decisions.keys() == online.decisions.keys() == set(runs[0].decided)


def test_f1_counts_are_those_of_the_definition() -> None:
    confusion = np.array([[8.0, 1, 1], [2, 6, 2], [0, 0, 0]])
    assert macro_f1(confusion) == pytest.approx((16 / 20 + 12 / 17 + 0) / 3)
    assert shift_f1(confusion) == pytest.approx(2 * 8 / (10 + 10))


def sittings(goals: str, turns: int) -> Trajectory:
    """A session of so many turns for each letter, which is its goal."""
    said = [(number, goal, row) for number, goal in enumerate(goals) for row in range(turns)]
    spoken = tuple(NewTurn("user", f"{goal} {row}", session=f"s{n}", source_id=f"{n}:{row}") for n, goal, row in said)
    golds = {f"{number}:{row}": TurnGold(scope=goal) for number, goal, row in said}
    return Trajectory("persona", spoken, "train", golds)


def test_sessions_of_goals_that_are_taken_up_again_are_also_given_as_one_sitting() -> None:
    traces = scope_traces(corpus("realmem", [sittings("abacaba", 9)]))
    by_name = {name: [t for t in traces if t.conversation == name] for name in {t.conversation for t in traces}}
    assert set(by_name) == {"persona", "persona-one-sitting"} and len(by_name["persona"]) == 7 * 9
    sitting = by_name["persona-one-sitting"]
    assert all("session" not in trace.meta for trace in sitting)
    # Only `a` is there three times; of each of its four sessions the first six turns are kept.
    assert [str(t.fields["turn"]) for t in sitting] == [f"user: a {row}" for _ in range(4) for row in range(6)]


def test_to_measure_on_sessions_are_left_as_they_are() -> None:
    traces = scope_traces(corpus("realmem", [sittings("abacaba", 9)]), evaluation=True)
    assert {trace.conversation for trace in traces} == {"persona"}


def test_conversations_written_by_hand_are_decisions_with_the_split_that_they_name() -> None:
    traces = written_scope_traces()
    assert {trace.teacher for trace in traces} == {"gold:written"} and not any(belongs(SCOPE, t) for t in traces)
    parts, _ = split_traces(traces, seed=0)
    assert all(parts.values()) and sum(map(len, parts.values())) == len(traces)


def test_conversations_in_the_format_of_came_bench_can_be_measured_on_and_not_learnt_from() -> None:
    source = [parse_source(f"came_bench:{HANDWRITTEN}")]
    found = load_examples([SCOPE], source, evaluation=True)
    assert {trace.teacher for trace in found.traces} == {"gold:came_bench"} and len(found.traces) > 400
    with pytest.raises(InputError, match="evaluation only"):
        load_examples([SCOPE], source)
