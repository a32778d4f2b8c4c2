"""An answer from memory: claims that cite turns, or an abstention."""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from itertools import chain
from typing import TYPE_CHECKING, Any, Unpack, cast

from intentmem.memory.addressing import address
from intentmem.memory.errors import ModelError
from intentmem.memory.read.needs import Verdict
from intentmem.memory.read.present import MOST_NEEDED
from intentmem.memory.write.dates import find_dates
from intentmem.memory.write.messages import parse_time

from .budget import durable_ledger
from .port import ModelClient
from .prompts import load_prompt
from .requests import JsonRequest, LLMError, TextRequest, UsageEvent
from .schema import LONG, listing, one_name, record_of
from .texts import fault_of, shown
from .tokens import estimated_tokens

if TYPE_CHECKING:
    from intentmem.memory.memory import Memory
    from intentmem.memory.options import Owner, SearchOptions

ABSTENTION = "This is not in memory."
"""The text of an abstention."""
_OWNER = ("namespace", "user_id", "agent_id", "run_id", "session", "trajectory")
_MOST_CLAIMS, _MOST_TURNS = 12, 6
_NOT_IN_MEMORY = "NOT IN MEMORY"
_CITED = re.compile(r"\s*\[(T\d+(?:\s*[,;]\s*T?\d+)*)\]")
_LABEL = re.compile(r"\d+")
_SENTENCE = re.compile(r"(?<=\])\s*(?=[^\s\[.,;])|(?<=[.!?。！？])\s+(?!\[)|\n+")
_CONFIDENT = 0.6
_ROOM = 768
"""Tokens of a reply."""
_FILLED, _LEAST_BUDGET = 0.75, 64


@dataclass(frozen=True, slots=True)
class Claim:
    """One sentence of an answer and the ids of the turns that say it, at least one."""

    text: str
    turns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer.

    text: the claims together, or `ABSTENTION`. context: ids of the turns that were shown. usage: calls, and tokens
    of the prompt, the reply and the context. warnings: citations and claims that were dropped, and what the search
    warned of. model: who answered, "" where nobody was asked. answerable: as of `Memory.context`, about the turns that
    were shown: "covered", "partial", "missing", or None.
    """

    text: str
    claims: tuple[Claim, ...]
    abstained: bool
    context: tuple[str, ...]
    usage: Mapping[str, int] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    model: str = ""
    answerable: Verdict | None = None

    def as_json(self) -> dict[str, Any]:
        """The answer as plain values."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a model is shown: the context with labels T1, T2, ... in place of ids, which models mangle."""

    memory: str
    turns: tuple[str, ...]
    texts: tuple[str, ...]
    times: tuple[datetime, ...]
    tokens: int
    warnings: tuple[str, ...]
    now: datetime
    query: str
    namespace: int
    answerable: Verdict | None


def answer(
    memory: Memory, client: ModelClient, query: str, *, budget: int | None = None, **options: Unpack[SearchOptions]
) -> Answer:
    """Answer a question from memory. Every claim cites turns of the context; without support it is an abstention.

    Args:
        memory: where to look.
        client: the served model.
        query: the question.
        budget: tokens of context at most, None for what the question needs; less where the model's context has no room
            for them.
        options: as for `Memory.search`; `query_time` is when it is asked, the present by default.

    Raises:
        InputError: naming the unusable argument.
        ModelError: the model failed. A question that finds nothing does not reach it.
    """
    asked = _asked(memory, query, _fitting(client, "answer", query, budget), options)
    if not asked.turns:
        return _abstention(asked, _Spent(memory, asked, ""))
    labels = [f"T{number}" for number in range(1, len(asked.turns) + 1)]
    claim = record_of({"text": LONG, "turns": listing(one_name(labels), _MOST_TURNS)})
    schema = record_of({"answered": {"type": "boolean"}, "claims": listing(claim, _MOST_CLAIMS)})
    spent = _Spent(memory, asked, client.name)
    with client.charging(spent):
        found = client.structured([JsonRequest(_messages("answer", asked), schema, _ROOM, task="answer")])[0]
    if isinstance(found, LLMError):
        raise found
    said = [(str(part.get("text") or ""), list(part.get("turns") or ())) for part in found.get("claims") or ()]
    return _checked(asked, said if found.get("answered") else [], spent)


def stream_answer(
    memory: Memory, client: ModelClient, query: str, *, budget: int | None = None, **options: Unpack[SearchOptions]
) -> Generator[str, None, Answer]:
    """As `answer`, the text piece by piece, citations as `[T1]`; returns the checked answer at the end.

    A citation of a turn that is not in the context is never shown. What was shown without any citation is dropped from
    the answer that is returned.

    Raises:
        InputError, ModelError: as for `answer`.
    """
    asked = _asked(memory, query, _fitting(client, "answer_stream", query, budget), options)
    if not asked.turns:
        yield ABSTENTION
        return _abstention(asked, _Spent(memory, asked, ""))
    spent = _Spent(memory, asked, client.name)
    whole, held, opened = "", "", False
    # Whoever pays is settled by the first piece: a context must not stay entered while the caller has control.
    with client.charging(spent):
        stream = client.stream(TextRequest(_messages("answer_stream", asked), _ROOM, task="answer"))
        first = next(stream, "")
    for piece in chain([first], stream):
        whole += piece
        held += piece
        if not opened and len(whole.lstrip()) < len(_NOT_IN_MEMORY) + 2:
            continue
        opened = opened or not _abstains(whole)
        if opened:
            ready, held = _ready(held, len(asked.turns))
            yield ready
    if opened or not _abstains(whole):
        yield _known_only(held, len(asked.turns))
        return _checked(asked, _sentences(whole), spent)
    yield ABSTENTION
    return _abstention(asked, spent)


def _fitting(client: ModelClient, prompt: str, query: str, budget: int | None) -> int | None:
    """The budget, as far as the model's context has room for it beside prompt and reply.

    The budget is counted by the encoder's tokenizer, and labels and dates come on top: a share stays free for that.
    """
    try:
        length = client.context_tokens
    except ModelError:
        return budget  # the call that follows tells what is wrong
    if length is None:
        return budget
    loaded = load_prompt(prompt)
    rest = [loaded.system, query, *(text for example in loaded.examples for text in example), *loaded.tasks.values()]
    free = length - _ROOM - sum(map(estimated_tokens, rest))
    room = max(_LEAST_BUDGET, int(free * _FILLED))
    return (budget if room >= MOST_NEEDED else room) if budget is None else max(_LEAST_BUDGET, min(budget, room))


def _asked(memory: Memory, query: str, budget: int | None, options: SearchOptions) -> _Asked:
    now = parse_time(options.get("query_time"), "query_time") or memory.clock.now()
    found = memory.context(query, budget=budget, **cast("SearchOptions", {**options, "query_time": now}))
    owner = cast("Owner", {key: options[key] for key in _OWNER if key in options})  # type: ignore[literal-required]
    shown_turns = [memory.get(turn, **owner) for turn in found["turns"]]
    times = tuple(datetime.fromisoformat(turn["created_at"]) for turn in shown_turns)
    return _Asked(
        memory=_labelled(found["text"], found["turns"], times),
        turns=tuple(found["turns"]),
        texts=tuple(f"{turn['speaker'] or turn['role']} {turn['memory']}" for turn in shown_turns),
        times=times,
        tokens=found["tokens"],
        warnings=tuple(found["warnings"]),
        now=now,
        query=query,
        namespace=memory.store.namespaces.ordinal(address(**owner).namespace),
        answerable=found["answerable"],
    )


def _labelled(text: str, turns: Sequence[str], times: Sequence[datetime]) -> str:
    """A context with labels in place of ids, and relative dates worked out in brackets."""
    lines, at, base = [], 0, None
    for line in text.splitlines():
        mark = f"({turns[at]}): " if at < len(turns) else None
        # The id of a turn is drawn at random: no text that was stored before it can hold it.
        if mark is not None and not line[:1].isspace() and mark in line:
            head, _, rest = line.partition(mark)
            base, at = times[at], at + 1
            line = f"{head}(T{at}): {_dated(rest, base)}"
        elif base is not None and line[:1].isspace():
            line = _dated(line, base)
        lines.append(line)
    return "\n".join(lines)


def _dated(text: str, base: datetime) -> str:
    """The text with ` [2023-05-07]` after each relative date."""
    parts, last = [], 0
    for date in find_dates(text, base):
        if date.relative and date.confidence >= _CONFIDENT and date.granularity not in ("hour", "minute"):
            parts += [text[last : date.end], f" [{date.iso}]"]
            last = date.end
    return "".join([*parts, text[last:]])


def _messages(name: str, asked: _Asked) -> list[dict[str, str]]:
    prompt = load_prompt(name)
    advice = prompt.tasks.get(asked.answerable or "")
    return prompt.messages(
        memory=asked.memory,
        now=f"{asked.now:%A %Y-%m-%d %H:%M}",
        found=f"\n{advice}" if advice else "",
        question=shown(asked.query, 4000),
    )


def _checked(asked: _Asked, said: Sequence[tuple[str, Sequence[str]]], spent: _Spent) -> Answer:
    """The answer of what was said: citations that are not in the context and claims without one are dropped."""
    claims: list[Claim] = []
    unknown, unsupported, faulty = 0, 0, 0
    for raw, cited in said:
        places = [_place(label, len(asked.turns)) for label in dict.fromkeys(cited)]
        known = [place for place in places if place is not None]
        unknown += len(places) - len(known)
        text = " ".join(raw.split())
        if not any(character.isalnum() for character in text):
            continue
        if not known:
            unsupported += 1
            continue
        sources = [asked.query, asked.now.isoformat(), *(asked.texts[place] for place in known)]
        # Numbers and dates are worked out: an answer need share no word with its turns.
        if (fault := fault_of(text, sources, 1000)) and "word" not in fault and "script" not in fault:
            faulty += 1
            continue
        claims.append(Claim(_in_full(asked, text, known), tuple(asked.turns[place] for place in known)))
    warnings = [*asked.warnings]
    for count, what in (
        (unknown, "citations of turns that were not in the context were dropped"),
        (unsupported, "claims without a citation were dropped"),
        (faulty, "unusable claims were dropped"),
    ):
        if count:
            warnings.append(f"{count} {what}")
    if not claims:
        return _abstention(asked, spent, warnings)
    text = " ".join(claim.text for claim in claims)
    told = tuple(warnings)
    return Answer(text, tuple(claims), False, asked.turns, spent.usage, told, spent.model, asked.answerable)


def _in_full(asked: _Asked, text: str, places: Sequence[int]) -> str:
    """The claim with relative dates that it took over from a turn resolved against that turn's own time."""
    for place in places:
        said = {date.surface.casefold(): date for date in find_dates(asked.texts[place], asked.times[place])}
        for date in reversed(find_dates(text, asked.times[place])):
            source = said.get(date.surface.casefold())
            if source is None or not date.relative or source.confidence < _CONFIDENT or source.iso in text:
                continue
            text = f"{text[: date.end]} [{source.iso}]{text[date.end :]}"
    return text


def _abstention(asked: _Asked, spent: _Spent, warnings: Sequence[str] | None = None) -> Answer:
    told = tuple(asked.warnings if warnings is None else warnings)
    return Answer(ABSTENTION, (), True, asked.turns, spent.usage, told, spent.model, asked.answerable)


class _Spent:
    """What an answer costs, counted here and charged to the memory's ledger."""

    def __init__(self, memory: Memory, asked: _Asked, model: str) -> None:
        self.model = model
        self._asked = asked
        self._events: list[UsageEvent] = []
        self._ledger = durable_ledger(memory.store, asked.namespace, "", model)

    def __call__(self, event: UsageEvent) -> None:
        self._events.append(event)
        self._ledger(event)

    @property
    def usage(self) -> dict[str, int]:
        """Calls and tokens so far, and those of the context."""
        return {
            "llm_calls": sum(event.calls for event in self._events),
            "prompt_tokens": sum(event.prompt_tokens for event in self._events),
            "completion_tokens": sum(event.completion_tokens for event in self._events),
            "context_tokens": self._asked.tokens,
            "context_turns": len(self._asked.turns),
        }


def _place(label: object, count: int) -> int | None:
    """Position of a labelled turn, None where there is none of this label."""
    number = _LABEL.search(str(label))
    return int(number.group()) - 1 if number and 1 <= int(number.group()) <= count else None


def _abstains(text: str) -> bool:
    start = " ".join(re.sub(r"[^\w\s]", "", text).split()).casefold()
    return start.startswith(_NOT_IN_MEMORY.casefold()) or not start


def _sentences(text: str) -> list[tuple[str, list[str]]]:
    """Sentences with their citations; a citation belongs to the text before it."""
    found = []
    for part in _SENTENCE.split(text):
        cited = [f"T{number}" for match in _CITED.finditer(part) for number in _LABEL.findall(match.group(1))]
        found.append((_CITED.sub("", part).strip(), cited))
    return [(sentence, cited) for sentence, cited in found if sentence or cited]


def _known_only(text: str, count: int) -> str:
    """The text without citations of turns that were not shown."""

    def known(match: re.Match[str]) -> str:
        kept = [n for n in _LABEL.findall(match.group(1)) if 1 <= int(n) <= count]
        return f" [{', '.join(f'T{n}' for n in kept)}]" if kept else ""

    return _CITED.sub(known, text)


def _ready(text: str, count: int) -> tuple[str, str]:
    """What can be shown, and what must wait because it may become a citation."""
    cut = len(text.rstrip()) if (opened := text.rfind("[")) < 0 or "]" in text[opened:] else opened
    cut = len(text[:cut].rstrip())
    return _known_only(text[:cut], count), text[cut:]
