"""Words of general English, and the characters of other scripts, that the rules of this folder share.

None of it is tied to a corpus. English is read by words; Chinese, Japanese and Korean by characters, as far as each
module says. Everything here is data: no rule, no state.
"""

from __future__ import annotations

import re

_ASCII_LOWER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}


def lower_ascii(text: str) -> str:
    """Lower-case A to Z alone, so that every offset into the result is one into `text` (`str.lower` may lengthen)."""
    return text.translate(_ASCII_LOWER)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


MONTHS = {
    name: number
    for number, names in enumerate(
        (
            "january jan", "february feb", "march mar", "april apr", "may", "june jun", "july jul", "august aug",
            "september sept sep", "october oct", "november nov", "december dec",
        ),
        start=1,
    )
    for name in names.split()
}  # fmt: skip
"""English month name or abbreviation, lower-case -> 1..12."""

WEEKDAYS = {
    name: number
    for number, name in enumerate(["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"])
}
"""English weekday, lower-case -> 0..6, Monday first."""

NUMBERS = {
    name: number
    for number, name in enumerate(
        ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
    )
} | {"a": 1, "an": 1}
"""English number word -> its value; articles count as one."""

ORDINALS = {
    name: number
    for number, name in enumerate(
        [
            "first",
            "second",
            "third",
            "fourth",
            "fifth",
            "sixth",
            "seventh",
            "eighth",
            "ninth",
            "tenth",
            "eleventh",
            "twelfth",
        ],
        start=1,
    )
}
"""English ordinal word -> 1..12."""

FUNCTION_WORDS = _words(
    """
    a about above after again against ain all also although am among an and any anybody anyone anything are aren
    around as at be because been before being below between both but by can cannot could couldn d did didn do
    does doesn doing don down during each either else ever every everyone everything few for from further had
    hadn has hasn have haven having he her here hers herself him himself his how however i if in into is isn it
    its itself just ll least less let lets like m many may me might mine more most much must my myself near need
    neither no nobody none nor not nothing now of off often on once one ones only onto or other others our ours
    ourselves out over own per perhaps please quite rather re really s same shall she should shouldn since so
    some somebody someone something soon still such t than thank thanks that the their theirs them themselves
    then there these they thing things this those though through to too toward under until up upon us ve very
    via was wasn we well were weren what whatever when where whether which while who whom whose why will with
    within without won would wouldn yes yet you your yours yourself yourselves ok okay hi hello hey oh wow sure
    great good fine nice yeah yep nope no maybe alright right sorry welcome actually
    """
)
"""Words that carry no topic: articles, pronouns, auxiliaries, prepositions, fillers."""

COMMON_VERBS = _words(
    """
    add ask ate attend be become began book bought bring buy call came cancel change check choose come compare
    confirm consider cook create decide describe do eat enjoy explain feel felt find finish fix forget found
    gave get give go going gone got had have hear heard help hope invite join keep knew know leave left list
    listen live locate look looking love made make meet met move moved need order pay pick plan play prefer
    provide purchase put ran read recommend remember remind reschedule reserve revisit run said saw say schedule
    search see seem send sent set share show sing start started stay stayed stop suggest switch take taking talk
    tell thanks think thought told took travel tried try update use used visit visited wait walk want wanted
    watch went wish wonder work write wrote
    """
)
"""Frequent verbs: capitalised at the start of a sentence they are not part of a name."""

COMMON_ADJECTIVES = _words(
    """
    amazing awesome bad beautiful best better big both certain cheap cheaper cheapest close cold common cool
    current different early easy entire exact excellent existing expensive extra fabulous fantastic famous fancy
    fast favorite favourite final first former free fresh full fun good great happy high hot huge interesting
    key large last late latest latter little local long lovely low main major modern moderate neat new newest
    next nice old only open other perfect popular possible pretty previous quick quiet rare real recent safe
    same second several short similar simple single slow small special strong sweet third tiny top total
    traditional unique usual various very warm whole wonderful wrong young
    """
)
"""Frequent adjectives: they are never what a thing is."""

PLACE_NOUNS = _words(
    """
    airport apartment arena attraction bakery bank bar beach bistro bookstore building cafe café campsite castle
    cathedral cinema church clinic club college dentist diner festival gallery garden gym hall hospital hostel
    hotel house inn island lake library lodge mall market monument mosque motel mountain museum office palace
    park pharmacy pizzeria pub resort restaurant salon school shop spa stadium station store studio supermarket
    temple theater theatre tower trail university venue villa winery zoo
    """
)
"""Kinds of place that one can be at."""

THING_NOUNS = _words(
    """
    airline album app article band book brand bus car class company concert conference course cruise dish drink
    event exhibit exhibition film flight game journal laptop magazine model movie novel paper phone play podcast
    product project recipe series ship show song tour train vehicle wine workshop
    """
)
"""Kinds of thing, work and event that are named."""

PERSON_NOUNS = _words(
    """
    actor aunt author boss boyfriend brother client coach colleague cousin coworker daughter director doctor
    father friend girlfriend husband manager mentor mother neighbor neighbour partner patient professor roommate
    sister son student stylist teacher therapist uncle wife
    """
)
"""Kinds of person."""

STREET_NOUNS = _words(
    "street st avenue ave road rd lane ln way boulevard blvd drive dr court ct plaza square place row highway"
)

SELDOM_IT_NOUNS = _words(
    """airport station stadium arena building campus street mall island mountain lake beach school office airline brand
    company bus train"""
)
"""What others are at, near or by: "it" seldom means one of them."""

CLASS_NOUNS = PLACE_NOUNS | THING_NOUNS | PERSON_NOUNS

PLACE_WORDS = _words("place spot location venue")
OPTION_WORDS = _words("one option choice suggestion pick recommendation candidate item")

NAME_JOINERS = _words("of de la le du del della di da dos van von der den el al y des and the")

HAS_CJK = re.compile(r"[぀-ヿ㐀-鿿가-힣豈-﫿]")
"""One character of kana, Han or Hangul."""

SENTENCE = re.compile(r"[^\n.!?。！？…]+(?:[.](?=\w)[^\n.!?。！？…]*)*[.!?。！？…]*[\"'”’」』）)\]*]*|[.!?。！？…]+")
"""A sentence: up to its end mark or the end of the line; a full stop inside a number or an address does not end it."""

_ENUMERATOR = re.compile(r"\d{1,3}\.|(?:Dr|Mr|Mrs|Ms|St|Prof|e\.g|i\.e|vs)\.|.{1,60}\b(?:Dr|Mr|Mrs|Ms|St|Prof|vs)\.")

WORD = re.compile(r"[^\W_]+(?:['’\-][^\W_]+)*")
"""A word with inner apostrophes or hyphens."""


def singular(noun: str) -> str:
    """Singular of a regular English plural, in lower case; other words come back as they are."""
    word = lower_ascii(noun)
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 4 and word.endswith(("ches", "shes", "sses", "xes")):
        return word[:-2]
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


def sentences(text: str) -> list[tuple[int, int]]:
    """Offsets of the sentences of a text, without the white space around them; never an empty one."""
    found: list[tuple[int, int]] = []
    for match in SENTENCE.finditer(text):
        start, end = match.span()
        while start < end and text[start].isspace():
            start += 1
        while end > start and text[end - 1].isspace():
            end -= 1
        if end <= start:
            continue
        if found and _ENUMERATOR.fullmatch(text, *found[-1]) and "\n" not in text[found[-1][1] : start]:
            start = found.pop()[0]
        found.append((start, end))
    return found


class Cover:
    """Which characters of a text are taken: spans of one kind must not overlap, however many there are."""

    def __init__(self, length: int) -> None:
        self._taken = bytearray(length)

    def is_free(self, start: int, end: int) -> bool:
        """Whether none of the characters is taken."""
        return not any(self._taken[start:end])

    def take(self, start: int, end: int) -> bool:
        """Take them if all are free, and say whether they were."""
        free = self.is_free(start, end)
        if free:
            self._taken[start:end] = b"\x01" * (end - start)
        return free
