"""Questions with gold: wordings by template, and what is asked of woven trajectories."""

from .ask import ask
from .plans import plan_questions
from .templates import SPLITS, Split, Template, load_templates

__all__ = ["SPLITS", "Split", "Template", "ask", "load_templates", "plan_questions"]
