"""The stand-in students of the tests of `distill`."""

from distill.conftest import mood_family, tiny, tiny_folder, trained

__all__ = ["mood_family", "tiny", "tiny_folder", "trained"]
