"""Synthetic sets in CAME-Bench's manner and file format: simulated worlds, and woven dialogues."""

from .examined import examined
from .files import VERSION, BuiltSet
from .kinds import KINDS, SetSplit
from .sets import build, build_woven

__all__ = ["KINDS", "VERSION", "BuiltSet", "SetSplit", "build", "build_woven", "examined"]
