"""Inputs with known outputs, kept with each artifact: what a loaded student must still say of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from intentmem.memory.errors import ArtifactError
from intentmem.memory.tasks import Candidates, Decision, Item
from intentmem.memory.types import Turn, Vector

from .backbone import Backbone
from .encoding import AdaptedEncoder, mean_over, padded
from .students.base import Encodings, Student

NAME = "canary.json"
SENTENCES = (
    "Could you find me a cheap Italian restaurant in Oakland for Friday at 7 pm?",
    "No, let's go back to the flight: is there one that leaves before noon?",
    "Her sister moved to Lisbon last spring, which is why she sold the car.",
)
"""What every adapter encodes, whatever its task."""
_EXACT, _REDUCED = 1e-3, 5e-2
_AGAIN = "copy the artifact again from where it was made, or train the student again"


def record(student: Student, items: Sequence[Item], encodings: Encodings) -> dict[str, Any]:
    """What a student says now, as JSON values."""
    decisions = student.decide(items, encodings)
    return {
        "sentences": list(SENTENCES),
        "vectors": pooled(encodings.encoder, student.adapter).tolist(),
        "items": [_item_values(item) for item in items],
        "expected": [_decision_values(decision) for decision in decisions],
    }


def read(folder: Path) -> dict[str, Any]:
    """The canary of an artifact.

    Raises:
        ArtifactError: there is none, or it cannot be read.
    """
    try:
        found: dict[str, Any] = json.loads((folder / NAME).read_text("utf-8"))
        return found
    except (OSError, ValueError) as error:
        raise ArtifactError("canary", f"{folder / NAME} cannot be read: {error}", _AGAIN) from error


def check(name: str, student: Student, canary: Mapping[str, Any], encodings: Encodings, plain: Vector) -> None:
    """Pass a student that says what it said when it was made, through an adapter that is not the base.

    Args:
        name: of the artifact, for the message.
        student, canary, encodings: as it was loaded.
        plain: (S, D), `SENTENCES` through the base alone.

    Raises:
        ArtifactError: its vectors are those of the base, or its vectors or answers are not those expected.
    """
    allowed = tolerance(encodings.encoder.base)
    found = pooled(encodings.encoder, student.adapter)
    if distance(found, plain) <= allowed:
        raise ArtifactError(
            f"{name}.adapter", "changes nothing: the canary comes out as the base alone encodes it", _AGAIN
        )
    expected = np.asarray(canary["vectors"], np.float32)
    if expected.shape != found.shape or distance(found, expected) > allowed:
        raise ArtifactError(f"{name}.canary", "is encoded to other vectors than when the student was made", _AGAIN)
    items = [_item_from(values) for values in canary["items"]]
    for place, (decision, wanted) in enumerate(zip(student.decide(items, encodings), canary["expected"], strict=True)):
        if gap := _gap(decision, wanted, allowed):
            raise ArtifactError(f"{name}.canary[{place}]", gap, _AGAIN)


def pooled(encoder: AdaptedEncoder, adapter: str) -> Vector:
    """`SENTENCES` by an adapter: (S, D)."""
    return np.stack([one.pooled for one in encoder.encode(SENTENCES, [adapter])[adapter]])


def plain(base: Backbone) -> Vector:
    """`SENTENCES` by the base alone, pooled as adapters pool: (S, D)."""
    import torch

    ids, mask = padded([base.tokenizer.encode(text).ids for text in SENTENCES], base.padding, base.device)
    with torch.inference_mode():
        hidden = base.module(input_ids=ids, attention_mask=mask).last_hidden_state.float()
    return np.asarray(mean_over(hidden, mask).cpu().numpy(), np.float32)


def tolerance(base: Backbone) -> float:
    """What may differ between two machines or arithmetics, as a share of a vector's length and of a probability."""
    return _EXACT if str(base.dtype) == "torch.float32" else _REDUCED


def distance(found: Vector, expected: Vector) -> float:
    """Largest distance of two vectors as a share of their length."""
    lengths = np.maximum(np.linalg.norm(expected, axis=1), 1e-9)
    return float((np.linalg.norm(found - expected, axis=1) / lengths).max())


def _gap(decision: Decision, wanted: Mapping[str, Any], allowed: float) -> str:
    if abs(decision.confidence - wanted["confidence"]) > allowed:
        return f"gets confidence {decision.confidence:.4f}, {wanted['confidence']:.4f} was expected"
    for label in {*decision.probabilities, *wanted["probabilities"]}:
        now, then = decision.probabilities.get(label, 0.0), wanted["probabilities"].get(label, 0.0)
        if abs(now - then) > allowed:
            return f"gives {label!r} probability {now:.4f}, {then:.4f} was expected"
    # Within the tolerance two labels may be tied; in full precision the answer is the same.
    if allowed == _EXACT and list(decision.labels) != wanted["labels"]:
        return f"is answered {list(decision.labels)}, {wanted['labels']} was expected"
    return ""


def _decision_values(decision: Decision) -> dict[str, Any]:
    return {
        "labels": list(decision.labels),
        "probabilities": {label: float(share) for label, share in decision.probabilities.items()},
        "confidence": float(decision.confidence),
    }


def _item_values(item: Item) -> dict[str, Any]:
    offered = item.candidates
    turn = None
    if item.turn is not None:
        turn = {**asdict(item.turn), "time": item.turn.time.isoformat(), "attachments": [], "meta": {}}
    return {
        "fields": {name: value if isinstance(value, str) else list(value) for name, value in item.fields.items()},
        "ids": list(offered.ids),
        "texts": list(offered.texts),
        "vectors": None if offered.vectors is None else offered.vectors.tolist(),
        "signals": {name: values.tolist() for name, values in offered.signals.items()},
        "views": {name: vectors.tolist() for name, vectors in offered.views.items()},
        "vector": None if item.vector is None else item.vector.tolist(),
        "turn": turn,
    }


def _item_from(values: Mapping[str, Any]) -> Item:
    try:
        turn = values["turn"]
        if turn is not None:
            turn = Turn(**{**turn, "time": datetime.fromisoformat(turn["time"]), "attachments": ()})
        return Item(
            values["fields"],
            Candidates(
                tuple(values["ids"]),
                tuple(values["texts"]),
                None if values["vectors"] is None else np.asarray(values["vectors"], np.float32),
                {name: np.asarray(numbers, np.float64) for name, numbers in values["signals"].items()},
                {name: np.asarray(vectors, np.float32) for name, vectors in values["views"].items()},
            ),
            None if values["vector"] is None else np.asarray(values["vector"], np.float32),
            turn,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ArtifactError("canary.items", f"cannot be read: {error}", _AGAIN) from error
