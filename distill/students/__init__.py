"""Students at run time: one family for each kind of label space."""
