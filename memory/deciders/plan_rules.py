"""The plan of a question from its wording: English, with the plain question words of Chinese, Japanese and Korean.

Each rule that matches adds its weight to a label's score; a softmax within each group makes the scores probabilities.
Groups, labels and their meaning are those of the task `plan` (EnSIMem, section 4.1; EMIR2, section 3.3).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from ..tasks import PLAN
from .cues import pattern

# label: (weight, pattern) pairs. Labels are unique over the groups, so one table serves all four.
_RULES: Mapping[str, tuple[tuple[float, str], ...]] = {
    "temporal": (
        (3.0, r"\bwhen\b(?! (we|you|they|i|he|she) )|\bhow long\b|\bhow (recently|soon|early|late)\b|\bsince when\b"),
        (2.5, r"\b(what|which) (date|day|month|year|time|week|weekend|season|century|hour)s?\b"),
        (
            2.0,
            r"\bin (what|which) order\b|\b(first|last|latest|earliest|most recent(ly)?)\b|\bas of\b|\bhow long ago\b",
        ),
        (1.5, r"\b(before|after|until|since|during|prior to|by the time|at that time|ago|yesterday|currently)\b"),
        (1.0, r"\b(last|next|this) (week|month|year|summer|winter|spring|fall|autumn|night|weekend)\b"),
        (
            3.0,
            r"什么时候|何时|多久|几点|哪[天年月]|几[月号]|いつ|何[時日年月]|どのくらいの(間|期間)|"
            r"언제|며칠|몇 ?[시월년]|얼마나 오래",
        ),
    ),
    "aggregation": (
        (3.0, r"\bhow many\b|\bhow often\b|\b(in total|altogether|total (number|amount))\b|\blist\b|\bcount\b"),
        (2.0, r"\b(all|every|each|both|various|different)\b|\b(compare|most|least|average|sum)\b"),
        (2.0, r"\b(what|which) (are|were) (the |some |all )?|\b(what|which) (kinds?|types?|sorts?) of\b"),
        (1.8, r"\b(what|which) (\w+ )?\w{2,}(?<![sui])s (do|does|did|has|have|had|is|are|was|were|can|could|will)\b"),
        (
            3.0,
            r"多少|几[个次位种件]|哪些|所有|一共|列出|全部|いくつ|何[人回個件]|すべて|全て|몇 ?[명번개]|모든|모두|전부",
        ),
    ),
    "compositional": (
        (2.5, r"\b(would|might|could) .*\b(if|likely|consider|enjoy|prefer|be (open|interested|willing))\b"),
        (2.0, r"\b(in common|both .+ and|related to|based on|considering|given that|as a result of)\b"),
        (
            1.5,
            r"'s \w+(?: \w+)?'s\b|"
            r"\b(who|which|that) (also|later|then|had|was|were|is|has)\b.*\b(who|which|that|where)\b",
        ),
        (3.0, r"\b(what|which|who|where|how|when) .+(\band|,) (what|which|who|where|how|when)\b"),
        (1.5, r"\bwhile\b|\bas well as\b"),
        (1.0, r"\bwhy\b|\bhow (did|has|have) .+ (change|affect|influence|help|lead|evolve)"),
        (1.5, r"如果|共同|都.*和|もし|共通|만약|공통"),
    ),
    "point": ((2.2, r""),),
    "time": (
        (4.0, r"\bwhen\b|\bhow long\b|\b(what|which) (date|day|month|year|time|week|weekend|season)\b"),
        (4.0, r"什么时候|何时|多久|几点|哪[天年月]|いつ|何[時日年月]|언제|며칠|몇 ?[시월년]|얼마나 오래"),
    ),
    "value": (
        (3.0, r"\bhow (much|old|far|tall|big|large|high|fast|heavy|deep|expensive)\b"),
        (
            2.5,
            r"\b(what|which) (is|was|are|were)? ?(the |its |his |her |their |my )?(\w+ )?(price|cost|rating|size|name|"
            r"number|address|colou?r|age|score|amount|budget|salary|code|title|email|title)\b",
        ),
        (3.0, r"多少钱|多大|いくら|どのくらい|얼마"),
        (1.0, r"\bwhat\b|什么|何|무엇|뭐"),
    ),
    "entity": (
        (4.0, r"\b(who|whom|whose)\b|谁|だれ|誰|누구|누가"),
        (
            1.5,
            r"\bwhich\b|\bwhat (kind|type|sort|brand|book|movie|song|company|restaurant|hotel)\b|"
            r"哪[个位家]|どの|どれ|어느|어떤",
        ),
        (1.1, r"\bwhat\b|什么|何|무엇|뭐"),
    ),
    "location": (
        (4.0, r"\bwhere\b|\b(what|which) (city|country|place|state|town|street|location|region|venue|address)\b"),
        (4.0, r"哪里|哪儿|在哪|どこ|어디"),
    ),
    "count": (
        (4.5, r"\bhow (many|often)\b|\bnumber of\b|几[个次位种件]|多少[个次位种件]|いくつ|何[人回個件]|몇 ?[명번개]"),
    ),
    "list": (
        (4.0, r"\blist\b|\b(what|which) are (all|some)\b|\ball (of )?the\b|哪些|列出|所有|すべて|모두|모든"),
        (2.5, r"\b(what|which) (are|were)\b|\b(what|which) (kinds|types|sorts) of\b"),
        (2.2, r"\b(what|which) (\w+ )?\w{2,}(?<![sui])s (do|does|did|has|have|had|are|were|can|could|will)\b"),
    ),
    "boolean": (
        (4.0, r"^\W*(is|are|was|were|do|does|did|has|have|had|can|could|will|should)\b|\bwhether\b"),
        (4.0, r"吗[？?]?\s*$|是否|です(か)[。？?]?\s*$|ました(か)[。？?]?\s*$|습니까|나요[?？]?\s*$"),
    ),
    "likelihood": (
        (
            4.5,
            r"\b(likely|probably|potential(ly)?|might|possible|possibly|chances?)\b|^\W*would\b|可能|だろう|でしょう|아마",
        ),
        (2.5, r"\bwould\b"),
    ),
    "explanation": (
        (4.0, r"\bwhy\b|\b(what|for what) (reason|purpose)\b|\bhow come\b|\bexplain\b|\bdescribe\b|\bwhat happened\b"),
        (3.0, r"\bhow (do|does|did|is|are|was|were|can|could|has|have|will|should|to|would)\b"),
        (4.0, r"为什么|怎么|如何|なぜ|どうして|どうやって|왜|어떻게"),
    ),
}


def plan(question: str) -> tuple[tuple[str, ...], dict[str, float], float]:
    """One label of each group of the plan, the probability of every label, and that of the four together.

    Probabilities sum to 1 within each group. Span and gate follow from how likely each reasoning and target is.
    """
    groups = {group.name: [option.name for option in group.options] for group in PLAN.groups}
    probabilities = {
        **_softmax({name: _score(name, question) for name in groups["reasoning"]}),
        **_softmax({name: _score(name, question) for name in groups["target"]}),
    }
    several = probabilities["aggregation"] + probabilities["list"] + probabilities["count"]
    joined = probabilities["compositional"]
    probabilities |= _softmax({"one": 1.5, "all_matching": 3.0 * several + joined})
    probabilities |= _softmax(
        {"direct": 2.0, "decompose": 2.0 * joined + 1.2 * _score("compositional", question) / 2.0}
    )
    labels = tuple(max(names, key=probabilities.__getitem__) for names in groups.values())
    return labels, probabilities, math.prod(probabilities[label] for label in labels)


def _score(label: str, question: str) -> float:
    return sum(weight for weight, source in _RULES[label] if pattern(source).search(question))


def _softmax(scores: Mapping[str, float]) -> dict[str, float]:
    total = sum(math.exp(score) for score in scores.values())
    return {name: math.exp(score) / total for name, score in scores.items()}
