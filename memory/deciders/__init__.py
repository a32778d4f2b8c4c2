"""Decisions that need no model beyond the encoder."""

from .baseline import BaselineDecider
from .label_rule import EventWeights, TypeWeights
from .scope_rule import ScopeWeights

__all__ = ["BaselineDecider", "EventWeights", "ScopeWeights", "TypeWeights"]
