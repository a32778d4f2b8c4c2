"""A store at size: memory, disk and search latency with many turns in one namespace.

Turns are made up and the embedder is a stand-in that needs no model (`HashEmbedder`): the figures are those of the
store, the pipeline and the ranking, not of an encoder, and say nothing about quality.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from intentmem.memory.clock import SystemClock
from intentmem.memory.deciders import BaselineDecider
from intentmem.memory.errors import InputError
from intentmem.memory.hashing import HashEmbedder
from intentmem.memory.memory import Memory
from intentmem.memory.read.request import parse_recipe
from intentmem.memory.store import Store
from intentmem.memory.types import NewTurn
from intentmem.memory.write.extractive import ExtractiveWriter

from . import corpora
from .process import PeakMemory, disk_mb
from .progress import Progress, silent
from .report import Report, Row, header
from .timing import MILLISECONDS, interleaved, latency_rows, seconds, spread

CORPUS = "made-up turns"
NAMESPACE = "scale"
SESSION_TURNS = 40
_TOPICS, _TOPIC_WORDS, _COMMON_WORDS = 500, 120, 300
_SYLLABLES = [c + v for c in "bdfgklmnprstvz" for v in "aeiou"]
_BEGIN = datetime(2024, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class ScalePlan:
    """What to measure: so many turns, so many different queries, embeddings of `dim` dimensions."""

    turns: int = 100_000
    queries: int = 100
    rounds: int = 3
    dim: int = 384
    recipes: Sequence[str] = ("fused",)
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("turns", "queries", "rounds", "dim"):
            if getattr(self, name) < 1:
                raise InputError(name, f"is {getattr(self, name)}", "at least 1")
        for recipe in self.recipes:
            parse_recipe(recipe)


def run(plan: ScalePlan, command: str = "", progress: Progress = silent) -> Report:
    """Fill a store, open it anew, and search.

    Raises:
        MissingExtraError: psutil or FAISS is not installed.
    """
    start = time.perf_counter()
    group, done = f"turns={plan.turns}", 0
    turns = list(made_up_turns(plan))

    def on_turns(count: int) -> None:
        nonlocal done
        done += count
        progress("write", done, plan.turns)

    with tempfile.TemporaryDirectory(prefix="intentmem-bench-") as name:
        folder = Path(name)
        with PeakMemory() as writing, _open(folder, plan.dim) as memory:
            written = corpora.ingest(memory, NAMESPACE, turns, on_turns)
        rows = [
            spread(CORPUS, "write path", group, "turns_per_s", [plan.turns / written.seconds], plan.turns),
            spread(CORPUS, "write path", group, "peak_rss_mb", [writing.peak_mb], plan.turns),
            spread(CORPUS, "write path", group, "added_rss_mb", [writing.added_mb], plan.turns),
            spread(CORPUS, "store", group, "disk_mb", [disk_mb(folder)], plan.turns),
        ]
        rows += _searches(plan, folder, [turn.text for turn in turns], group)
    configuration = {
        **asdict(plan),
        "embedder": f"stand-in: {HashEmbedder(plan.dim).fingerprint}",
        "block": corpora.BLOCK,
    }
    failures = {"ingest": written.failed} if written.failed else {}
    return Report(header("scale", configuration, command, time.perf_counter() - start, failures), rows)


def made_up_turns(plan: ScalePlan) -> Iterator[NewTurn]:
    """Sessions of turns about one topic each; words of a topic and common ones, the frequent ones first (Zipf)."""
    generator = np.random.default_rng(plan.seed)
    common = _words(generator, _COMMON_WORDS)
    topics = [_words(generator, _TOPIC_WORDS) for _ in range(_TOPICS)]
    for number in range(plan.turns):
        session, place = divmod(number, SESSION_TURNS)
        topic = topics[session * 7919 % _TOPICS]
        chosen = (*_drawn(generator, topic, 6), *_drawn(generator, common, 6))
        text = f"{' '.join(chosen).capitalize()} {number}."
        time_of_turn = _BEGIN + timedelta(hours=session, minutes=place)
        role = "user" if place % 2 == 0 else "assistant"
        yield NewTurn(role, text, time=time_of_turn, session=f"s{session}", source_id=f"t{number}")  # type: ignore[arg-type]


def _searches(plan: ScalePlan, folder: Path, texts: Sequence[str], group: str) -> list[Row]:
    places = np.linspace(0, len(texts) - 1, min(plan.queries, len(texts))).astype(int)
    queries = [f"what about {' '.join(texts[place].split()[:8])}?" for place in places]
    rows = []
    with PeakMemory() as reading, _open(folder, plan.dim) as memory:
        subjects = {
            f"search {recipe}": lambda text, recipe=recipe: memory.search(text, namespace=NAMESPACE, recipe=recipe)
            for recipe in plan.recipes
        }
        for name, search in subjects.items():
            cold = seconds(lambda search=search: search(queries[0])) * MILLISECONDS  # type: ignore[misc]
            rows.append(spread(CORPUS, name, group, "cold_ms", [cold], 1))
        for name, found in interleaved(subjects, queries, plan.rounds).items():
            rows += latency_rows(CORPUS, name, group, found)
    rows.append(spread(CORPUS, "search", group, "peak_rss_mb", [reading.peak_mb], plan.turns))
    return rows


def _open(folder: Path, dimension: int) -> Memory:
    embedder = HashEmbedder(dimension)
    return Memory(Store(folder), embedder, BaselineDecider(), ExtractiveWriter(), SystemClock())


def _words(generator: np.random.Generator, count: int) -> list[str]:
    syllables = generator.integers(len(_SYLLABLES), size=(count, 4)).tolist()
    lengths = generator.integers(2, 5, size=count).tolist()
    return ["".join(_SYLLABLES[i] for i in row[:length]) for row, length in zip(syllables, lengths, strict=True)]


def _drawn(generator: np.random.Generator, words: Sequence[str], count: int) -> list[str]:
    places = np.minimum(generator.zipf(1.3, count), len(words)) - 1
    return [words[place] for place in places]
