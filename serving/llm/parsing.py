"""Reading replies: what small models and their servers return instead of what was asked for.

Everything unusable raises `Fault`, whose note is fed back to the model.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError as SchemaViolation
from jsonschema.exceptions import best_match
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from referencing import Registry
from referencing.exceptions import Unresolvable

from intentmem.memory.errors import InputError

from .requests import LETTERS

_FENCE = re.compile(r"```[a-zA-Z]*[ \t]*\n(.*?)```", re.DOTALL)
_THOUGHT = re.compile(r"\s*<(think|thinking)>(.*?)</\1>\s*", re.DOTALL)
_OPENED = re.compile(r"\s*<(?:think|thinking)>")
_SHOWN = 160


class Fault(Exception):
    """A reply that cannot be used.

    raw: the reply. cut: it ended for want of room. note: what the model is told; None says the problem itself.
    """

    def __init__(self, problem: str, raw: str = "", cut: bool = False, note: str | None = None) -> None:
        self.problem = problem
        self.raw = raw
        self.cut = cut
        self.note = note or problem
        super().__init__(problem)


class NoScores(Exception):
    """A choice came without usable probabilities. `lasting`: the server gives none at all."""

    def __init__(self, lasting: bool) -> None:
        self.lasting = lasting
        super().__init__()


class _Lenient(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class _Scored(_Lenient):
    token: str
    logprob: float


class _Token(_Scored):
    top_logprobs: list[_Scored] | None = None


class _Scores(_Lenient):
    content: list[_Token] | None = None


class _Message(_Lenient):
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None


class _Outcome(_Lenient):
    message: _Message = _Message()
    finish_reason: str | None = None
    logprobs: _Scores | None = None


class _Counts(_Lenient):
    prompt_tokens: int = 0
    completion_tokens: int | None = 0


class Reply(_Lenient):
    """One chat completion, as far as it is read."""

    choices: list[_Outcome] = Field(min_length=1)
    usage: _Counts | None = None

    @property
    def texts(self) -> tuple[str, str]:
        """Content and reasoning, each "" where the server left it out."""
        message = self.choices[0].message
        return message.content or "", message.reasoning_content or message.reasoning or ""


def read_reply(data: object) -> Reply:
    """A server's decoded body as a completion.

    Raises:
        Fault: it is none.
    """
    try:
        return Reply.model_validate(data)
    except ValidationError:
        raise Fault("the server's reply is not a chat completion", str(data)) from None


def read_text(reply: Reply, thinking: bool = False) -> str:
    """The text of a reply, without a leading block of thoughts; whatever it says further in stays.

    Where only the field for reasoning is filled, that is the text, unless thinking was left on (then it is thoughts).

    Raises:
        Fault: cut, filtered or empty.
    """
    content, reasoning = reply.texts
    reason = reply.choices[0].finish_reason
    raw = content or reasoning
    if reason == "length":
        looping = len(raw) - len(raw.rstrip()) > max(20, len(raw) // 2)
        note = "it went on with blanks: answer in one line, without blank space" if looping else "it was too long"
        raise Fault("the reply was cut (finish_reason=length)", raw, cut=True, note=note)
    if reason == "content_filter":
        raise Fault("the reply was withheld (finish_reason=content_filter)", raw)
    text = without_thoughts(content) or ("" if thinking else without_thoughts(reasoning))
    if not text.strip():
        raise Fault("the reply is empty", raw)
    return text


def without_thoughts(text: str) -> str:
    """Text after its leading block of thoughts; "" where that block never ends."""
    block = _THOUGHT.match(text)
    if block:
        return text[block.end() :]
    return "" if _OPENED.match(text) else text


def read_object(text: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON object in a reply, checked against the schema.

    Accepted around it: a code fence, a list of one, a wrapper of one key, a bare list for the schema's only property,
    and thoughts before it whose opening tag was part of the prompt.

    Raises:
        Fault: no JSON, the schema itself, or values against the schema.
        InputError: the schema refers to something outside it; nothing is fetched.
    """
    value = _decoded(text)
    if _echoes(value, schema):
        raise Fault("the reply repeats the schema", text, note="it repeated the schema: fill it with values")
    validator = Draft202012Validator(dict(schema), registry=Registry())
    first: SchemaViolation | None = None
    for candidate in _shapes(value, schema):
        try:
            violation = best_match(validator.iter_errors(candidate))
        except Unresolvable as error:
            raise InputError("schema", f"refers to {error.ref!r}, which it does not hold", "define it within") from None
        if violation is None:
            assert isinstance(candidate, dict)
            return candidate
        first = first or violation
    assert first is not None
    raise Fault(f"the reply does not fit the schema: {_described(first)}", text)


def _decoded(text: str) -> object:
    source = text.strip()
    if not source.startswith(("{", "[")):
        source = source.partition("</think>")[2] or source
        fences = _FENCE.findall(source)
        source = fences[0] if len(fences) == 1 else source
    try:
        value = json.loads(source.strip(), parse_constant=_no_constant)
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        detail = error.msg if isinstance(error, json.JSONDecodeError) else str(error)[:_SHOWN]
        raise Fault(f"the reply is not JSON ({detail})", text) from None
    return value


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def _echoes(value: object, schema: Mapping[str, Any]) -> bool:
    if not isinstance(value, dict):
        return False
    known = schema.get("properties", {})
    return value == schema or ("properties" in value and "type" in value and "properties" not in known)


def _shapes(value: object, schema: Mapping[str, Any]) -> Iterator[object]:
    """The value itself, then what it may have been meant to be."""
    yield value
    if isinstance(value, list):
        if len(value) == 1:
            yield value[0]
        names = list(schema.get("properties", {}))
        if len(names) == 1:
            yield {names[0]: value}
    elif isinstance(value, dict) and len(value) == 1:
        (inner,) = value.values()
        if isinstance(inner, list) and len(inner) == 1:
            yield inner[0]
        yield inner


def _described(violation: SchemaViolation) -> str:
    """Where and what, without repeating long lists of allowed ids."""
    where = violation.json_path
    if violation.validator == "enum":
        allowed = ", ".join(json.dumps(one) for one in list(cast(Sequence[object], violation.validator_value))[:20])
        return f"{where}: {str(violation.instance)[:40]!r} is not one of {allowed}"
    return f"{where}: {violation.message[:_SHOWN]}"


def read_scores(reply: Reply, count: int) -> tuple[float, ...]:
    """Probability of each of `count` lettered options from a reply of one token.

    An option that is not among the most probable tokens gets no more than the least of them, and no more than its
    share of what those leave over.

    Raises:
        NoScores: no log-probabilities, or the token is no letter of an option.
        Fault: not a usable number among them.
    """
    scores = reply.choices[0].logprobs
    if scores is None or not scores.content:
        raise NoScores(lasting=True)
    first = scores.content[0]
    letters = LETTERS[:count]
    if first.token.strip() not in set(letters):
        raise NoScores(lasting=False)
    listed = {first.token: first.logprob, **{one.token: one.logprob for one in first.top_logprobs or ()}}
    if any(math.isnan(logprob) for logprob in listed.values()):
        raise Fault("the log-probabilities are not numbers")
    masses = {token: math.exp(min(logprob, 0.0)) for token, logprob in listed.items()}
    found = dict.fromkeys(letters, 0.0)
    for token, mass in masses.items():
        if token.strip() in found:
            found[token.strip()] += mass
    missing = [letter for letter, mass in found.items() if mass == 0.0]
    if missing:
        floor = min(min(masses.values()), max(0.0, 1.0 - sum(masses.values())) / len(missing))
        found.update(dict.fromkeys(missing, floor))
    total = sum(found.values())
    if total <= 0.0:
        raise NoScores(lasting=False)
    return tuple(found[letter] / total for letter in letters)


class LeadingThoughts:
    """Takes a leading block of thoughts out of a text that arrives in pieces."""

    def __init__(self) -> None:
        self._held: str | None = ""

    def feed(self, piece: str) -> str:
        """What may be shown so far of the text with `piece` added."""
        if self._held is None:
            return piece
        self._held += piece
        block = _THOUGHT.match(self._held)
        if block:
            shown = self._held[block.end() :]
            if shown:
                self._held = None
            return shown
        start = self._held.lstrip()
        if _OPENED.match(start) or any(tag.startswith(start) for tag in ("<think>", "<thinking>")):
            return ""
        shown, self._held = self._held, None
        return shown

    def rest(self) -> str:
        """What was held back when the text has ended, unless it is an unfinished block."""
        held, self._held = self._held or "", None
        return without_thoughts(held)
