"""The parts of the read path that can be switched off one at a time, to see what each is worth."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from ..errors import InputError


@dataclass(frozen=True, slots=True)
class Parts:
    """Which parts a search uses; the default is all of them.

    scope: what turns lend to those of their scope, scope-mates in a context, and the scope facet of `stitch`
        (STITCH, section 3.1).
    event, entity_types: that label facet of the question (STITCH, section 3.1).
    grounding: vectors of grounded texts beside those of the raw ones (STITCH, section 3.2).
    records, states: reading by requirement (EnSIMem, section 4); versioned facts (EMIR2, section 3.2).
    links: expansion along typed links between episodes (EMIR2, section 3.1).
    rounds: more than one round of retrieval (EMIR2, section 3.3).
    reranker: scoring what is left for its support of the question (EMIR2, section 3.3).
    """

    scope: bool = True
    event: bool = True
    entity_types: bool = True
    grounding: bool = True
    records: bool = True
    states: bool = True
    links: bool = True
    rounds: bool = True
    reranker: bool = True

    def without(self, part: str) -> Parts:
        """The same with one part off.

        Raises:
            InputError: there is no such part.
        """
        if part not in PARTS:
            raise InputError("part", f"{part!r} is unknown", f"one of {', '.join(PARTS)}")
        return replace(self, **{part: False})


PARTS: tuple[str, ...] = tuple(field.name for field in fields(Parts))
"""Names of the parts, in the order of the read path."""
ALL_PARTS = Parts()
