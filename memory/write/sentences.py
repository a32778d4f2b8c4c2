"""Choosing what matters in a text: key terms and informative sentences, in any language, without a model."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence

from .languages import COMMON_ADJECTIVES, COMMON_VERBS, FUNCTION_WORDS, HAS_CJK, WORD, lower_ascii, sentences

_CJK_RUN = re.compile(r"[぀-ヿ㐀-鿿가-힣豈-﫿]+")
_LIGHT = FUNCTION_WORDS | COMMON_VERBS | COMMON_ADJECTIVES
_MOST_SENTENCES = 40
WHOLE = 200
"""Characters up to which a text is its own summary."""


def content_terms(text: str) -> list[str]:
    """Words that carry topic, lower-case, in order with repeats; for Chinese, Japanese and Korean pairs of
    characters.
    """
    terms = []
    for match in WORD.finditer(text):
        word = match[0]
        if HAS_CJK.search(word):
            for run in _CJK_RUN.findall(word):
                terms += [run[i : i + 2] for i in range(len(run) - 1)] or [run]
            continue
        lowered = re.sub(r"['’]s$", "", lower_ascii(word))
        if lowered not in FUNCTION_WORDS and (len(lowered) > 2 or lowered.isdigit()) and "'" not in lowered:
            terms.append(lowered)
    return terms


def key_phrases(text: str, names: Sequence[str] = ()) -> list[str]:
    """Phrases that tell what a text is about, best first: its names, then runs of up to three content words as written.

    In Chinese, Japanese and Korean, clauses of up to 12 characters stand for phrases.
    """
    scored: dict[str, tuple[float, str]] = {}
    for name in names[:_MOST_SENTENCES]:
        scored.setdefault(name.casefold(), (3.0, name))
    position = 0
    for start, end in sentences(text)[:_MOST_SENTENCES]:
        for phrase in _phrases(text[start:end]):
            weight = min(len(phrase.split()), 3) + 0.1 * min(len(phrase), 20) / 20 - 0.05 * position
            position += 1
            key = phrase.casefold()
            if not any(key in other or other in key for other in scored):
                scored[key] = (weight, phrase)
    return [phrase for _, phrase in sorted(scored.values(), key=lambda item: -item[0])]


def _phrases(sentence: str) -> list[str]:
    phrases: list[str] = []
    run: list[str] = []
    last = 0
    for match in WORD.finditer(sentence):
        word = match[0]
        gap = sentence[last : match.start()]
        light = lower_ascii(word).split("'")[0].split("’")[0] in _LIGHT
        if HAS_CJK.search(word):
            phrases += [word[:12]]
            light = True
        if run and (light or gap.strip() or len(run) == 3):
            phrases.append(" ".join(run))
            run = []
        if not light and (len(word) > 2 or word.isdigit()):
            run.append(word)
        last = match.end()
    if run:
        phrases.append(" ".join(run))
    return [p for p in phrases if not p.isdigit()]


def summary_of(text: str, names: Sequence[str] = ()) -> str:
    """The one or two most informative sentences, in their order; the whole text where it is short. Empty only for a
    blank text.
    """
    text = text.strip()
    if len(text) <= WHOLE:
        return text
    spans = sentences(text)
    if len(spans) <= 1:
        return text[:WHOLE].rstrip()
    names = names[:100]
    scores = [_informative(text[a:b], i, len(spans), names) for i, (a, b) in enumerate(spans)]
    chosen = sorted(sorted(range(len(spans)), key=lambda i: (-scores[i], i))[:2])
    parts = [text[spans[i][0] : spans[i][1]] for i in chosen]
    return " ".join(part[:WHOLE].rstrip() for part in parts)


def _informative(sentence: str, index: int, count: int, names: Sequence[str]) -> float:
    terms = content_terms(sentence)
    length = min(len(set(terms)), 15) / 15
    position = 0.3 if index == 0 else 0.1 if index == count - 1 else 0.0
    named = 0.35 * min(sum(1 for name in names if name in sentence), 3)
    return (
        length
        + position
        + named
        + 0.2 * any(c.isdigit() for c in sentence)
        - (0.3 if len(sentence) > 2 * WHOLE else 0.0)
    )


def central(texts: Sequence[str], count: int) -> list[tuple[int, str]]:
    """The most central sentences of several texts, as (index of the text, sentence), in order.

    Centrality is the mean weight of a sentence's terms, each by the number of sentences that have it, damped for
    length; what was chosen already counts for less.
    """
    pool = [(i, text[a:b]) for i, text in enumerate(texts) for a, b in sentences(text)][:400]
    terms = [set(content_terms(sentence)) for _, sentence in pool]
    weight = Counter(term for found in terms for term in found)
    chosen: list[int] = []
    while len(chosen) < min(count, len(pool)):
        scores = {
            k: sum(math.log1p(weight[t]) for t in terms[k]) / math.sqrt(len(terms[k]) + 4) + (0.2 if k == 0 else 0.0)
            for k in range(len(pool))
            if k not in chosen
        }
        best = max(scores, key=lambda k: (scores[k], -k))
        if chosen and scores[best] < 0.5:
            break
        chosen.append(best)
        for term in terms[best]:
            weight[term] = 0
    return [pool[k] for k in sorted(chosen)]
