"""What a namespace has records about: entities under all their names, and the properties of each (EnSIMem, 4.1)."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from ..store import Store
from ..store.labels import followed
from ..store.lexical import query_terms
from ..write.claim_keys import entity_key, is_user, property_key
from ..write.entities import name_key
from ..write.languages import FUNCTION_WORDS
from ..write.properties import root_names
from .kept import Kept
from .needs import Property

_ROUND = re.compile(r"[?!:;()\[\]“”]")
_NAMESPACES = 64
Version = tuple[object, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Catalogue:
    """Entities and their properties, as the records of a namespace had them.

    entities: the key of every name, with the one that it stands for. properties: by that one, the most frequent first.
    longest: words of the longest name.
    """

    version: Version
    entities: Mapping[str, str]
    properties: Mapping[str, tuple[Property, ...]]
    longest: int

    def entity(self, name: str) -> str:
        """The entity of a name, by its exact, case-folded or alias key; "" where there is none."""
        return self.entities.get(entity_key(name), "") if name.strip() else ""

    def named_in(self, text: str) -> list[str]:
        """Entities that a text names, those of the longest names first, the user in the first person last."""
        if not self.entities:
            return []
        words = name_key(_ROUND.sub(" ", text))
        found: list[tuple[bool, int, str]] = []
        for size in range(min(self.longest, len(words)), 0, -1):
            for start in range(len(words) - size + 1):
                name = " ".join(words[start : start + size])
                key = entity_key(name)
                if key in self.entities and (key != name or name not in FUNCTION_WORDS):
                    found.append((is_user(key), -size, self.entities[key]))
        return list(dict.fromkeys(entity for *_, entity in sorted(found, key=lambda one: one[:2])))

    def asked(self, entity: str, words: AbstractSet[str]) -> tuple[Property, ...]:
        """Properties of an entity whose whole name is among some words; of "time" and "departure time" the latter."""
        found = [(one, said) for one in self.properties.get(entity, ()) if (said := one.asked_by(words))]
        return tuple(one for one, said in found if not any(said < other for _, other in found))


EMPTY = Catalogue((), {}, {}, 0)


class CatalogueCache:
    """The catalogue of each namespace, made anew when its records, aliases or labels change."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._kept = Kept[int, Catalogue](_NAMESPACES)

    def get(self, namespace: int) -> Catalogue:
        """The catalogue as SQLite has it."""
        records = self._store.record_index.version(namespace)
        aliases = self._store.record_index.aliases(namespace)
        version = (self._store.namespaces.epoch(namespace), records, tuple(sorted(aliases.items())))
        known = self._kept.get(namespace)
        if known is None or known.version != version:
            known = self._made(namespace, version, aliases)
            self._kept.put(namespace, known)
        return known

    def _made(self, namespace: int, version: Version, aliases: Mapping[str, str]) -> Catalogue:
        roots, ends = root_names(self._store, namespace), followed(aliases)
        found: dict[str, dict[str, list[str]]] = defaultdict(dict)
        entities: dict[str, str] = {}
        for key, written in self._store.record_index.addresses(namespace):
            entities[key] = ends.get(key, key)
            name = roots.get(property_key(written), written)
            found[entities[key]].setdefault(name, [name]).append(written)
        # An alias that has no records of its own is a name too.
        entities |= {alias: end for alias, end in ends.items() if end in found}
        properties = {
            entity: tuple(_property(name, names) for name, names in named.items()) for entity, named in found.items()
        }
        return Catalogue(version, entities, properties, max((len(key.split()) for key in entities), default=0))


def _property(name: str, names: Sequence[str]) -> Property:
    keys = tuple(dict.fromkeys(property_key(one) for one in names))
    return Property(name, keys, tuple(words for key in keys if (words := frozenset(query_terms(key)))))
