"""Corpora as traces: what annotators or templates decided, in the form in which a teacher's decisions are kept."""
